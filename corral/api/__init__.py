"""Corral's own kinds, one module per API group."""
