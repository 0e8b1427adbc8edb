"""What each request is answered, one module for each area. :mod:`table` has them all."""
