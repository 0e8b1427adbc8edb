"""AdmissionReview: the question put to a webhook, and what its answer means."""

from __future__ import annotations

import base64
import binascii
from typing import Any, NamedTuple

import orjson

from corral.cluster.apiserver.admission.refusals import name_before_generation
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.patch.goformat import json_type
from corral.cluster.apiserver.resources import ResourceInfo
from corral.kube import errors
from corral.kube.types import Obj

__all__ = [
    "Answer",
    "InvalidAnswer",
    "Unreadable",
    "describe",
    "read_answer",
    "refusal",
    "version_for",
]

KNOWN_VERSIONS = ("v1", "v1beta1")
_OPTIONS = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}


class InvalidAnswer(Exception):
    """An answer that is not the one that was asked for."""


class Unreadable(Exception):
    """An answer that is no object at all."""


class Answer(NamedTuple):
    """What a webhook said."""

    allowed: bool
    patch: bytes
    patch_type: str
    result: Obj | None
    warnings: tuple[str, ...]


def version_for(accepted: tuple[str, ...]) -> str | None:
    """The first review version of the webhook that is known here."""
    return next((v for v in accepted if v in KNOWN_VERSIONS), None)


def _gvk(info: ResourceInfo, subresource: str) -> Obj:
    sub = info.subresources.get(subresource)
    found = sub or info
    return {"group": found.group, "version": found.version, "kind": found.kind}


def _gvr(info: ResourceInfo) -> Obj:
    return {"group": info.group, "version": info.version, "resource": info.plural}


def describe(request: AdmissionRequest, info: ResourceInfo, *, mutating: bool) -> Obj:
    """The ``request`` of a review without uid and objects; ``info`` is what the webhook sees."""
    own, sub = request.kind.info, request.subresource
    operation = "CREATE" if sub == "binding" else request.operation
    out: Obj = {"kind": _gvk(info, sub), "resource": _gvr(info)}
    if sub:
        out["subResource"] = sub
    out |= {"requestKind": _gvk(own, sub), "requestResource": _gvr(own)}
    if sub:
        out["requestSubResource"] = sub
    name = name_before_generation(request) if mutating else request.name
    if name:
        out["name"] = name
    namespace = request.name if own.table == "/namespaces" else request.namespace
    if namespace:
        out["namespace"] = namespace
    out |= {
        "operation": operation,
        "userInfo": request.context.user.as_object(),
        "dryRun": request.context.dry_run,
        "options": _options(request, operation),
    }
    return out


def _options(request: AdmissionRequest, operation: str) -> Obj | None:
    kind = _OPTIONS.get(operation)
    if kind is None:
        return None
    return {"kind": kind, "apiVersion": "meta.k8s.io/v1", **request.options}


# -- answers -------------------------------------------------------------------------------


def read_answer(body: bytes, *, uid: str, version: str, mutating: bool) -> Answer:
    """Raises InvalidAnswer, Unreadable."""
    review = _parse(body)
    response = review.get("response")
    if not isinstance(response, dict):
        raise InvalidAnswer("webhook response was absent")
    patch, patch_type = _patch(response), response.get("patchType")
    if version == "v1":
        _check_v1(review, response, uid)
        _check_patch(patch, patch_type, mutating=mutating)
    else:
        patch = patch if mutating else b""
        patch_type = "JSONPatch" if patch else None
    warnings = response.get("warnings") or ()
    return Answer(
        bool(response.get("allowed")),
        patch,
        patch_type or "",
        response.get("status"),
        tuple(w for w in warnings if isinstance(w, str)),
    )


_GO_TYPE = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)


def _parse(body: bytes) -> Obj:
    try:
        review: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        review = ""  # what is no JSON is a string to a reader of YAML
    if not isinstance(review, dict):
        found = f"cannot unmarshal {json_type(review)} into Go value of type {_GO_TYPE}"
        raise Unreadable(f"couldn't get version/kind; json parse error: json: {found}")
    return review


def _patch(response: Obj) -> bytes:
    text = response.get("patch") or ""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InvalidAnswer("illegal base64 data in response.patch") from None


def _check_v1(review: Obj, response: Obj, uid: str) -> None:
    if response.get("uid", "") != uid:
        got = response.get("uid", "")
        raise InvalidAnswer(f'expected response.uid="{uid}", got "{got}"')
    api_version, kind = review.get("apiVersion") or "", review.get("kind") or ""
    if (api_version, kind) != ("admission.k8s.io/v1", "AdmissionReview"):
        got = f"{api_version if '/' in api_version else f'/{api_version}'}, Kind={kind}"
        wanted = "admission.k8s.io/v1, Kind=AdmissionReview"
        raise InvalidAnswer(f"expected webhook response of {wanted}, got {got}")


def _check_patch(patch: bytes, patch_type: str | None, *, mutating: bool) -> None:
    if not mutating:
        if patch:
            raise InvalidAnswer("validating webhook may not return response.patch")
        if patch_type is not None:
            raise InvalidAnswer("validating webhook may not return response.patchType")
    elif patch and patch_type is None:
        raise InvalidAnswer("webhook returned response.patch but not response.patchType")
    elif not patch and patch_type is not None:
        raise InvalidAnswer("webhook returned response.patchType but not response.patch")
    elif patch_type == "":
        raise InvalidAnswer('webhook returned invalid response.patchType of ""')


def refusal(name: str, result: Obj | None) -> errors.ApiError:
    """The error of a webhook that denied a request, with the code and reason it chose."""
    result = result or {}
    denied = f'admission webhook "{name}" denied the request'
    message, reason = result.get("message") or "", result.get("reason") or ""
    if message or reason:
        text = f"{denied}: {message or reason}"
    else:
        text = f"{denied} without explanation"
    code = result.get("code") or 0
    status = {"message": text, "reason": reason, "code": code if code >= 400 else 400}
    error = errors.error_from_status(status | {"details": result.get("details") or {}})
    # A webhook that gives no reason has none: it is not derived from the code.
    error.status_reason = reason
    return error
