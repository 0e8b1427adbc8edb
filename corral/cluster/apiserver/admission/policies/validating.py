"""The ValidatingAdmissionPolicy plugin."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.expressions import Inputs
from corral.cluster.apiserver.admission.policies.definitions import (
    Binding,
    ValidatingPolicy,
    Validation,
)
from corral.cluster.apiserver.admission.policies.invocations import (
    Failure,
    Invocation,
    Invocations,
)
from corral.cluster.apiserver.admission.policies.source import PolicySource
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.admission.views import Authorizes, KindFinder, Views
from corral.cluster.apiserver.cel.engine import CelError
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Store
from corral.kube import errors

__all__ = ["ValidatingPolicies"]

KIND = "ValidatingAdmissionPolicy"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}
_MAX_MESSAGE = 5 * 1024


class Finding(NamedTuple):
    """One thing that a policy has against a request."""

    policy: ValidatingPolicy
    binding: Binding | None
    message: str
    reason: str = "Invalid"
    always: bool = False
    """Refuse whatever the binding's actions are."""


class ValidatingPolicies(Plugin):
    """Refuses what policies deny, and passes on what they warn of."""

    def __init__(
        self, store: Store, catalog: Catalog, *, kinds: KindFinder, authorizer: Authorizes
    ) -> None:
        self._views = Views(store, kinds, authorizer)
        names = ("validatingadmissionpolicies", "validatingadmissionpolicybindings")
        source = PolicySource(store, catalog, self._views, names=names, build=ValidatingPolicy)
        self._invocations = Invocations(store, catalog, source, views=self._views, kinds=kinds)

    def looks(self, request: AdmissionRequest) -> bool:
        return bool(self._invocations.candidates(request))

    async def validate(self, request: AdmissionRequest) -> None:
        hooks = self._invocations.candidates(request)
        if not hooks:
            return
        seen: dict[str, tuple[Any, Any]] = {}
        denied: Finding | None = None
        for invocation in self._invocations.of(hooks, request):
            for finding in self._findings(invocation, request, seen):
                if self._denies(finding, request):
                    denied = denied or finding
        if denied is not None:
            raise _refusal(denied, request)

    @staticmethod
    def _denies(finding: Finding, request: AdmissionRequest) -> bool:
        binding = finding.binding
        if binding is None or finding.always:
            return True
        if "Warn" in binding.actions:
            who = f"{KIND} '{finding.policy.name}' with binding '{binding.name}'"
            request.context.warn(f"Validation failed for {who}: {finding.message}")
        return "Deny" in binding.actions

    def _findings(
        self,
        invocation: Invocation[ValidatingPolicy] | Failure[ValidatingPolicy],
        request: AdmissionRequest,
        seen: dict[str, tuple[Any, Any]],
    ) -> Iterator[Finding]:
        policy, binding = invocation.policy, invocation.binding
        if isinstance(invocation, Failure):
            if not policy.fail_open:
                yield Finding(policy, binding, invocation.message, always=True)
            return
        info = invocation.info
        objects = seen.get(info.api_version)
        if objects is None:
            kind = self._views.kind(info, request)
            objects = self._views.objects(kind, request, mutating=False)
            seen[info.api_version] = objects
        inputs = self._invocations.inputs(invocation, request, objects, mutating=False)
        yield from _evaluated(policy, binding, inputs)


def _evaluated(
    policy: ValidatingPolicy, binding: Binding | None, inputs: Inputs
) -> Iterator[Finding]:
    try:
        if not policy.meets_conditions(inputs):
            return
    except CelError as why:
        yield Finding(policy, binding, str(why))
        return
    for validation in policy.validations:
        try:
            if validation.expression.evaluate(inputs) is not True:
                message = _message(validation, inputs)
                yield Finding(policy, binding, message, validation.reason)
        except CelError as why:
            if not policy.fail_open:
                yield Finding(policy, binding, str(why))
    for annotation in policy.annotations:
        try:
            annotation.value.evaluate(inputs)
        except CelError as why:
            if not policy.fail_open:
                yield Finding(policy, binding, str(why), always=True)


def _message(validation: Validation, inputs: Inputs) -> str:
    if validation.message_expression is not None:
        try:
            said = validation.message_expression.evaluate(inputs)
        except CelError:
            said = ""  # the fixed message speaks for it
        text = said.strip() if isinstance(said, str) else ""
        if text and "\n" not in text and len(text.encode()) <= _MAX_MESSAGE:
            return text
    return validation.message or f"failed expression: {validation.expression.text.strip()}"


def _refusal(finding: Finding, request: AdmissionRequest) -> errors.ApiError:
    who = f"{KIND} '{finding.policy.name}'"
    if finding.binding is not None:
        who += f" with binding '{finding.binding.name}'"
    text = f"{who} denied request: {finding.message}"
    refused = refuse(request, text)
    status = refused.status | {
        "reason": finding.reason,
        "code": _CODES.get(finding.reason, 422),
        "details": {**refused.details, "causes": [{"message": text}]},
    }
    return errors.error_from_status(status)
