"""Checkpoints on a volume: their format, the folders they are made in, and what replicas agree."""
