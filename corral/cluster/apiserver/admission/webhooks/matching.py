"""Webhook configurations, read once per change, and which of their webhooks want a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from corral.cluster.apiserver.admission.expressions import NO_VARIABLES, Expression
from corral.cluster.apiserver.admission.webhooks.client import Endpoint, endpoint_of
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.cluster.apiserver.store import Event, Store
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = ["Candidate", "Hook", "HookSource", "Rule", "rule_of"]

_MAX_CACHED = 4096
_VARIABLES = (
    "object", "oldObject", "namespaceObject", "request", "authorizer",
    "authorizer.requestResource",
)  # fmt: skip


class Rule(NamedTuple):
    """One rule; ``*`` in a set stands for everything."""

    operations: frozenset[str]
    groups: frozenset[str]
    versions: frozenset[str]
    resources: tuple[tuple[str, str], ...]
    """(resource, subresource)."""
    scope: str

    def matches(self, operation: str, info: ResourceInfo, subresource: str) -> bool:
        """Whether the rule is about this operation on this resource."""
        # Namespaces count as cluster-scoped, and so they are in the catalog.
        if self.scope != "*" and (self.scope == "Namespaced") != info.namespaced:
            return False
        return (
            _in(operation, self.operations)
            and _in(info.group, self.groups)
            and _in(info.version, self.versions)
            and any(
                resource in ("*", info.plural) and sub in ("*", subresource)
                for resource, sub in self.resources
            )
        )


def _in(value: str, allowed: frozenset[str]) -> bool:
    return value in allowed or "*" in allowed


def rule_of(obj: Obj) -> Rule:
    """A rule of a webhook or a policy."""
    split = (name.partition("/") for name in obj.get("resources") or ())
    return Rule(
        frozenset(obj.get("operations") or ()),
        frozenset(obj.get("apiGroups") or ()),
        frozenset(obj.get("apiVersions") or ()),
        tuple((resource, sub) for resource, _, sub in split),
        obj.get("scope") or "*",
    )


class Hook:
    """One webhook of a configuration."""

    __slots__ = (
        "conditions",
        "endpoint",
        "equivalent",
        "fail_open",
        "id",
        "name",
        "namespaces",
        "objects",
        "reinvocable",
        "review_versions",
        "rules",
        "side_effects",
        "timeout",
    )

    def __init__(self, configuration: str, index: int, obj: Obj) -> None:
        self.id = (configuration, index)
        self.name: str = obj.get("name", "")
        self.rules = tuple(map(rule_of, obj.get("rules") or ()))
        self.namespaces = Selector.from_object(obj.get("namespaceSelector") or {})
        self.objects = Selector.from_object(obj.get("objectSelector") or {})
        self.equivalent = obj.get("matchPolicy", "Equivalent") == "Equivalent"
        self.conditions = [
            Expression(c.get("expression", ""), NO_VARIABLES)
            for c in obj.get("matchConditions") or ()
        ]
        self.fail_open = obj.get("failurePolicy", "Fail") == "Ignore"
        self.timeout: int = obj.get("timeoutSeconds") or 10
        self.side_effects: str = obj.get("sideEffects", "")
        self.reinvocable = obj.get("reinvocationPolicy") == "IfNeeded"
        self.review_versions = tuple(obj.get("admissionReviewVersions") or ("v1",))
        self.endpoint: Endpoint = endpoint_of(obj.get("clientConfig") or {})


class Candidate(NamedTuple):
    """A webhook whose rules match, and the resource (version) they match it as."""

    hook: Hook
    info: ResourceInfo


class HookSource:
    """The webhooks of one table of configurations, by name of the configuration."""

    def __init__(self, store: Store, catalog: Catalog, table: str) -> None:
        self._store = store
        self._catalog = catalog
        self._table = table
        self._stale = True
        self._hooks: tuple[Hook, ...] = ()
        self._found: dict[tuple[str, str, str, str, str], tuple[Candidate, ...]] = {}
        self._generation = -1
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.entry.resource == self._table:
            self._stale = True

    def candidates(
        self, operation: str, info: ResourceInfo, subresource: str
    ) -> tuple[Candidate, ...]:
        """The webhooks with a rule for this request, in order."""
        if self._stale:
            self._load()
        if not self._hooks:
            return ()
        if self._generation != self._catalog.generation or len(self._found) > _MAX_CACHED:
            self._found.clear()
            self._generation = self._catalog.generation
        key = (operation, info.group, info.version, info.plural, subresource)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = tuple(self._match(operation, info, subresource))
        return found

    def _load(self) -> None:
        self._hooks = tuple(
            Hook(entry.name, index, obj)
            for entry in self._store.scan(self._table)
            for index, obj in enumerate(entry.decode().get("webhooks") or ())
        )
        self._found.clear()
        self._stale = False

    def _match(self, operation: str, info: ResourceInfo, subresource: str) -> Iterator[Candidate]:
        others = [i for i in self._catalog if i.table == info.table and i != info]
        for hook in self._hooks:
            if any(rule.matches(operation, info, subresource) for rule in hook.rules):
                yield Candidate(hook, info)
            elif hook.equivalent:
                for rule, other in ((r, o) for r in hook.rules for o in others):
                    if rule.matches(operation, other, subresource):
                        yield Candidate(hook, other)
                        break
