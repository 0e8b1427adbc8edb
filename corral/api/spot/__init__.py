"""``training.training.dcnlab.com/v1alpha1``: training on spot machines, backups of pods."""
