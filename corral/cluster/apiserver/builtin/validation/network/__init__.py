"""Services, endpoints, ingresses, network policies and addresses."""
