"""A wish for a checkpoint, told from one replica to the others through the volume they share.

It is one small file that every replica looks at between two steps. A replica that was told to
stop, or that finds a sharded checkpoint due, writes the step at which all shall save; with a
synchronous training no other replica can be further than the step at hand by then. The file is
only a wish: what comes of it is decided by the manifest, which needs all shards.
"""

from __future__ import annotations

import json
import os
from typing import NamedTuple

from . import disk

_NAME = ".plan"
_LIMIT = 4096


class Plan(NamedTuple):
    """Save at this step, or at once."""

    attempt: int
    step: int | None
    """None: as soon as possible, for the replica that writes alone."""
    request: str | None = None
    """The operator's request that the checkpoint answers."""
    nonce: str = ""
    """Tells two wishes apart that are alike otherwise."""


class Plans:
    """The plan in a volume."""

    def __init__(self, root: str) -> None:
        self._path = os.path.join(root, _NAME)

    def write(self, plan: Plan) -> None:
        os.makedirs(os.path.dirname(self._path), exist_ok=True)
        document = {**plan._asdict(), "nonce": os.urandom(8).hex()}
        disk.replace(self._path, json.dumps(document).encode())

    def read(self, attempt: int) -> Plan | None:
        """The plan of this attempt; None if there is none, or none that can be understood."""
        try:
            document = json.loads(disk.read(self._path, _LIMIT))
            plan = Plan(*(document[name] for name in Plan._fields))
        except (OSError, ValueError, KeyError, TypeError):
            return None
        whole = plan.step is None or isinstance(plan.step, int)
        return plan if whole and plan.attempt == attempt else None
