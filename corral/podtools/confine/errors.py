"""What can go wrong before code is confined."""

from __future__ import annotations

__all__ = ["ConfineError", "Refused"]


class ConfineError(Exception):
    """This machine cannot keep code in; nothing was run."""


class Refused(ConfineError):
    """The kernel did not take a rule."""
