"""Watches that people can rely on: what is there first, then every change, through every failure.

`changes` yields each object as ``ADDED`` once, then its changes. A dropped connection is resumed
where it was. When the server no longer has that place (410), everything is listed again and
compared with what was seen, so that each difference comes out as a change: an end that was missed
is still told, and nothing is told twice.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, Literal

from corral.client import errors
from corral.client.kinds import JobKind
from corral.client.phases import section, text
from corral.client.queries import ListQuery, check, matching
from corral.client.translate import ApiRequest, translating
from corral.kube.client import KubeClient
from corral.kube.types import Obj

__all__ = ["Change", "Scope", "Until", "changes", "is_version", "wait_for"]

_VERSION: Final = re.compile(r"[0-9]{1,20}")
Until = Callable[[Obj], bool] | str | Iterable[str]
"""A condition on the object, a phase, or several."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of one object."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: Obj
    phase: str

    @property
    def resource_version(self) -> str:
        """To go on after this change: ``since`` of another watch."""
        return text(section(self.object, "metadata").get("resourceVersion"))


@dataclass(frozen=True, slots=True)
class Scope:
    """What is watched."""

    kind: JobKind
    namespace: str | None
    name: str | None = None
    query: ListQuery = field(default_factory=ListQuery)

    @property
    def field_selector(self) -> str:
        return f"metadata.name={self.name}" if self.name else ""

    @property
    def asked(self) -> ApiRequest:
        return ApiRequest.of("watch", self.kind, self.namespace, name=self.name or "")


def is_version(text: str) -> bool:
    """Whether it is what an API server gives as a resource version."""
    return bool(_VERSION.fullmatch(text)) and int(text) < 1 << 64


async def changes(
    client: KubeClient, scope: Scope, *, since: str | None = None
) -> AsyncGenerator[Change, None]:
    """Changes without end; of one object, until it is deleted.

    ``since`` is a resource version: only what came after it is told.

    Raises:
        NotFound: a name was given and there is no such object at the start.
        BadRequest: ``since`` is no version.
        Expired: the server no longer has ``since``.
    """
    check(scope.kind, scope.query)
    if since and not is_version(since):
        raise errors.BadRequest(f"{since!r} is not the version of a change")
    seen = _Seen(scope)
    version = since or ""
    if not version:
        with translating(scope.asked):
            version, found = await _listed(client, scope)
        if scope.name and not found:
            raise errors.NotFound(
                f"there is no {scope.asked.what} {scope.asked.where}",
                hint=f"`corral get {scope.kind.plural}` lists those that are there",
            )
        for change in seen.renewed(found):
            yield change
    async with aclosing(_following(client, scope, seen, version=version)) as events:
        async for change in events:
            yield change
            if scope.name and change.type == "DELETED":
                return


async def _following(
    client: KubeClient, scope: Scope, seen: _Seen, *, version: str
) -> AsyncGenerator[Change, None]:
    while True:
        try:
            with translating(scope.asked):
                watch = client.resuming_watch(
                    scope.kind.resource,
                    scope.namespace,
                    resource_version=version,
                    label_selector=scope.query.labels,
                    field_selector=scope.field_selector,
                )
                async with aclosing(watch.events()) as events:
                    async for event in events:
                        if event.type == "BOOKMARK":
                            continue
                        change = seen.noted(event.type, event.object)
                        if change is not None:
                            yield change
        except errors.Expired:
            if not seen.complete:
                raise
        with translating(scope.asked):
            version, found = await _listed(client, scope)
        for change in seen.renewed(found):
            yield change


async def _listed(client: KubeClient, scope: Scope) -> tuple[str, list[Obj]]:
    answer = await client.list_all(
        scope.kind.resource,
        scope.namespace,
        label_selector=scope.query.labels,
        field_selector=scope.field_selector,
    )
    return text(section(answer, "metadata").get("resourceVersion")), answer["items"]


