"""The objects that an MPIJob consists of: launcher, workers, ConfigMap, Secret, PodGroup."""
