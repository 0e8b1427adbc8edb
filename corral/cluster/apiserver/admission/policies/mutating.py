"""MutatingAdmissionPolicy: a stage of mutating admission, before the webhooks."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import orjson

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.expressions import Inputs
from corral.cluster.apiserver.admission.policies.definitions import (
    Binding,
    MutatingPolicy,
    Mutation,
)
from corral.cluster.apiserver.admission.policies.invocations import (
    Failure,
    Invocation,
    Invocations,
)
from corral.cluster.apiserver.admission.policies.patches import (
    Unpatchable,
    apply_configuration,
    apply_operations,
)
from corral.cluster.apiserver.admission.policies.source import Hook, PolicySource
from corral.cluster.apiserver.admission.refusals import refuse_early
from corral.cluster.apiserver.admission.reinvocation import Turns
from corral.cluster.apiserver.admission.views import Authorizes, KindFinder, Views, frozen
from corral.cluster.apiserver.apply import TypeSchema
from corral.cluster.apiserver.cel.engine import CelError
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Store
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["MutatingPolicies"]


class _Problem(NamedTuple):
    policy: MutatingPolicy
    binding: Binding | None
    message: str
    reason: str = ""

    def __str__(self) -> str:
        name = self.policy.name
        if self.binding is None:
            return f'policy "{name}" denied request: {self.message}'
        return f"policy '{name}' with binding '{self.binding.name}' denied request: {self.message}"


class MutatingPolicies:
    """Changes objects as policies say. See ``reinvocation`` for how often."""

    def __init__(
        self, store: Store, catalog: Catalog, *, kinds: KindFinder, authorizer: Authorizes
    ) -> None:
        self._views = Views(store, kinds, authorizer)
        names = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
        source = PolicySource(store, catalog, self._views, names=names, build=MutatingPolicy)
        self._invocations = Invocations(store, catalog, source, views=self._views, kinds=kinds)

    def looks(self, request: AdmissionRequest) -> bool:
        return bool(self._invocations.candidates(request))

    async def first(self, request: AdmissionRequest) -> Turns | None:
        hooks = self._invocations.candidates(request)
        if not hooks:
            return None
        turns = Turns()
        self._dispatch(hooks, request, turns, only=None)
        return turns

    async def again(self, request: AdmissionRequest, turns: Turns) -> None:
        hooks = self._invocations.candidates(request)
        self._dispatch(hooks, request, turns, only=frozenset(turns.again))

    def _dispatch(
        self,
        hooks: list[Hook[MutatingPolicy]],
        request: AdmissionRequest,
        turns: Turns,
        *,
        only: Collection[tuple[str, ...]] | None,
    ) -> None:
        unset: list[_Problem] = []
        failed: list[_Problem] = []
        # All are chosen by the object as it was before any of them changed it.
        for invocation in list(self._invocations.of(hooks, request)):
            policy, binding = invocation.policy, invocation.binding
            if isinstance(invocation, Failure):
                unset.append(_Problem(policy, binding, invocation.message))
            elif only is None or invocation.key in only:
                before = frozen(request.object)
                if self._run(invocation, request, failed):
                    changed = before != frozen(request.object)
                    turns.took(invocation.key, changed=changed, reinvocable=policy.reinvocable)
        problems = [p for p in (*unset, *failed) if not p.policy.fail_open]
        if problems:
            raise _refusal(problems, request)

    def _run(
        self,
        invocation: Invocation[MutatingPolicy],
        request: AdmissionRequest,
        failed: list[_Problem],
    ) -> bool:
        """Apply the mutations of a policy; False when its conditions do not want them."""
        policy, binding = invocation.policy, invocation.binding
        kind = self._views.kind(invocation.info, request)
        inputs = self._inputs(invocation, kind, request)
        try:
            if not policy.meets_conditions(inputs):
                return False
        except CelError as why:
            failed.append(_Problem(policy, binding, str(why), "Invalid"))
            return False
        for mutation in policy.mutations:
            if request.object is None:
                break
            try:
                self._mutate(mutation, kind, request, inputs)
            except (CelError, Unpatchable) as why:
                failed.append(_Problem(policy, binding, str(why), "Invalid"))
            inputs = self._inputs(invocation, kind, request)
        return True

    def _inputs(
        self, invocation: Invocation[MutatingPolicy], kind: Kind, request: AdmissionRequest
    ) -> Inputs:
        objects = self._views.objects(kind, request, mutating=True)
        return self._invocations.inputs(invocation, request, objects, mutating=True)

    def _mutate(
        self, mutation: Mutation, kind: Kind, request: AdmissionRequest, inputs: Inputs
    ) -> None:
        live: Obj = inputs.data["object"]
        value = mutation.expression.evaluate_json(inputs)
        if mutation.kind == "JSONPatch":
            patched = apply_operations(live, value)
            if not request.subresource and not kind.info.custom:
                _check_strictly(kind, patched)
        else:
            patched = apply_configuration(_schema(kind, live), live, value)
        self._views.settle(request, kind, patched)


def _schema(kind: Kind, live: Obj) -> TypeSchema:
    if live.get("kind") != kind.info.kind:  # a Scale, a Binding
        version = live.get("apiVersion", "")
        named = f"{version if '/' in version else f'/{version}'}, Kind={live.get('kind')}"
        raise Unpatchable(
            "error applying patch: failed to convert patch object to typed object: no "
            f"corresponding type for {named}"
        )
    return kind.type_schema()


def _check_strictly(kind: Kind, patched: Obj) -> None:
    """JSON patches have to leave what the kind can be read from, to the last field."""
    try:
        _, problems = kind.decode(orjson.loads(orjson.dumps(patched)), strict=True)
    except errors.BadRequest as why:
        text = why.message.partition(f"cannot be handled as a {kind.info.kind}: ")[2]
        raise say.internal(text or why.message) from None
    if problems:
        raise say.internal(f"strict decoding error: {', '.join(problems)}")


def _refusal(problems: list[_Problem], request: AdmissionRequest) -> errors.ApiError:
    texts = [str(p) for p in problems]
    refused = refuse_early(request, texts[0])
    status = refused.status | {
        "message": texts[0],
        "reason": problems[0].reason or "Forbidden",
        "details": {**refused.details, "causes": [{"message": text} for text in texts]},
    }
    return errors.error_from_status(status)
