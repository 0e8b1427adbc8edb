"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

Mutating webhooks run one after the other, in the order of their configurations' names; when one
of them changed the object, the built-in mutating plugins and those earlier webhooks that ask for
it run once more. Validating webhooks run at the same time. Every webhook sees the object in the
version its rules name. Configurations of webhooks and reviews are never sent to webhooks.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Sequence
from typing import Any

import orjson

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.expressions import Inputs
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.admission.reinvocation import Stage, Turns, run_stages
from corral.cluster.apiserver.admission.views import (
    Authorizes,
    KindFinder,
    Views,
    frozen,
    operation_of,
)
from corral.cluster.apiserver.admission.webhooks.client import CallError, WebhookClient
from corral.cluster.apiserver.admission.webhooks.matching import Candidate, Hook, HookSource
from corral.cluster.apiserver.admission.webhooks.review import (
    Answer,
    InvalidAnswer,
    Unreadable,
    describe,
    read_answer,
    refusal,
    version_for,
)
from corral.cluster.apiserver.cel.engine import CelError
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.patch import apply_json_patch
from corral.cluster.apiserver.resources import Catalog
from corral.cluster.apiserver.store import Store
from corral.cluster.apiserver.turns import flow_of
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["MutatingWebhooks", "ValidatingWebhooks"]

log = logging.getLogger(__name__)

MUTATING = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
VALIDATING = "admissionregistration.k8s.io/validatingwebhookconfigurations"
_EXEMPT_GROUPS = frozenset(
    {"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}
)
_HARMLESS = frozenset({"None", "NoneOnDryRun"})


class _Webhooks(Plugin):
    """What both plugins share: finding the webhooks and calling one."""

    mutating = False

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        table: str,
        *,
        kinds: KindFinder,
        authorizer: Authorizes,
        client: WebhookClient,
    ) -> None:
        self._views = Views(store, kinds, authorizer)
        self._client = client
        self._source = HookSource(store, catalog, table)

    def looks(self, request: AdmissionRequest) -> bool:
        return bool(self._candidates(request))

    async def close(self) -> None:
        await self._client.close()

    def _candidates(self, request: AdmissionRequest) -> tuple[Candidate, ...]:
        info = request.kind.info
        if info.group in _EXEMPT_GROUPS:
            return ()
        return self._source.candidates(operation_of(request), info, request.subresource)

    def _selected(self, hook: Hook, request: AdmissionRequest) -> bool:
        return self._views.selected(hook.namespaces, hook.objects, request)

    # -- conditions ------------------------------------------------------------------------

    def _meets_conditions(
        self, hook: Hook, request: AdmissionRequest, question: Obj, objects: tuple[Any, Any]
    ) -> bool:
        if not hook.conditions:
            return True
        data = self._views.variables(request, question, objects)
        inputs = Inputs.of(data, self._views.authorize_as(request.context.user))
        problems = []
        for condition in hook.conditions:
            try:
                if condition.evaluate(inputs) is False:
                    return False
            except CelError as why:
                problems.append(str(why))
        if problems and not hook.fail_open:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise refuse(request, text)
        return not problems

    # -- calling ---------------------------------------------------------------------------

    async def _ask(
        self, hook: Hook, request: AdmissionRequest, question: Obj, objects: tuple[Any, Any]
    ) -> Answer | None:
        """What the webhook says; None when it failed and may. Raises when it denies."""
        if request.context.dry_run and hook.side_effects not in _HARMLESS:
            raise errors.BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        try:
            answer = await self._call(hook, question, objects, flow_of(request.context.user))
        except CallError as why:
            self._failed(hook, str(why))
            return None
        for text in answer.warnings:
            request.context.warn(text)
        if not answer.allowed:
            raise refusal(hook.name, answer.result)
        return answer

    async def _call(self, hook: Hook, question: Obj, objects: tuple[Any, Any], flow: str) -> Answer:
        version = version_for(hook.review_versions)
        if version is None:
            raise CallError(
                "could not create admission objects: webhook does not accept known "
                "AdmissionReview versions (v1, v1beta1)"
            )
        uid = str(uuid.uuid4())
        body = orjson.dumps(
            {
                "kind": "AdmissionReview",
                "apiVersion": f"admission.k8s.io/{version}",
                "request": {
                    "uid": uid,
                    **question,
                    "object": objects[0],
                    "oldObject": objects[1],
                },
            }
        )
        try:
            content = await self._client.post(hook.endpoint, body, seconds=hook.timeout, flow=flow)
        except CallError as why:
            raise CallError(f"failed to call webhook: {why}") from why
        try:
            return read_answer(content, uid=uid, version=version, mutating=self.mutating)
        except Unreadable as why:
            raise CallError(f"failed to call webhook: {why}") from why
        except InvalidAnswer as why:
            raise CallError(f"received invalid webhook response: {why}") from why

    def _failed(self, hook: Hook, why: str) -> None:
        text = f'failed calling webhook "{hook.name}": {why}'
        if not hook.fail_open:
            raise say.internal(text)
        log.warning("%s; its failure policy lets the request pass", text)


