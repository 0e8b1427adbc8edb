"""Volumes of pods, and the objects and tokens that their files come from."""
