"""Corral: one Kubernetes-native platform for every way people train models together."""

__version__ = "0.1.0"
