"""ConfigMaps, Secrets, Namespaces, Nodes, quotas and Events."""
