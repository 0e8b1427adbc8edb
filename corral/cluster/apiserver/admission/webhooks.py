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
from typing import Any, Protocol

import orjson

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.client import CallError, WebhookClient
from corral.cluster.apiserver.admission.matching import Candidate, Hook, HookSource
from corral.cluster.apiserver.admission.refusals import name_before_generation, refuse
from corral.cluster.apiserver.admission.review import (
    Answer,
    InvalidAnswer,
    Unreadable,
    describe,
    read_answer,
    refusal,
    version_for,
)
from corral.cluster.apiserver.auth.attributes import Attributes, Decision
from corral.cluster.apiserver.auth.users import (
    AUTHENTICATED,
    UserInfo,
    service_account_groups,
    service_account_username,
)
from corral.cluster.apiserver.patch import apply_json_patch
from corral.cluster.apiserver.registry.core import AdmissionRequest
from corral.cluster.apiserver.registry.kind import Kind
from corral.cluster.apiserver.resources import Catalog, ResourceInfo
from corral.cluster.apiserver.store import Store
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["MutatingWebhooks", "ValidatingWebhooks"]

log = logging.getLogger(__name__)

MUTATING = "admissionregistration.k8s.io/mutatingwebhookconfigurations"
VALIDATING = "admissionregistration.k8s.io/validatingwebhookconfigurations"
NAMESPACES = "/namespaces"
_EXEMPT_GROUPS = frozenset(
    {"admissionregistration.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}
)
_HARMLESS = frozenset({"None", "NoneOnDryRun"})


class KindFinder(Protocol):
    """The kinds that are served."""

    def find(self, group: str, version: str, plural: str) -> Kind | None: ...


class Authorizes(Protocol):
    """Answers the checks of match conditions."""

    def authorize(self, attrs: Attributes) -> Decision: ...


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
        self._store = store
        self._kinds = kinds
        self._authorizer = authorizer
        self._client = client
        self._source = HookSource(store, catalog, table)

    async def close(self) -> None:
        await self._client.close()

    def _candidates(self, request: AdmissionRequest) -> tuple[Candidate, ...]:
        info = request.kind.info
        if info.group in _EXEMPT_GROUPS:
            return ()
        operation = "CREATE" if request.subresource == "binding" else request.operation
        return self._source.candidates(operation, info, request.subresource)

    def _selected(self, hook: Hook, request: AdmissionRequest) -> bool:
        info = request.kind.info
        if hook.namespaces and (info.namespaced or info.table == NAMESPACES):
            if not hook.namespaces.matches(self._namespace_labels(request)):
                return False
        if not hook.objects:
            return True
        metas = [(obj.get("metadata") or {}) for obj in (request.object, request.old) if obj]
        return any(hook.objects.matches(meta.get("labels") or {}) for meta in metas)

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

    def _kind(self, info: ResourceInfo, request: AdmissionRequest) -> Kind:
        own = request.kind
        if info is own.info:
            return own
        found = self._kinds.find(info.group, info.version, info.plural)
        if found is None:
            raise say.internal(f"unable to convert to {info.api_version}: unknown kind")
        return found

    def _shown(self, obj: Obj | None, kind: Kind, request: AdmissionRequest) -> Any:
        """An object as a webhook for ``kind`` sees it; never the object itself."""
        if obj is None:
            return None
        own, sub = request.kind, request.subresource
        obj = orjson.loads(orjson.dumps(obj))
        stored = not self.mutating and request.operation in ("CREATE", "UPDATE")
        plain = obj.get("kind") == own.info.kind
        if plain and stored:
            obj = kind.from_storage(obj)
        elif plain and kind is not own:
            obj = kind.from_storage(own.to_storage(obj))
        if sub == "scale":
            return kind.get_scale(obj)
        return _binding(obj) if sub == "binding" else obj

    # -- conditions ------------------------------------------------------------------------

    def _meets_conditions(
        self, hook: Hook, request: AdmissionRequest, question: Obj, objects: tuple[Any, Any]
    ) -> bool:
        if not hook.conditions:
            return True
        info = request.kind.info
        here = {"group": info.group, "resource": info.plural}
        more = {
            "namespace": question.get("namespace", ""),
            "name": question.get("name", ""),
            "subresource": request.subresource,
        }
        data = {
            "object": objects[0],
            "oldObject": objects[1],
            "request": question,
            "authorizer": {"": "authorizer"},
            "authorizer.requestResource": {
                "": "resource",
                **here,
                **{k: v for k, v in more.items() if v},
            },
        }
        problems = []
        for condition in hook.conditions:
            try:
                if not condition.evaluate(data, self._authorize_as(request.context.user)):
                    return False
            except ValueError as why:
                problems.append(str(why))
        if problems and not hook.fail_open:
            text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise refuse(request, text)
        return not problems

    def _authorize_as(self, user: UserInfo) -> Any:
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

    # -- calling ---------------------------------------------------------------------------

    async def _ask(
        self, hook: Hook, request: AdmissionRequest, question: Obj, objects: tuple[Any, Any]
    ) -> Answer | None:
        """What the webhook says; None when it failed and may. Raises when it denies."""
        if request.context.dry_run and hook.side_effects not in _HARMLESS:
            raise errors.BadRequest(f'admission webhook "{hook.name}" does not support dry run')
        try:
            answer = await self._call(hook, question, objects)
        except CallError as why:
            self._failed(hook, str(why))
            return None
        for text in answer.warnings:
            request.context.warn(text)
        if not answer.allowed:
            raise refusal(hook.name, answer.result)
        return answer

    async def _call(self, hook: Hook, question: Obj, objects: tuple[Any, Any]) -> Answer:
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
            content = await self._client.post(hook.endpoint, body, seconds=hook.timeout)
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


def _binding(pod: Obj) -> Obj:
    """Assigning a pod is the creation of a Binding to its users."""
    meta = pod["metadata"]
    return {
        "kind": "Binding",
        "apiVersion": "v1",
        "metadata": {k: meta[k] for k in ("name", "namespace", "uid") if k in meta},
        "target": {"kind": "Node", "name": pod["spec"].get("nodeName", "")},
    }


class MutatingWebhooks(_Webhooks):
    """Calls the mutating webhooks. ``built_in`` are the plugins to run again after a change."""

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
    ) -> None:
        super().__init__(
            store, catalog, MUTATING, kinds=kinds, authorizer=authorizer, client=client
        )
        self._built_in = built_in

    async def mutate(self, request: AdmissionRequest) -> bool:
        candidates = self._candidates(request)
        if not candidates:
            return False
        invoked: list[Candidate] = []  # that want to be asked again, so far
        again: list[Candidate] = []
        changed = False
        for candidate in candidates:
            outcome = await self._run(candidate, request)
            if outcome:
                changed = True
                again += invoked
                invoked = []
            if outcome is not None and candidate.hook.reinvocable:
                invoked.append(candidate)
        if not changed:
            return False
        if await self._run_built_in(request):
            again += invoked
        for candidate in candidates:
            if candidate in again:
                await self._run(candidate, request)
        return True

    async def validate(self, request: AdmissionRequest) -> None:
        """Deletes and connections have no object to change but are asked about all the same."""
        if request.operation not in ("CREATE", "UPDATE") or request.subresource == "eviction":
            for candidate in self._candidates(request):
                await self._run(candidate, request)

    async def _run_built_in(self, request: AdmissionRequest) -> bool:
        before = orjson.dumps(request.object, option=orjson.OPT_SORT_KEYS)
        table = request.kind.info.table
        for plugin in self._built_in:
            if plugin.tables is None or table in plugin.tables:
                await plugin.mutate(request)
        return before != orjson.dumps(request.object, option=orjson.OPT_SORT_KEYS)

    async def _run(self, candidate: Candidate, request: AdmissionRequest) -> bool | None:
        """Ask one webhook; whether it changed the object, None when it was not to be asked."""
        hook, info = candidate
        if not self._selected(hook, request):
            return None
        kind = self._kind(info, request)
        old = self._shown(request.old, kind, request)
        new = self._shown(request.object, kind, request)
        if request.operation == "CREATE" and not name_before_generation(request) and new:
            new["metadata"].pop("name", None)
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
        before = orjson.dumps(request.object, option=orjson.OPT_SORT_KEYS)
        try:
            patched = apply_json_patch(new, answer.patch)
        except errors.BadRequest as why:
            text = f"received undecodable patch in webhook response: {why.message}"
            self._failed(hook, text)
            return False
        except errors.ApiError as why:
            raise say.internal(str(why.__cause__ or why.message)) from why
        if request.subresource == "scale":
            replicas = (patched.get("spec") or {}).get("replicas") or 0
            request.kind.set_scale(request.object or {}, replicas)
        elif request.subresource != "binding":
            request.object = self._settled(request, kind, patched)
        return before != orjson.dumps(request.object, option=orjson.OPT_SORT_KEYS)

    def _settled(self, request: AdmissionRequest, kind: Kind, patched: Obj) -> Obj:
        """The patched object, normal and defaulted, in the version of the request."""
        if request.operation == "CREATE" and not name_before_generation(request):
            patched.setdefault("metadata", {})["name"] = request.name
        patched = kind.normalise(patched)
        kind.default(patched)
        if kind is not request.kind:
            patched = request.kind.from_storage(kind.to_storage(patched))
        return patched


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
                kind = self._kind(info, request)
                shown = (self._shown(obj, kind, request) for obj in (request.object, request.old))
                objects = seen[info.api_version] = (next(shown), next(shown))
            question = describe(request, info, mutating=False)
            if self._meets_conditions(hook, request, question, objects):
                calls.append(self._ask(hook, request, question, objects))
        for result in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
