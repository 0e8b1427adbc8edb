"""A policy at work on a request: with which binding, which parameters, as which version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.expressions import Inputs
from corral.cluster.apiserver.admission.lookup import Parsed
from corral.cluster.apiserver.admission.policies.definitions import Binding, Policy
from corral.cluster.apiserver.admission.policies.params import Misconfigured, Params
from corral.cluster.apiserver.admission.policies.source import Hook, PolicySource
from corral.cluster.apiserver.admission.views import NAMESPACES, KindFinder, Views
from corral.cluster.apiserver.admission.webhooks.review import describe
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.cluster.apiserver.store import Store
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["Failure", "Invocation", "Invocations"]

P = TypeVar("P", bound=Policy)
_NAMESPACE_META = (
    "name", "generateName", "uid", "resourceVersion", "generation", "creationTimestamp",
    "deletionTimestamp", "deletionGracePeriodSeconds", "labels", "annotations", "finalizers",
)  # fmt: skip


class Invocation(NamedTuple, Generic[P]):
    """One evaluation of a policy."""

    policy: P
    binding: Binding
    info: ResourceInfo
    param: Obj | None

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from others on the same request."""
        meta = (self.param or {}).get("metadata") or {}
        param = (meta.get("namespace", ""), meta.get("name", ""))
        return (self.policy.name, self.binding.name, *param)


class Failure(NamedTuple, Generic[P]):
    """A policy (and binding) that could not be set to work."""

    policy: P
    binding: Binding | None
    message: str


class Invocations(Generic[P]):
    """Finds what is to be evaluated on a request, and what on."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        source: PolicySource[P],
        *,
        views: Views,
        kinds: KindFinder,
    ) -> None:
        self._source = source
        self._views = views
        self._params = Params(store, catalog, kinds)
        self._namespaces = Parsed(store, NAMESPACES, _namespace_object)

    def candidates(self, request: AdmissionRequest) -> list[Hook[P]]:
        """The policies that may want the request; mostly none."""
        return self._source.candidates(request)

    def of(
        self, hooks: list[Hook[P]], request: AdmissionRequest
    ) -> Iterator[Invocation[P] | Failure[P]]:
        """Every evaluation, in the order of policies, bindings and parameters."""
        for hook in hooks:
            policy = hook.policy
            try:
                info = self._source.matched(policy.match, request)
                if info is None:
                    continue
                params = self._params.resource(policy)
            except (Misconfigured, errors.ApiError) as why:
                yield Failure(policy, None, f"failed to configure policy: {_text(why)}")
                continue
            for binding in hook.bindings:
                try:
                    found = self._bound(binding, params, request)
                except (Misconfigured, errors.ApiError) as why:
                    yield Failure(policy, binding, f"failed to configure binding: {_text(why)}")
                    continue
                for param in found:
                    yield Invocation(policy, binding, info, param)

    def _bound(
        self, binding: Binding, params: ResourceInfo | None, request: AdmissionRequest
    ) -> list[Obj | None]:
        match = binding.match
        if match is not None and self._source.matched(match, request) is None:
            return []
        return self._params.collect(params, binding, request)

    def inputs(
        self,
        invocation: Invocation[P],
        request: AdmissionRequest,
        objects: tuple[Any, Any],
        *,
        mutating: bool,
    ) -> Inputs:
        """What the policy's expressions are evaluated on."""
        question = describe(request, invocation.info, mutating=mutating)
        data = self._views.variables(request, question, objects)
        data["params"] = invocation.param
        data["namespaceObject"] = self._namespace(request)
        return Inputs.of(data, self._views.authorize_as(request.context.user))

    def _namespace(self, request: AdmissionRequest) -> Obj | None:
        if not request.namespace or request.kind.info.table == NAMESPACES:
            return None
        found = self._namespaces.get(request.namespace)
        if found is None:
            raise say.not_found("", "namespaces", request.namespace)
        return found


def _namespace_object(obj: Obj) -> Obj:
    """A namespace as far as expressions may see it."""
    meta = obj["metadata"]
    return {
        "metadata": {k: meta[k] for k in _NAMESPACE_META if k in meta},
        "spec": obj.get("spec") or {},
        "status": obj.get("status") or {},
    }


def _text(why: Exception) -> str:
    return why.message if isinstance(why, errors.ApiError) else str(why)
