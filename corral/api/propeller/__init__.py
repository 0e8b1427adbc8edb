"""``propeller.absmach.io/v1alpha1``: tasks on proplets, federated learning in rounds of them."""
