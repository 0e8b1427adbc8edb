"""Doing the steps of a pass against the API.

A pass (a generator of steps, see `steps`) decides; an `Attempt` writes what it asks for, notes
every write for `ConsistencyStore`, emits the events of a step once it has succeeded, and knows at
the end why the pass has to be tried again. A conflict is no failure: the cache was behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from datetime import UTC, datetime
from typing import TypeVar

from corral.cluster.workloads.batches import namespace_is_going
from corral.cluster.workloads.steps import Answer, Event, Verdict
from corral.cluster.workloads.steps import emit as emit_events
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime import (
    ConsistencyStore,
    EventRecorder,
    NotYetConsistent,
    Result,
    key_of,
    merge_diff,
    uid_of,
    version_of,
)

__all__ = [
    "Attempt",
    "Hands",
    "NamespaceGoing",
    "Now",
    "PassFailed",
    "drive",
    "utc_now",
    "write_status",
]

S = TypeVar("S")
Now = Callable[[], datetime]
"""A clock on the wall; aware."""


def utc_now() -> datetime:
    return datetime.now(UTC)


class PassFailed(Exception):
    """A step of a pass was refused."""


class NamespaceGoing(Exception):
    """Nothing can be created any more, and nothing needs to be."""


class Hands:
    """What the passes of one controller write with."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        consistency: ConsistencyStore,
        *,
        field_manager: str,
    ) -> None:
        self.client = client
        self.recorder = recorder
        self.consistency = consistency
        self.field_manager = field_manager

    def note(self, owner: Obj, resource: Resource, written: Obj) -> None:
        self.consistency.wrote_at(key_of(owner), uid_of(owner), resource, version_of(written))

    def emit(self, owner: Obj, events: tuple[Event, ...]) -> None:
        emit_events(self.recorder, owner, events)


async def write_status(hands: Hands, resource: Resource, owner: Obj, status: Obj) -> Obj:
    """Write what differs in the status of the owner; the owner afterwards.

    Only its controller writes a status, so nobody else's words can be overwritten: the write does
    not depend on the version read, but on the uid.

    Raises:
        NotYetConsistent: the owner is gone, or another one has its name.
    """
    patch = {"metadata": {"uid": uid_of(owner)}, "status": merge_diff(owner.get("status"), status)}
    try:
        written = await hands.client.patch(
            resource,
            owner["metadata"]["name"],
            namespace=owner["metadata"].get("namespace"),
            patch=patch,
            subresource="status",
            field_manager=hands.field_manager,
        )
    except (errors.NotFound, errors.Conflict) as error:
        raise _behind(resource, owner) from error
    hands.note(owner, resource, written)
    return written


class Attempt:
    """One pass over one owner."""

    def __init__(self, hands: Hands, owner: Obj) -> None:
        self._hands = hands
        self._owner = owner
        self._failure: Exception | None = None

    async def create(self, resource: Resource, body: Obj, events: tuple[Event, ...] = ()) -> Answer:
        """Create this; if the name is taken, answer so and with what has it.

        Raises:
            NamespaceGoing: then the pass is over.
        """
        client, manager = self._hands.client, self._hands.field_manager
        try:
            made = await client.create(resource, body, field_manager=manager)
        except errors.AlreadyExists as error:
            return await self._taken(resource, body, error)
        except errors.ApiError as error:
            if namespace_is_going(error):
                raise NamespaceGoing from error
            return self._refused(error)
        return self._done(resource, made, events)

    async def _taken(self, resource: Resource, body: Obj, error: errors.ApiError) -> Answer:
        self._failure = error
        meta = body["metadata"]
        try:
            found = await self._hands.client.get(
                resource, meta["name"], namespace=meta.get("namespace")
            )
        except errors.ApiError as gone:
            return self._refused(gone)
        return Answer(found=found, existed=True, error=error.message)

    async def replace(
        self,
        resource: Resource,
        body: Obj,
        *,
        subresource: str = "",
        events: tuple[Event, ...] = (),
    ) -> Answer:
        """Replace this, or its status, if it is still of the version read."""
        try:
            written = await self._hands.client.replace(
                resource,
                body,
                subresource=subresource,
                field_manager=self._hands.field_manager,
            )
        except (errors.NotFound, errors.Conflict) as error:
            self._failure = _behind(resource, body)
            return Answer(error=error.message)
        except errors.ApiError as error:
            return self._refused(error)
        return self._done(resource, written, events)

    async def delete(self, resource: Resource, obj: Obj, events: tuple[Event, ...] = ()) -> Answer:
        """Delete this very object; one that is gone counts as deleted."""
        meta = obj["metadata"]
        try:
            left = await self._hands.client.delete(
                resource, meta["name"], namespace=meta.get("namespace"), uid=uid_of(obj)
            )
        except (errors.NotFound, errors.Conflict):
            left = {}
        except errors.ApiError as error:
            return self._refused(error)
        if left.get("kind") == resource.kind:  # it has yet to end
            return self._done(resource, left, events)
        self._hands.emit(self._owner, events)
        return Answer()

    async def write_status(self, resource: Resource, status: Obj) -> Answer:
        """Give the owner this status."""
        try:
            return Answer(found=await write_status(self._hands, resource, self._owner, status))
        except NotYetConsistent as error:
            self._failure = error
            return Answer(error=str(error))
        except errors.ApiError as error:
            return self._refused(error)

    def emit(self, events: tuple[Event, ...]) -> Answer:
        """Only say this."""
        self._hands.emit(self._owner, events)
        return Answer()

    def conclude(self, verdict: Verdict) -> Result | None:
        """What the controller is told about the pass.

        Raises:
            NotYetConsistent: a write met a newer version.
            PassFailed: a step was refused.
        """
        if verdict.retry:
            if isinstance(self._failure, NotYetConsistent):
                raise self._failure
            raise PassFailed(str(self._failure or "the pass has to be repeated")) from self._failure
        return Result(verdict.requeue_after) if verdict.requeue_after else None

    def _done(self, resource: Resource, written: Obj, events: tuple[Event, ...]) -> Answer:
        self._hands.note(self._owner, resource, written)
        self._hands.emit(self._owner, events)
        return Answer(found=written)

    def _refused(self, error: errors.ApiError) -> Answer:
        self._failure = error
        return Answer(error=error.message)


def _behind(resource: Resource, obj: Obj) -> NotYetConsistent:
    """The cache is older than a change that somebody else made."""
    return NotYetConsistent(resource, version_of(obj), "unknown")


async def drive(
    steps: Generator[S, Answer, Verdict], perform: Callable[[S], Awaitable[Answer]]
) -> Verdict:
    """Do step after step until the pass says what remains."""
    try:
        step = next(steps)
        while True:
            step = steps.send(await perform(step))
    except StopIteration as end:
        verdict: Verdict = end.value
        return verdict
    finally:
        steps.close()
