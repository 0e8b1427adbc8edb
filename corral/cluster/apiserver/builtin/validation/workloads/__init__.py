"""Kinds that make pods: deployments, sets, jobs, and what scales or protects them."""
