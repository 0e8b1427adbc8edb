"""The corral command line."""
