"""A Kubernetes API server in one Python process, durable in SQLite."""
