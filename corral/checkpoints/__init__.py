"""Storing and finding checkpoints. No Kubernetes in it."""
