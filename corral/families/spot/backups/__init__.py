"""CheckpointBackup: pods saved as images, by engine."""
