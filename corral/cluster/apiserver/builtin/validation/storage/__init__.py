"""Persistent volumes, claims, and the classes and drivers behind them."""
