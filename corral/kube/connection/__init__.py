"""How a client reaches an API server: configuration, credentials, TLS, HTTP."""
