"""Watches PodGroups of the kinds that the server has.

The definitions of both kinds are watched by name, which costs next to nothing; whenever one of
them changes, the server is asked what it serves. A kind that comes is listed and watched from then
on, one that goes is forgotten.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import orjson

from corral.cluster.scheduler.placement import COSCHEDULING, VOLCANO
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, NotFound
from corral.kube.resources import CUSTOMRESOURCEDEFINITIONS, Resource
from corral.kube.types import Obj
from corral.runtime import Change, Informer, Scope, is_condition_true

__all__ = ["KINDS", "GroupWatch", "resource_of"]

logger = logging.getLogger(__name__)

KINDS: Final = {
    VOLCANO: Resource(VOLCANO, "v1beta1", "podgroups", True, "PodGroup"),
    COSCHEDULING: Resource(COSCHEDULING, "v1alpha1", "podgroups", True, "PodGroup"),
}
"""The kinds by API group."""

_AGAIN: Final = 0.5
"""Seconds until the server is asked again when it must be about to serve a kind."""
_PATIENCE: Final = 10.0
"""Seconds that the first list of a kind may take before scheduling begins without it."""


def resource_of(group: Obj) -> Resource:
    """The kind of a PodGroup object."""
    return KINDS[str(group["apiVersion"]).partition("/")[0]]


def _state_only(definition: Obj) -> Obj:
    """What matters of a definition; its schemas are large."""
    return {"metadata": definition["metadata"], "status": definition.get("status") or {}}


class GroupWatch:
    """Informers that come and go with the kinds; ``handler`` hears what they hear."""

    def __init__(self, client: KubeClient, handler: Callable[[Change], None]) -> None:
        self._client = client
        self._handler = handler
        self._changed = asyncio.Event()
        self._running: dict[str, tuple[Informer, asyncio.Task[None]]] = {}
        self._definitions = {
            family: Informer(
                client,
                Scope(
                    CUSTOMRESOURCEDEFINITIONS, field_selector=f"metadata.name=podgroups.{family}"
                ),
                transform=_state_only,
            )
            for family in KINDS
        }

    async def start(self) -> None:
        """See which kinds there are, and wait (not for ever) for what is in them."""
        await self._check_all()
        try:
            async with asyncio.timeout(_PATIENCE):
                for informer, _ in list(self._running.values()):
                    await informer.wait_synced()
        except TimeoutError:
            logger.warning("the PodGroups could not be listed in time; going on without them")

    async def run(self) -> None:
        """Follow the definitions until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for informer in self._definitions.values():
                    informer.add_handler(self._definition_changed)
                    tasks.create_task(informer.run(), name=f"informer {informer.scope}")
                tasks.create_task(self._follow())
        finally:
            tasks_left = [task for _, task in self._running.values()]
            for task in tasks_left:
                task.cancel()
            await asyncio.gather(*tasks_left, return_exceptions=True)

    def served(self, family: str) -> bool:
        """Whether PodGroups of this API group are being watched."""
        return family in self._running

    def _definition_changed(self, change: Change) -> None:
        self._changed.set()

    async def _follow(self) -> None:
        settled = True
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(None if settled else _AGAIN):
                    await self._changed.wait()
            self._changed.clear()
            settled = await self._check_all()

    async def _check_all(self) -> bool:
        """Bring what is watched in line with what is served; whether that is settled."""
        settled = True
        for family in KINDS:
            try:
                served = await self._is_served(family)
            except (ApiError, KubeConnectionError) as error:
                logger.warning("cannot tell whether %s is served: %s", family, error)
                settled = False
                continue
            if served and family not in self._running:
                self._begin(family)
            elif not served and family in self._running:
                await self._stop(family)
            if not served and self._is_established(family):
                settled = False
        return settled

    async def _is_served(self, family: str) -> bool:
        kind = KINDS[family]
        try:
            answer = await self._client.request("GET", f"/apis/{kind.api_version}")
        except NotFound:
            return False
        served = orjson.loads(answer).get("resources") or ()
        return any(entry.get("name") == kind.plural for entry in served)

    def _is_established(self, family: str) -> bool:
        for definition in self._definitions[family].store:
            if not definition["metadata"].get("deletionTimestamp"):
                return is_condition_true(definition["status"].get("conditions"), "Established")
        return False

    def _begin(self, family: str) -> None:
        informer = Informer(self._client, Scope(KINDS[family]))
        informer.add_handler(self._handler)
        task = asyncio.create_task(informer.run(), name=f"informer {informer.scope}")
        self._running[family] = (informer, task)

    async def _stop(self, family: str) -> None:
        informer, task = self._running.pop(family)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        for group in informer.store:
            self._handler(Change("deleted", group, None, final_state_unknown=True))
