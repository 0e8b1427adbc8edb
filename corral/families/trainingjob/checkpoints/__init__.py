"""Checkpoint objects of TrainingJobs and the data that they stand for."""
