"""The HTTP face of the API server: negotiation, bodies, verbs, watches, discovery."""
