"""Spot jobs, their machines and backups: the reconcilers, and what webhooks say of them."""
