"""The gateway: REST and gRPC in front of the Kubernetes API.

`service` holds what can be asked and what it means; `rest` and `grpc` are views on it that say the
same things. Every request goes to the API server with the caller's own token: the gateway has no
rights of its own. Start with `service.Gateway`, then `rest.app` and `process`.
"""
