"""What the API server asks us before an object of ``propeller.absmach.io`` is written.

Defaults, every mistake with its field, and warnings come from the kinds themselves
(`corral.api.propeller`): the controllers judge by the same rules where webhooks are not installed.
"""

from __future__ import annotations

from corral.api.propeller.kinds import KINDS
from corral.runtime.webhooks.hooks import Hooks

__all__ = ["register_hooks"]


def register_hooks(hooks: Hooks) -> None:
    """Default and validate the five kinds."""
    for kind in KINDS:
        hooks.kind(kind, early=True)
