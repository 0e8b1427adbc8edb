"""What the controllers of every family of kinds share."""
