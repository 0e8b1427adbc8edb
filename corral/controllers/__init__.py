"""One package per family of controllers."""
