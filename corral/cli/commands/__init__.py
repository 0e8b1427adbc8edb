"""The commands of ``corral``, one module for each group of them."""
