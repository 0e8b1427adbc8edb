"""Kubernetes Events about objects: recorded beside the work, correlated, rate-limited."""
