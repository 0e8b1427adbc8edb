"""A module that no pod has."""


def far_away() -> None:
    """Of this module."""
