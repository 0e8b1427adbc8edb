"""The objects that a binding parametrises its policy with."""

from __future__ import annotations

from corral.cluster.apiserver.admission.policies.definitions import Binding, Policy
from corral.cluster.apiserver.admission.views import NAMESPACES, KindFinder
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.cluster.apiserver.store import Store
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = ["Misconfigured", "Params"]


class Misconfigured(Exception):
    """A policy or binding that cannot be worked with."""


class Params:
    """Finds them."""

    def __init__(self, store: Store, catalog: Catalog, kinds: KindFinder) -> None:
        self._store = store
        self._catalog = catalog
        self._kinds = kinds

    def resource(self, policy: Policy) -> ResourceInfo | None:
        """What the policy takes for parameters; None when it takes none.

        Raises:
            Misconfigured: there is no such kind.
        """
        if policy.param_kind is None:
            return None
        group, _, version = policy.param_kind.get("apiVersion", "").rpartition("/")
        kind = policy.param_kind.get("kind", "")
        info = self._catalog.by_kind(group, version, kind)
        if info is None:
            named = f"{group}/{version}, Kind={kind}"
            raise Misconfigured(f"failed to find resource referenced by paramKind: '{named}'")
        return info

    def collect(
        self, info: ResourceInfo | None, binding: Binding, request: AdmissionRequest
    ) -> list[Obj | None]:
        """The parameters, one evaluation each; None stands for evaluating without.

        Raises:
            Misconfigured: the reference does not fit, or finds nothing and says to deny then.
        """
        ref = binding.param_ref
        if info is None or ref is None:
            return [None]
        namespace = self._namespace(info, ref, request)
        found = self._found(info, ref, namespace)
        if not found and ref.get("parameterNotFoundAction") == "Deny":
            raise Misconfigured(
                "no params found for policy binding with `Deny` parameterNotFoundAction"
            )
        return list(found)

    @staticmethod
    def _namespace(info: ResourceInfo, ref: Obj, request: AdmissionRequest) -> str:
        own: str = ref.get("namespace") or ""
        if not info.namespaced:
            if own:
                raise Misconfigured(
                    "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
                )
            return ""
        here = request.name if request.kind.info.table == NAMESPACES else request.namespace
        if not (own or here):
            raise Misconfigured(
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped "
                "resources"
            )
        return own or here

    def _found(self, info: ResourceInfo, ref: Obj, namespace: str) -> list[Obj]:
        kind = self._kinds.find(info.group, info.version, info.plural)
        if kind is None:
            return []
        prefix = f"{namespace}/" if namespace else ""
        if ref.get("name"):
            entry = self._store.head(info.table, prefix + ref["name"])
            return [] if entry is None else [_shown(kind, entry.decode())]
        selector = Selector.from_object(ref.get("selector") or {})
        return [
            _shown(kind, entry.decode())
            for entry in self._store.scan(info.table, prefix)
            if selector.matches(entry.labels)
        ]


def _shown(kind: Kind, stored: Obj) -> Obj:
    return kind.from_storage(stored)
