"""Finding and deleting VMs that nothing owns any more.

A VM is an orphan when it carries our owner label, no object claims its request id, and it has been
so for the grace period. Objects write their request ids down before a VM is asked for, and VMs are
listed before objects are: so a VM that is just being made is never taken for an orphan.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.clouds.base import CloudProvider, State, Vm
from corral.clouds.errors import CloudError

__all__ = ["GRACE_S", "Decision", "Sweeper", "Swept", "decide"]

logger = logging.getLogger(__name__)

GRACE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about the VMs of a cloud."""

    delete: Sequence[Vm]
    unclaimed: Mapping[str, float]
    """Since when each VM has been seen without a claim, by id: to be handed back next time."""


def decide(
    vms: Sequence[Vm],
    claimed: Collection[str],
    unclaimed: Mapping[str, float],
    *,
    now: float,
    grace: float,
) -> Decision:
    """``claimed`` are request ids; ``unclaimed`` is what the decision before said."""
    since = {}
    delete = []
    for vm in vms:
        if vm.request_id in claimed or vm.state is State.STOPPING or _is_past(vm):
            continue
        key = vm.id or vm.name
        since[key] = min(unclaimed.get(key, now), now)
        if now - since[key] >= grace:
            delete.append(vm)
    return Decision(delete, since)


def _is_past(vm: Vm) -> bool:
    """Some clouds keep telling of VMs for an hour after they are gone for good."""
    return vm.raw_state == "terminated"


@dataclass(frozen=True, slots=True)
class Swept:
    """The VMs that one sweep deleted, and those that it could not."""

    deleted: Sequence[Vm] = ()
    failed: Mapping[str, CloudError] = field(default_factory=dict)
    """By name; they are tried again at the next sweep."""
    waiting: int = 0
    """Unclaimed, but not for long enough."""


class Sweeper:
    """Keeps one cloud free of orphans."""

    def __init__(
        self,
        provider: CloudProvider,
        owner: str,
        claimed: Callable[[], Awaitable[Collection[str]]],
        *,
        grace: float = GRACE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``claimed`` gives the request ids of all objects, from the API server itself."""
        self._provider = provider
        self._owner = owner
        self._claimed = claimed
        self._grace = grace
        self._clock = clock
        self._unclaimed: Mapping[str, float] = {}

    async def sweep(self) -> Swept:
        """Look once, delete what is due. Raises CloudError when it cannot look."""
        vms = await self._provider.list(self._owner)  # first: see the module's words
        claimed = await self._claimed()
        decision = decide(vms, claimed, self._unclaimed, now=self._clock(), grace=self._grace)
        self._unclaimed = decision.unclaimed
        deleted, failed = [], {}
        for vm in decision.delete:
            try:
                await self._provider.delete(vm.ref)
            except CloudError as error:
                failed[vm.name] = error
            else:
                logger.warning("deleted VM %s in %s, which nothing owned", vm.name, vm.zone)
                deleted.append(vm)
        waiting = len(decision.unclaimed) - len(decision.delete)
        return Swept(deleted, failed, waiting)
