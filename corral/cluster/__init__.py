"""The embedded cluster: API server, workload controllers, node agent, registry, broker."""
