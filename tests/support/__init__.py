"""What cases of every layer share."""
