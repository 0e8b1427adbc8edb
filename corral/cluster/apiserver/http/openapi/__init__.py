"""OpenAPI documents of the API server, version 3 and version 2."""
