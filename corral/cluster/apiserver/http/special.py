"""Resources and subresources that are not plain objects: reviews, tokens, evictions, bindings."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import orjson
from aiohttp import web

from corral.cluster.apiserver import codec
from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.auth import reviews
from corral.cluster.apiserver.auth.authentication import Authenticator
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.token_request import token_request
from corral.cluster.apiserver.auth.tokens import Lookup, TokenIssuer
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.heavy import work_of
from corral.cluster.apiserver.http import negotiate
from corral.cluster.apiserver.http.bodies import check_type
from corral.cluster.apiserver.http.eviction import Evictions
from corral.cluster.apiserver.http.incoming import check_small, read_body
from corral.cluster.apiserver.http.options import write_context
from corral.cluster.apiserver.http.verbs import Verbs, answer
from corral.cluster.apiserver.requests import Context, RequestInfo
from corral.cluster.apiserver.resources import ResourceInfo
from corral.kube import errors
from corral.kube.types import Obj

Special_ = Callable[[web.BaseRequest, RequestInfo, UserInfo], Awaitable[web.StreamResponse]]


class NodeProxy(Protocol):
    """What reaches into nodes: logs, exec, attach, port-forward, proxies, metrics."""

    def find(self, found: ResourceInfo, info: RequestInfo) -> Special_ | None: ...


class Special:
    """Finds the handler of a request that is not a plain verb on a stored object."""

    def __init__(
        self,
        *,
        verbs: Verbs,
        authenticator: Authenticator,
        authorizer: Authorizer,
        issuer: TokenIssuer,
        lookup: Lookup,
        nodes: NodeProxy,
    ) -> None:
        self._verbs = verbs
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._issuer = issuer
        self._lookup = lookup
        self._nodes = nodes
        self._table: dict[tuple[str, str, str, str], Special_] = {
            ("authentication.k8s.io", "tokenreviews", "", "create"): self._review,
            ("authentication.k8s.io", "selfsubjectreviews", "", "create"): self._review,
            ("authorization.k8s.io", "subjectaccessreviews", "", "create"): self._review,
            ("authorization.k8s.io", "selfsubjectaccessreviews", "", "create"): self._review,
            ("authorization.k8s.io", "localsubjectaccessreviews", "", "create"): self._review,
            ("authorization.k8s.io", "selfsubjectrulesreviews", "", "create"): self._review,
            ("", "serviceaccounts", "token", "create"): self._token,
            ("", "pods", "eviction", "create"): self._evict,
            ("", "pods", "binding", "create"): self._bind,
            ("", "bindings", "", "create"): self._bind,
            ("", "componentstatuses", "", "list"): self._component_statuses,
        }

    def find(self, found: ResourceInfo, info: RequestInfo) -> Special_ | None:
        if not found.custom:
            key = (info.group, info.resource, info.subresource, info.verb)
            handler = self._table.get(key)
            if handler is not None:
                return handler
            if info.subresource or info.group == "metrics.k8s.io":
                return self._nodes.find(found, info)
        return None

    async def _read(
        self, request: web.BaseRequest, user: UserInfo, group: str, version: str, kind: str
    ) -> tuple[Obj, negotiate.Output]:
        """An object of a kind that is not stored, from a body in any form."""
        out = negotiate.output(request.headers.get("Accept", ""), table=False)
        media = negotiate.body_media(request)
        body = await read_body(request)
        check_small(body, media)
        message = codec.message_for(group, version, kind)
        assert message is not None, kind
        heavy = self._verbs.registry.heavy
        obj = await heavy.do(user, work_of(body, media), decoded, message, body, media)
        check_type(obj, f"{group}/{version}" if group else version, kind)
        return obj, out

    async def _review(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.Response:
        kind = _REVIEWS[info.resource]
        review, out = await self._read(request, user, info.group, info.version, kind)
        authorize = self._authorizer.authorize
        match kind:
            case "TokenReview":
                done = reviews.token_review(review, self._authenticator)
            case "SelfSubjectReview":
                done = reviews.self_subject_review(user)
            case "SubjectAccessReview":
                done = reviews.subject_access_review(review, authorize)
            case "SelfSubjectAccessReview":
                done = reviews.self_subject_access_review(review, user, authorize)
            case "LocalSubjectAccessReview":
                done = reviews.local_subject_access_review(review, info.namespace, authorize)
            case _:
                done = reviews.self_subject_rules_review(review, user, self._authorizer)
        return answer(out, orjson.dumps(done), 201)

    async def _token(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.Response:
        wanted, out = await self._read(request, user, "authentication.k8s.io", "v1", "TokenRequest")
        registry = self._verbs.registry
        accounts = registry.kind_of("", "v1", "serviceaccounts")
        assert accounts is not None
        review = AdmissionRequest(
            "CREATE", accounts, info.namespace, info.name, wanted, None, Context(user), "token"
        )
        await registry.admission.validate(review)
        done = token_request(
            wanted, info.namespace, info.name, issuer=self._issuer, lookup=self._lookup
        )
        return answer(out, orjson.dumps(done), 201)

    async def _component_statuses(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.Response:
        out = negotiate.output(request.headers.get("Accept", ""))
        body = orjson.dumps(
            {
                "kind": "ComponentStatusList",
                "apiVersion": "v1",
                "metadata": {"resourceVersion": str(self._verbs.registry.store.revision)},
                "items": [],
            }
        )
        out = negotiate.Output(out.media, content_type=out.media)
        return answer(out, body, 200, ["v1 ComponentStatus is deprecated in v1.19+"])

    # -- pods ------------------------------------------------------------------------------

    def _pods(self) -> Kind:
        kind = self._verbs.registry.kind_of("", "v1", "pods")
        assert kind is not None
        return kind

    async def _bind(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.Response:
        """Assign a pod to a node; a scheduler does this."""
        binding, out = await self._read(request, user, "", "v1", "Binding")
        context = write_context(request, user, "CreateOptions")
        meta = binding.get("metadata") or {}
        name = info.name or meta.get("name", "")
        target = binding.get("target") or {}
        node = target.get("name", "")
        if target.get("kind") not in (None, "", "Node"):
            problem = say.not_supported("target.kind", target["kind"], ["Node", "<empty>"])
            raise _plain_refusal(problem)
        if not node:
            raise _plain_refusal(say.required("target.name"))

        def change(live: Obj | None) -> Obj:
            assert live is not None
            _assign(live, meta, node, now=self._verbs.registry.timestamp())
            return live

        await self._verbs.writer.update(
            self._pods(), info.namespace, name, change=change, context=context,
            subresource="binding",
        )  # fmt: skip
        return answer(out, orjson.dumps(_SUCCESS | {"code": 201}), 201)

    async def _evict(
        self, request: web.BaseRequest, info: RequestInfo, user: UserInfo
    ) -> web.Response:
        """Delete a pod if the disruption budgets allow it."""
        eviction, out = await self._read(request, user, "policy", "v1", "Eviction")
        context = write_context(request, user, "CreateOptions")
        options: Obj = eviction.get("deleteOptions") or {}
        if options.get("dryRun"):
            context.dry_run = True
        if context.dry_run:
            options["dryRun"] = ["All"]
        pods = self._pods()
        self._verbs.registry.head(pods, info.namespace, info.name)
        request_ = AdmissionRequest(
            "CREATE", pods, info.namespace, info.name, eviction, None, context, "eviction"
        )
        await self._verbs.registry.admission.validate(request_)
        evictions = Evictions(self._verbs, pods)
        await evictions.evict(info.namespace, info.name, options=options, context=context)
        return answer(out, orjson.dumps(_SUCCESS | {"code": 201}), 201)


def decoded(message: Any, body: bytes, media: str) -> Obj:
    """The object in a body."""
    if media == negotiate.PROTOBUF:
        return codec.decode_protobuf(body, message)
    if media == negotiate.YAML:
        return codec.normalise(message, codec.parse_yaml(body))
    return codec.decode_json(message, body, strict=False).obj


_REVIEWS = {
    "tokenreviews": "TokenReview",
    "selfsubjectreviews": "SelfSubjectReview",
    "subjectaccessreviews": "SubjectAccessReview",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "localsubjectaccessreviews": "LocalSubjectAccessReview",
    "selfsubjectrulesreviews": "SelfSubjectRulesReview",
}
_SUCCESS: Obj = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _plain_refusal(problem: say.FieldError) -> errors.ApiError:
    """Kubernetes gives these as an error without a reason."""
    return errors.ApiError(str(problem), reason="")


def _assign(pod: Obj, binding: Obj, node: str, *, now: str) -> None:
    meta, spec = pod["metadata"], pod["spec"]
    name = meta["name"]
    if binding.get("uid") and binding["uid"] != meta["uid"]:
        why = (
            f"Precondition failed: UID in precondition: {binding['uid']}, "
            f"UID in object meta: {meta['uid']}"
        )
        raise say.conflict("", "pods/binding", name, why)
    if "deletionTimestamp" in meta:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise say.conflict("", "pods/binding", name, why)
    if spec.get("nodeName"):
        why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        raise say.conflict("", "pods/binding", name, why)
    if spec.get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
        raise say.conflict("", "pods/binding", name, why)
    spec["nodeName"] = node
    annotations = binding.get("annotations")
    if annotations:
        meta["annotations"] = {**(meta.get("annotations") or {}), **annotations}
    status = pod.setdefault("status", {})
    conditions = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now})
    status["conditions"] = conditions
