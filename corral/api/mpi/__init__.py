"""``kubeflow.org/v2beta1``: MPIJob."""
