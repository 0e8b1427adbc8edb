"""Lists that people can work with: filters, an order, and pages that hold still.

A page token is the place of the last object in the order, not a number of objects to skip: objects
that come and go between two pages neither repeat nor hide others. A token belongs to its query;
with another one it is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final

import orjson

from corral.client.errors import BadRequest
from corral.client.kinds import JobKind
from corral.client.times import finish_time, parse_time, start_time
from corral.kube.types import Obj

__all__ = ["SORT_KEYS", "ListQuery", "Page", "matching", "paged"]

_GLOB: Final = frozenset("*?[")
_EPOCH: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class ListQuery:
    """Which objects, in which order, and how many at a time."""

    labels: str = ""
    """A label selector."""
    phase: str | tuple[str, ...] = ()
    """One of these, in any case."""
    name: str = ""
    """A part of the name, or a pattern if it has one of ``*?[``."""
    since: datetime | None = None
    """Created at that time or later; in UTC where it does not say."""
    sort: str = "name"
    """``name``, ``created``, ``phase``, …; with ``-`` before it the other way round."""
    limit: int | None = None
    """Objects per page; none for all."""
    token: str = ""
    """From the page before."""

    @property
    def phases(self) -> tuple[str, ...]:
        return (self.phase,) if isinstance(self.phase, str) and self.phase else tuple(self.phase)


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the objects that match."""

    items: list[Obj]
    token: str = ""
    """For the next page; empty on the last one."""
    total: int = 0
    """How many match in all."""
    resource_version: str = ""
    """Where a watch goes on."""


_SortKey = Callable[[JobKind, Obj], str]


def _created(kind: JobKind, obj: Obj) -> str:
    return str(_metadata(obj).get("creationTimestamp") or "")


def _phase_rank(kind: JobKind, obj: Obj) -> str:
    """By the order of a life, so that what runs stands together."""
    phase = kind.phase(obj)
    rank = kind.phases.index(phase) if phase in kind.phases else len(kind.phases)
    return f"{rank:02} {phase}"


_KEYS: Final[dict[str, _SortKey]] = {
    "name": lambda kind, obj: str(_metadata(obj).get("name") or ""),
    "namespace": lambda kind, obj: str(_metadata(obj).get("namespace") or ""),
    "created": _created,
    "started": lambda kind, obj: start_time(obj),
    "finished": lambda kind, obj: finish_time(obj),
    "phase": _phase_rank,
}
SORT_KEYS: Final = tuple(_KEYS)


def check(kind: JobKind, query: ListQuery) -> None:
    """Say what is wrong with a query before anything is fetched.

    Raises:
        BadRequest: an unknown order or phase, or a limit below 1.
    """
    if query.sort.removeprefix("-") not in _KEYS:
        raise BadRequest(
            f"cannot sort by {query.sort!r}", hint=f"sort by one of {', '.join(SORT_KEYS)}"
        )
    if query.limit is not None and query.limit < 1:
        raise BadRequest("the limit of a page must be at least 1")
    known = {phase.lower() for phase in kind.phases}
    for phase in query.phases:
        if phase.lower() not in known:
            raise BadRequest(
                f"no {kind.kind} is ever in phase {phase!r}",
                hint=f"phases are {', '.join(kind.phases)}",
            )


def matching(kind: JobKind, query: ListQuery) -> Callable[[Obj], bool]:
    """Whether an object passes the filters that the API server does not know."""
    wanted = {phase.lower() for phase in query.phases}
    since = query.since
    if since is not None and since.tzinfo is None:
        since = since.replace(tzinfo=UTC)

    def passes(obj: Obj) -> bool:
        if wanted and kind.phase(obj).lower() not in wanted:
            return False
        if query.name and not _named(str(_metadata(obj).get("name") or ""), query.name):
            return False
        if since is not None:
            created = parse_time(_metadata(obj).get("creationTimestamp")) or _EPOCH
            return created >= since
        return True

    return passes


def paged(kind: JobKind, query: ListQuery, objects: Iterable[Obj]) -> Page:
    """One page of the objects that match.

    Raises:
        BadRequest: see `check`; or the token is of another query, or of none.
    """
    check(kind, query)
    passes = matching(kind, query)
    found = [(_place(kind, query, obj), obj) for obj in objects if passes(obj)]
    backwards = query.sort.startswith("-")
    found.sort(key=lambda entry: entry[0][1:])
    # Stable: equal keys stay in the order of their names, whichever way the keys go.
    found.sort(key=lambda entry: entry[0][0], reverse=backwards)
    total = len(found)
    if query.token:
        last = _read_token(kind, query)
        found = [entry for entry in found if _after(entry[0], last, backwards=backwards)]
    limit = len(found) if query.limit is None else query.limit
    shown, more = found[:limit], len(found) > limit
    token = _write_token(kind, query, shown[-1][0]) if more else ""
    return Page([obj for _, obj in shown], token, total)


_Place = tuple[str, str, str]
"""Sort key, namespace, name: different for any two objects."""


def _place(kind: JobKind, query: ListQuery, obj: Obj) -> _Place:
    metadata = _metadata(obj)
    key = _KEYS[query.sort.removeprefix("-")](kind, obj)
    return key, str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _after(place: _Place, last: _Place, *, backwards: bool) -> bool:
    if place[0] != last[0]:
        return (place[0] < last[0]) if backwards else (place[0] > last[0])
    return place[1:] > last[1:]


def _fingerprint(kind: JobKind, query: ListQuery) -> str:
    """Of everything but the page: a token of one query makes no sense in another."""
    alike = replace(query, token="", limit=None)
    phases = sorted(phase.lower() for phase in alike.phases)
    since = alike.since.isoformat() if alike.since else ""
    parts = [kind.qualified, alike.labels, phases, alike.name, since, alike.sort]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()[:16]


def _write_token(kind: JobKind, query: ListQuery, place: _Place) -> str:
    content = orjson.dumps([1, _fingerprint(kind, query), *place])
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _read_token(kind: JobKind, query: ListQuery) -> _Place:
    try:
        padded = query.token + "=" * (-len(query.token) % 4)
        content = orjson.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
    except (ValueError, binascii.Error) as e:
        raise BadRequest("the page token is not one of ours", hint="begin at the first page") from e
    match content:
        case [1, str() as query_id, str() as key, str() as namespace, str() as name]:
            if query_id == _fingerprint(kind, query):
                return key, namespace, name
            raise BadRequest(
                "the page token belongs to another query",
                hint="keep filters and order while paging, or begin at the first page",
            )
    raise BadRequest("the page token is not one of ours", hint="begin at the first page")


def _named(name: str, wanted: str) -> bool:
    return fnmatchcase(name, wanted) if _GLOB & set(wanted) else wanted in name


def _metadata(obj: Obj) -> Obj:
    found = obj.get("metadata")
    return found if isinstance(found, dict) else {}
