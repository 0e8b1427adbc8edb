"""What the API server asks us before an object of ``kafkaml.corral.dev`` is written.

Defaults and every mistake with its field come from the kinds themselves (`corral.api.kafkaml`).
"""

from __future__ import annotations

from corral.api.kafkaml.kinds import KINDS
from corral.runtime.webhooks.hooks import Hooks

__all__ = ["register_hooks"]


def register_hooks(hooks: Hooks) -> None:
    """Default and validate the five kinds."""
    for kind in KINDS:
        hooks.kind(kind, early=True)
