"""The Python API for people and notebooks."""
