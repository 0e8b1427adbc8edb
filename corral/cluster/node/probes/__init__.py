"""Probes of containers, and how the node reaches a port of a pod."""
