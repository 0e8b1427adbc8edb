"""The workload controllers of the embedded cluster: plain clients of the Kubernetes API."""
