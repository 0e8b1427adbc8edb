"""What a pod's status says about its state and its failure."""
