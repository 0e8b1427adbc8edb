"""The built-in kinds: their defaults, their validation and their write strategies."""
