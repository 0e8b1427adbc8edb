"""What webhooks and policies see of a request: selectors, versions, CEL variables.

Objects are shown in the version that a rule names, never as they are at work in the server; what
was made of a shown object goes back into the request through ``settle``.
"""

from __future__ import annotations

from typing import Any, Protocol

import orjson

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.refusals import name_before_generation
from corral.cluster.apiserver.auth.attributes import Attributes, Decision
from corral.cluster.apiserver.auth.users import (
    AUTHENTICATED,
    UserInfo,
    service_account_groups,
    service_account_username,
)
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.resources import ResourceInfo
from corral.cluster.apiserver.store import Store
from corral.kube.selectors import Selector
from corral.kube.types import Obj

__all__ = ["NAMESPACES", "Authorizes", "KindFinder", "Views", "frozen", "operation_of"]

NAMESPACES = "/namespaces"


class KindFinder(Protocol):
    """The kinds that are served."""

    def find(self, group: str, version: str, plural: str) -> Kind | None: ...


class Authorizes(Protocol):
    """Answers the checks of expressions."""

    def authorize(self, attrs: Attributes) -> Decision: ...


def operation_of(request: AdmissionRequest) -> str:
    """The operation as rules name it: assigning a pod is the creation of a Binding."""
    return "CREATE" if request.subresource == "binding" else request.operation


def frozen(obj: Obj | None) -> bytes:
    """A form in which two states of an object compare."""
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)


class Views:
    """Requests as those see them who were registered for them."""

    def __init__(self, store: Store, kinds: KindFinder, authorizer: Authorizes) -> None:
        self._store = store
        self._kinds = kinds
        self._authorizer = authorizer

    # -- selectors -------------------------------------------------------------------------

    def selected(self, namespaces: Selector, objects: Selector, request: AdmissionRequest) -> bool:
        """Raises NotFound when there is no namespace to match."""
        info = request.kind.info
        if namespaces and (info.namespaced or info.table == NAMESPACES):
            if not namespaces.matches(self._namespace_labels(request)):
                return False
        if not objects:
            return True
        metas = [(obj.get("metadata") or {}) for obj in (request.object, request.old) if obj]
        return any(objects.matches(meta.get("labels") or {}) for meta in metas)

    def _namespace_labels(self, request: AdmissionRequest) -> dict[str, str]:
        name = request.namespace
        if request.kind.info.table == NAMESPACES:
            if request.object is not None and not request.subresource:
                return request.object["metadata"].get("labels") or {}
            name = request.name
        entry = self._store.head(NAMESPACES, name)
        if entry is None:
            raise say.not_found("", "namespaces", name)
        return entry.labels

    # -- versions --------------------------------------------------------------------------

    def kind(self, info: ResourceInfo, request: AdmissionRequest) -> Kind:
        """The kind that a rule matched the request as."""
        own = request.kind
        if info is own.info:
            return own
        found = self._kinds.find(info.group, info.version, info.plural)
        if found is None:
            raise say.internal(f"unable to convert to {info.api_version}: unknown kind")
        return found

    def objects(self, kind: Kind, request: AdmissionRequest, *, mutating: bool) -> tuple[Any, Any]:
        """The new and the old object in the version of ``kind``."""
        new = _shown(request.object, kind, request, mutating=mutating)
        old = _shown(request.old, kind, request, mutating=mutating)
        nameless = mutating and request.operation == "CREATE"
        if nameless and new and not name_before_generation(request):
            new["metadata"].pop("name", None)
        return new, old

    def settle(self, request: AdmissionRequest, kind: Kind, patched: Obj) -> None:
        """Make a changed object the request's, normal and defaulted, in the request's version.

        Raises:
            InternalError: it has become an object of another kind.
        """
        if request.subresource == "scale":
            replicas = (patched.get("spec") or {}).get("replicas") or 0
            request.kind.set_scale(request.object or {}, replicas)
        elif request.subresource != "binding":
            if (request.object or {}).get("kind") == kind.info.kind:
                _check_kind(kind, patched)
            meta = patched.setdefault("metadata", {})
            if not isinstance(meta, dict):
                raise say.internal("admission made the metadata of the object something else")
            if request.operation == "CREATE" and not name_before_generation(request):
                meta["name"] = request.name
            if kind.info.namespaced:
                meta.setdefault("namespace", request.namespace)
            patched = kind.normalise(patched)
            kind.default(patched)
            if kind is not request.kind:
                patched = request.kind.from_storage(kind.to_storage(patched))
            request.object = patched

    # -- expressions -----------------------------------------------------------------------

    def variables(
        self, request: AdmissionRequest, question: Obj, objects: tuple[Any, Any]
    ) -> dict[str, Any]:
        """The CEL variables of a request."""
        info = request.kind.info
        here = {"group": info.group, "resource": info.plural}
        more = {
            "namespace": question.get("namespace", ""),
            "name": question.get("name", ""),
            "subresource": request.subresource,
        }
        return {
            "object": objects[0],
            "oldObject": objects[1],
            "namespaceObject": None,  # declared for match conditions, and never there
            "request": question,
            "authorizer": {"": "authorizer"},
            "authorizer.requestResource": {
                "": "resource",
                **here,
                **{k: v for k, v in more.items() if v},
            },
        }

    def authorize_as(self, user: UserInfo) -> Any:
        """Answers the checks of expressions in the name of the requesting user."""

        def authorize(check: Any) -> tuple[bool, str]:
            who = user
            account = check.get("serviceAccount")
            if account:
                namespace = check.get("serviceAccountNamespace", "")
                groups = (*service_account_groups(namespace), AUTHENTICATED)
                who = UserInfo(service_account_username(namespace, account), groups=groups)
            path = check.get("path", "")
            attrs = Attributes(
                who,
                check["verb"],
                check.get("namespace", ""),
                check.get("group", ""),
                "*",
                check.get("resource", ""),
                check.get("subresource", ""),
                check.get("name", ""),
                not path,
                path,
                check.get("fieldSelector", ""),
            )
            decision = self._authorizer.authorize(attrs)
            return decision.allowed, decision.reason

        return authorize


def _shown(obj: Obj | None, kind: Kind, request: AdmissionRequest, *, mutating: bool) -> Any:
    """An object in the version of ``kind``; never the object itself."""
    if obj is None:
        return None
    own, sub = request.kind, request.subresource
    obj = orjson.loads(orjson.dumps(obj))
    stored = not mutating and request.operation in ("CREATE", "UPDATE")
    plain = obj.get("kind") == own.info.kind
    if plain and stored:
        obj = kind.from_storage(obj)
    elif plain and kind is not own:
        obj = kind.from_storage(own.to_storage(obj))
    if sub == "scale":
        return kind.get_scale(obj)
    return _binding(obj) if sub == "binding" else obj


def _check_kind(kind: Kind, patched: Obj) -> None:
    for field, own in (("apiVersion", kind.info.api_version), ("kind", kind.info.kind)):
        found = patched.setdefault(field, own)
        if found != own:
            raise say.internal(
                f'admission changed {field} of the object from "{own}" to "{str(found)[:200]}"; '
                "webhooks and policies must leave it as it is"
            )


def _binding(pod: Obj) -> Obj:
    """Assigning a pod is the creation of a Binding to its users."""
    meta = pod["metadata"]
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {k: meta[k] for k in ("name", "namespace", "uid") if k in meta},
        "target": {"kind": "Node", "name": pod["spec"].get("nodeName", "")},
    }
