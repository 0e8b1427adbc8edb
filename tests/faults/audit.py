"""What was asked of an API server, and what came of it: one entry for every request.

Of each request it is known what the server answered (``upstream``; None if it never saw it) and
what the client was told (``answered``; None if the connection was broken). They differ where a
fault was injected, so an audit says what really happened, whatever the client believes.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Audit", "Entry", "Target"]

Obj = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What a path of the Kubernetes API names."""

    group: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @classmethod
    def parse(cls, path: str) -> Target:
        """Paths that name no resource (``/readyz``) have an empty one."""
        parts = [part for part in path.split("?")[0].split("/") if part]
        if parts[:1] == ["api"]:
            group, rest = "", parts[2:]
        elif parts[:1] == ["apis"]:
            group, rest = parts[1] if len(parts) > 1 else "", parts[3:]
        else:
            return cls()
        namespace = ""
        if rest[:1] == ["namespaces"] and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        filled = [*rest, "", "", ""]
        return cls(group, filled[0], namespace, filled[1], filled[2])


@dataclass(slots=True)
class Entry:
    """One request."""

    client: str
    method: str
    path: str
    query: str
    target: Target
    body: bytes = b""
    at: float = field(default_factory=time.time)
    """When it came, in seconds since the epoch."""
    fault: str = ""
    upstream: int | None = None
    answered: int | None = None

    @property
    def object(self) -> Obj:
        """The JSON that was sent."""
        decoded: Obj = json.loads(self.body)
        return decoded

    @property
    def is_watch(self) -> bool:
        return "watch=1" in self.query or "watch=true" in self.query

    @property
    def created(self) -> bool:
        """Whether the server made a new object of it."""
        return self.method in ("POST", "PATCH") and self.upstream == 201

    @property
    def verb(self) -> str:
        """As authorization calls it, as far as it can be told from a request."""
        if self.method == "GET":
            if self.is_watch:
                return "watch"
            return "get" if self.target.name else "list"
        return {"POST": "create", "PUT": "update"}.get(self.method, self.method.lower())


class Audit:
    """All entries, in the order in which requests came; several proxies may share one."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def __iter__(self) -> Iterator[Entry]:
        return iter(list(self.entries))

    def add(self, entry: Entry) -> None:
        self.entries.append(entry)

    def of(self, resource: str, *, method: str = "", namespace: str = "") -> list[Entry]:
        """Requests about a resource."""
        return [
            entry
            for entry in self
            if entry.target.resource == resource
            and method in ("", entry.method)
            and namespace in ("", entry.target.namespace)
        ]

    def creations(self, resource: str, namespace: str = "") -> list[Entry]:
        """Requests that made an object, whether or not the client heard of it."""
        return [entry for entry in self.of(resource, namespace=namespace) if entry.created]

    def faults(self) -> Counter[str]:
        """How often each fault was injected."""
        return Counter(str(entry.fault) for entry in self if entry.fault)

    def calls(self) -> Counter[str]:
        """Requests by verb and resource."""
        return Counter(f"{e.verb} {e.target.resource}" for e in self if e.target.resource)
