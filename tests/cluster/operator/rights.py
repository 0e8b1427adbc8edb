"""Which rights a client uses, and which its roles give."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.transport import Query
from corral.operator.rbac import Rule
from corral.runtime import MeteredClient

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Right(NamedTuple):
    """One verb on one resource; subresources have a slash."""

    group: str
    resource: str
    verb: str

    @classmethod
    def of(cls, method: str, path: str, query: Query) -> Right | None:
        """What a request needs; nothing for those that everybody may send."""
        words = path.strip("/").split("/")
        if words[0] == "api":
            group, rest = "", words[2:]
        elif words[0] == "apis" and len(words) > 2:
            group, rest = words[1], words[3:]
        else:
            return None
        if len(rest) > 2 and rest[0] == "namespaces":
            rest = rest[2:]
        if not rest:
            return None
        watches = ("watch", "true") in [(key, str(value).lower()) for key, value in query]
        verb = _VERBS.get(method) or ("watch" if watches else "get" if rest[1:] else "list")
        resource = "/".join((rest[0], *rest[2:3]))
        return cls(group, resource, verb)


class RecordingClient(MeteredClient):
    """Remembers the rights that its requests needed."""

    def __init__(self, config: ClusterConfig, **options: Any) -> None:
        super().__init__(config, **options)
        self.used: set[Right] = set()
        self.refused: list[str] = []
        request, stream = self.transport.request, self.transport.open_stream

        async def recorded(method: str, path: str, **options: Any) -> bytes:
            self._note(method, path, options.get("query", ()))
            return await request(method, path, **options)

        async def streamed(path: str, **options: Any) -> Any:
            self._note("GET", path, options.get("query", ()))
            return await stream(path, **options)

        self.transport.request = recorded  # type: ignore[method-assign,assignment]
        self.transport.open_stream = streamed  # type: ignore[method-assign,assignment]

    def _note(self, method: str, path: str, query: Query) -> None:
        pairs = list(query.items()) if hasattr(query, "items") else list(query)
        right = Right.of(method, path, pairs)
        if right is not None:
            self.used.add(right)

    def _count(self, method: str, outcome: str) -> None:
        super()._count(method, outcome)
        if outcome == "403":
            self.refused.append(method)


def given(rules: Iterable[Rule]) -> set[Right]:
    return {
        Right(rule.group, resource, verb)
        for rule in rules
        for resource in rule.resources
        for verb in rule.verbs
    }
