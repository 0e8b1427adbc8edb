"""The federated learning engine: pure Python and NumPy, no Kubernetes."""
