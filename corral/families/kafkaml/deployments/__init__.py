"""FederatedDeployments: find data for models, and have them trained by pods.

For every model of a deployment there is a result, with a federated id of its own and a server Job
that makes its rounds; for every datasource that fits it (`matching`) a client Job. What the server
says of rounds, versions and metrics is its own; phases, Jobs and places of models are ours
(`state`, `participants`, `jobs`). `topics` removes what deployments leave in a broker.
"""
