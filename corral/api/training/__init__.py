"""``training.corral.dev/v1alpha1``: TrainingJob and Checkpoint."""
