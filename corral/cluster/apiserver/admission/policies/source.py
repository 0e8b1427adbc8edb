"""The policies in force, read once per change, and which of them want a request.

A policy is in force with its bindings: without one it does nothing. Policies that did not change
keep what was compiled of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.policies.definitions import Binding, Match, Policy
from corral.cluster.apiserver.admission.views import Views, operation_of
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.cluster.apiserver.store import Event, Store
from corral.kube.types import Obj

__all__ = ["Hook", "PolicySource"]

P = TypeVar("P", bound=Policy)
_GROUP = "admissionregistration.k8s.io"
_EXEMPT = frozenset(
    f"{_GROUP}/{name}"
    for name in (
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicies",
        "mutatingadmissionpolicybindings",
    )
)
_EXEMPT_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})
_MAX_CACHED = 4096


class Hook(NamedTuple, Generic[P]):
    """A policy and its bindings."""

    policy: P
    bindings: tuple[Binding, ...]


class PolicySource(Generic[P]):
    """The policies of one kind; ``names`` are the plurals of policies and bindings."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        views: Views,
        *,
        names: tuple[str, str],
        build: Callable[[Obj], P],
    ) -> None:
        self._catalog = catalog
        self._views = views
        self._tables = tuple(f"{_GROUP}/{name}" for name in names)
        self._policies = Parsed(store, self._tables[0], build)
        self._bindings = Parsed(store, self._tables[1], Binding)
        self._stale = True
        self._hooks: list[Hook[P]] = []
        self._found: dict[tuple[str, ...], tuple[list[Hook[P]], list[ResourceInfo]]] = {}
        self._generation = -1
        store.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        if event.entry.resource in self._tables:
            self._stale = True

    def candidates(self, request: AdmissionRequest) -> list[Hook[P]]:
        """The policies with a rule for this request, by name."""
        if self._stale:
            self._load()
        if not self._hooks:
            return []
        return self._lookup(request)[0]

    def matched(self, match: Match, request: AdmissionRequest) -> ResourceInfo | None:
        """What a policy or binding matches the request as; None when it does not.

        Raises NotFound when there is no namespace to match.
        """
        infos = self._lookup(request)[1]
        name = request.name
        info = match.resource(operation_of(request), infos, request.subresource, name)
        if info is None or not self._views.selected(match.namespaces, match.objects, request):
            return None
        return info

    def _load(self) -> None:
        bindings: dict[str, list[Binding]] = {}
        for binding in self._bindings.scan():
            bindings.setdefault(binding.policy, []).append(binding)
        self._hooks = [
            Hook(policy, tuple(bindings[policy.name]))
            for policy in self._policies.scan()
            if policy.name in bindings
        ]
        self._found.clear()
        self._stale = False

    def _lookup(self, request: AdmissionRequest) -> tuple[list[Hook[P]], list[ResourceInfo]]:
        if self._generation != self._catalog.generation or len(self._found) > _MAX_CACHED:
            self._found.clear()
            self._generation = self._catalog.generation
        info = request.kind.info
        operation = operation_of(request)
        key = (operation, info.group, info.version, info.plural, request.subresource)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._match(operation, info, request.subresource)
        return found

    def _match(
        self, operation: str, info: ResourceInfo, subresource: str
    ) -> tuple[list[Hook[P]], list[ResourceInfo]]:
        others = [i for i in self._catalog if i.table == info.table and i != info]
        infos = [info, *others]
        if info.table in _EXEMPT or info.group in _EXEMPT_GROUPS:
            return [], infos
        hooks = [
            hook
            for hook in self._hooks
            if hook.policy.match.resource(operation, infos, subresource, None) is not None
        ]
        return hooks, infos