class _Seen:
    """The objects that were told of, and how a watch or a list differs from them.

    `complete` is false until there was a list: a watch that began in the middle knows only what
    changed since, and cannot tell what is gone.
    """

    def __init__(self, scope: Scope) -> None:
        self._kind = scope.kind
        self._passes = matching(scope.kind, scope.query)
        self._objects: dict[str, Obj] = {}
        self.complete = False

    def renewed(self, found: Iterable[Obj]) -> list[Change]:
        """The differences to a whole list; gone ones first, as they were seen last."""
        self.complete = True
        present = {_uid(obj): obj for obj in found}
        gone = [uid for uid in self._objects if uid not in present]
        out = [self._change("DELETED", self._objects.pop(uid)) for uid in gone]
        for uid, obj in present.items():
            old = self._objects.get(uid)
            if old is None or _version(old) != _version(obj):
                change = self.noted("ADDED" if old is None else "MODIFIED", obj)
                if change is not None:
                    out.append(change)
        return out

    def noted(self, type_: str, obj: Obj) -> Change | None:
        """The change that an event is, for one who sees matching objects only."""
        uid = _uid(obj)
        known = uid in self._objects
        if type_ == "DELETED":
            old = self._objects.pop(uid, None)
            # Without a list before, it may have been there all along.
            return self._change("DELETED", obj) if old is not None or not self.complete else None
        if not self._passes(obj):
            if not known:
                return None
            del self._objects[uid]
            return self._change("DELETED", obj)
        self._objects[uid] = obj
        if known or (type_ == "MODIFIED" and not self.complete):
            return self._change("MODIFIED", obj)
        return self._change("ADDED", obj)

    def _change(self, type_: Literal["ADDED", "MODIFIED", "DELETED"], obj: Obj) -> Change:
        return Change(type_, obj, self._kind.phase(obj))


def _uid(obj: Obj) -> str:
    metadata = section(obj, "metadata")
    return text(metadata.get("uid")) or f"{metadata.get('namespace')}/{metadata.get('name')}"


def _version(obj: Obj) -> str:
    return text(section(obj, "metadata").get("resourceVersion"))


# --- waiting -------------------------------------------------------------------------------------


async def wait_for(
    source: AsyncGenerator[Change, None],
    scope: Scope,
    until: Until,
    *,
    timeout: float,  # noqa: ASYNC109 - the error says what was seen until then
) -> Obj:
    """The object of a watch as soon as the condition holds, or it is in one of the phases.

    ``Deleted`` as a phase waits until it is gone.

    Raises:
        WaitTimeout: it did not happen in time.
        NeverHappens: phases were waited for, and it has ended in another one.
        NotFound: it is not there, or was deleted meanwhile.
    """
    goal = _Goal(scope.kind, until)
    last: Obj | None = None
    try:
        async with asyncio.timeout(timeout), aclosing(source) as events:
            async for change in events:
                last = change.object
                if change.type == "DELETED":
                    if goal.deletion:
                        return last
                    raise errors.NotFound(f"{scope.asked.what} {scope.asked.where} was deleted")
                if goal.reached(last):
                    return last
                goal.give_up(last)
    except errors.NotFound:
        if goal.deletion and last is None:
            return {}
        raise
    except TimeoutError as e:
        raise errors.WaitTimeout(_waited(scope, goal, last, timeout), obj=last) from e
    raise errors.Unavailable(f"the watch of {scope.asked.what} ended")


class _Goal:
    def __init__(self, kind: JobKind, until: Until) -> None:
        self._kind = kind
        self._condition = until if callable(until) else None
        words = (until,) if isinstance(until, str) else () if callable(until) else tuple(until)
        self.phases = tuple(words)
        self._wanted = {word.lower() for word in words}
        self.deletion = "deleted" in self._wanted and "Deleted" not in kind.phases
        known = {*(phase.lower() for phase in kind.phases), "deleted"}
        unknown = [word for word in words if word.lower() not in known]
        if unknown:
            raise errors.BadRequest(
                f"no {kind.kind} is ever in phase {unknown[0]!r}",
                hint=f"phases are {', '.join(kind.phases)}; Deleted waits until it is gone",
            )

    def reached(self, obj: Obj) -> bool:
        if self._condition is not None:
            return self._condition(obj)
        return self._kind.phase(obj).lower() in self._wanted

    def give_up(self, obj: Obj) -> None:
        """Waiting for a phase of a job that is over is pointless."""
        if self._condition is None and not self.deletion and self._kind.finished(obj):
            detail = self._kind.message(obj)
            raise errors.NeverHappens(
                f"{self._kind.kind} {section(obj, 'metadata').get('name')!r} is "
                f"{self._kind.phase(obj)} and will not be {' or '.join(self.phases)} any more"
                + (f": {detail}" if detail else ""),
                obj=obj,
            )

    def __str__(self) -> str:
        return " or ".join(self.phases) if self.phases else "as it was waited for"


def _waited(scope: Scope, goal: _Goal, last: Obj | None, timeout: float) -> str:
    now = f"it is {scope.kind.phase(last)}" if last else "nothing was seen of it"
    return f"{scope.asked.what} was not {goal} within {timeout:g} s: {now}"
