"""Running mutating admission again after one of its parts has changed the object.

Policies and webhooks run once in their order. If anything changed the object, the built-in plugins
run again, and then once more those policies and webhooks that ask for it and ran before a change.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.views import frozen
from corral.cluster.apiserver.crud.core import AdmissionRequest

__all__ = ["Stage", "Turns", "run_stages"]


class Turns:
    """Which parts of a stage have had their turn, and which are due again."""

    __slots__ = ("_invoked", "again", "changed", "output")

    def __init__(self) -> None:
        self.changed = False
        self.again: set[Any] = set()
        self.output = b""
        """What the object was like at the end of the stage."""
        self._invoked: set[Any] = set()

    def took(self, part: Any, *, changed: bool, reinvocable: bool) -> None:
        """Note that a part ran."""
        if changed:
            self.changed = True
            self.require_again()
        if reinvocable:
            self._invoked.add(part)

    def require_again(self) -> None:
        """The object has changed: everything reinvocable that ran before has to see it."""
        self.again |= self._invoked
        self._invoked = set()


class Stage(Protocol):
    """Policies, or webhooks."""

    def looks(self, request: AdmissionRequest) -> bool:
        """Whether anything wants the request."""
        ...

    async def first(self, request: AdmissionRequest) -> Turns | None:
        """Run everything that wants the request; None when nothing does."""
        ...

    async def again(self, request: AdmissionRequest, turns: Turns) -> None:
        """Run what is in ``turns.again``."""
        ...


async def run_stages(
    stages: Iterable[Stage], built_in: Sequence[Plugin], request: AdmissionRequest
) -> bool:
    """Whether the object may have changed."""
    ran = []
    for stage in stages:
        turns = await stage.first(request)
        if turns is not None:
            ran.append((stage, turns))
            turns.output = frozen(request.object)
    if not ran or not any(turns.changed for _, turns in ran):
        return False
    table = request.kind.info.table
    for plugin in built_in:
        if plugin.tables is None or table in plugin.tables:
            await plugin.mutate(request)
    for stage, turns in ran:
        if turns.output != frozen(request.object):
            turns.require_again()
        if turns.again:
            await stage.again(request, turns)
    return True
