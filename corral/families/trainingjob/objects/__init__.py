"""The objects that a TrainingJob consists of: pods, Services, volumes, PodGroups."""