class MutatingWebhooks(_Webhooks):
    """Calls the mutating webhooks, after the stages that go before them.

    ``built_in`` are the plugins to run again after a change.
    """

    mutating = True

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        *,
        kinds: KindFinder,
        authorizer: Authorizes,
        client: WebhookClient,
        built_in: Sequence[Plugin] = (),
        before: Sequence[Stage] = (),
    ) -> None:
        super().__init__(
            store, catalog, MUTATING, kinds=kinds, authorizer=authorizer, client=client
        )
        self._built_in = built_in
        self._stages: tuple[Stage, ...] = (*before, self)

    def looks(self, request: AdmissionRequest) -> bool:
        before = self._stages[:-1]
        return super().looks(request) or any(stage.looks(request) for stage in before)

    async def mutate(self, request: AdmissionRequest) -> bool:
        return await run_stages(self._stages, self._built_in, request)

    async def first(self, request: AdmissionRequest) -> Turns | None:
        candidates = self._candidates(request)
        if not candidates:
            return None
        turns = Turns()
        for candidate in candidates:
            await self._take_turn(candidate, request, turns)
        return turns

    async def again(self, request: AdmissionRequest, turns: Turns) -> None:
        for candidate in self._candidates(request):
            if candidate.hook.id in turns.again:
                await self._run(candidate, request)

    async def _take_turn(
        self, candidate: Candidate, request: AdmissionRequest, turns: Turns
    ) -> None:
        outcome = await self._run(candidate, request)
        if outcome is not None:
            hook = candidate.hook
            turns.took(hook.id, changed=outcome, reinvocable=hook.reinvocable)

    async def validate(self, request: AdmissionRequest) -> None:
        """Deletes and connections have no object to change but are asked about all the same."""
        if request.operation not in ("CREATE", "UPDATE") or request.subresource == "eviction":
            for candidate in self._candidates(request):
                await self._run(candidate, request)

    async def _run(self, candidate: Candidate, request: AdmissionRequest) -> bool | None:
        """Ask one webhook; whether it changed the object, None when it was not to be asked."""
        hook, info = candidate
        if not self._selected(hook, request):
            return None
        kind = self._views.kind(info, request)
        new, old = self._views.objects(kind, request, mutating=True)
        question = describe(request, info, mutating=True)
        if not self._meets_conditions(hook, request, question, (new, old)):
            return None
        answer = await self._ask(hook, request, question, (new, old))
        if answer is None or not answer.patch or _is_empty(answer.patch):
            return False
        if new is None or request.object is None:
            raise say.internal(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not '
                "supported for this operation"
            )
        return self._patch(hook, request, kind, new, answer)

    def _patch(
        self, hook: Hook, request: AdmissionRequest, kind: Kind, new: Obj, answer: Answer
    ) -> bool:
        if answer.patch_type != "JSONPatch":
            self._failed(hook, f'unsupported patch type "{answer.patch_type}"')
            return False
        before = frozen(request.object)
        try:
            patched = apply_json_patch(new, answer.patch)
        except errors.BadRequest as why:
            text = f"received undecodable patch in webhook response: {why.message}"
            self._failed(hook, text)
            return False
        except errors.ApiError as why:
            raise say.internal(str(why.__cause__ or why.message)) from why
        self._views.settle(request, kind, patched)
        return before != frozen(request.object)


def _is_empty(patch: bytes) -> bool:
    return patch.strip() in (b"[]", b"null", b"")


class ValidatingWebhooks(_Webhooks):
    """Calls the validating webhooks, all at once."""

    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        *,
        kinds: KindFinder,
        authorizer: Authorizes,
        client: WebhookClient,
    ) -> None:
        super().__init__(
            store, catalog, VALIDATING, kinds=kinds, authorizer=authorizer, client=client
        )

    async def validate(self, request: AdmissionRequest) -> None:
        candidates = self._candidates(request)
        if not candidates:
            return
        seen: dict[str, tuple[Any, Any]] = {}
        calls = []
        for hook, info in candidates:
            if not self._selected(hook, request):
                continue
            objects = seen.get(info.api_version)
            if objects is None:
                kind = self._views.kind(info, request)
                objects = self._views.objects(kind, request, mutating=False)
                seen[info.api_version] = objects
            question = describe(request, info, mutating=False)
            if self._meets_conditions(hook, request, question, objects):
                calls.append(self._ask(hook, request, question, objects))
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
