"""AdmissionReview and ConversionReview (v1): the question of an API server and our answer."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from corral.kube.errors import ApiError
from corral.kube.problems import FieldError, invalid
from corral.kube.types import Obj

__all__ = ["AdmissionRequest", "BadReview", "Verdict", "allowed", "patched", "refused", "reviewed"]

ADMISSION = ("admission.k8s.io/v1", "AdmissionReview")
CONVERSION = ("apiextensions.k8s.io/v1", "ConversionReview")
_MAX_WARNING = 256
"""Longer texts may be cut by the API server; see the documentation of warnings there."""


class BadReview(Exception):
    """What was asked is no review that we understand."""


@dataclass(frozen=True, slots=True)
class AdmissionRequest:
    """What somebody wants to do with an object."""

    uid: str
    group: str
    version: str
    kind: str
    resource: str
    """The plural."""
    operation: str
    """CREATE, UPDATE, DELETE or CONNECT."""
    name: str = ""
    """Empty while a name is still to be generated."""
    namespace: str = ""
    subresource: str = ""
    object: Obj | None = None
    """As it would be afterwards; none for DELETE. Not ours to change."""
    old: Obj | None = None
    """As it is; none for CREATE."""
    user: Obj = field(default_factory=dict)
    options: Obj = field(default_factory=dict)
    dry_run: bool = False

    @classmethod
    def parse(cls, request: Obj) -> AdmissionRequest:
        """Read the ``request`` of a review.

        Raises:
            BadReview: something that every request has is missing.
        """
        kind, resource = request.get("kind") or {}, request.get("resource") or {}
        try:
            return cls(
                uid=request["uid"],
                group=kind.get("group", ""),
                version=kind["version"],
                kind=kind["kind"],
                resource=resource["resource"],
                operation=request["operation"],
                name=request.get("name") or "",
                namespace=request.get("namespace") or "",
                subresource=request.get("subResource") or "",
                object=request.get("object"),
                old=request.get("oldObject"),
                user=request.get("userInfo") or {},
                options=request.get("options") or {},
                dry_run=bool(request.get("dryRun")),
            )
        except (KeyError, AttributeError) as error:
            raise BadReview(f"the request lacks {error}") from error

    @property
    def key(self) -> str:
        """``namespace/name``, as controllers name objects."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a validator found; no errors: allowed."""

    errors: Sequence[FieldError] = ()
    warnings: Sequence[str] = ()


def reviewed(body: bytes, expected: tuple[str, str]) -> Obj:
    """The ``request`` of a review of the expected type.

    Raises:
        BadReview: it is none.
    """
    try:
        review: Any = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReview(f"no JSON: {error}") from error
    if not isinstance(review, dict) or not isinstance(review.get("request"), dict):
        raise BadReview(f"no {expected[1]} with a request")
    found = (review.get("apiVersion"), review.get("kind"))
    if found != expected:
        raise BadReview(f"{found[1]} of {found[0]}: only {expected[1]} of {expected[0]} is known")
    request: Obj = review["request"]
    return request


def _answer(response: Obj, warnings: Sequence[str]) -> Obj:
    texts = [" ".join(text.split())[:_MAX_WARNING] for text in warnings]
    if texts:
        response["warnings"] = texts
    return {"apiVersion": ADMISSION[0], "kind": ADMISSION[1], "response": response}


def allowed(request: AdmissionRequest, warnings: Sequence[str] = ()) -> Obj:
    return _answer({"uid": request.uid, "allowed": True}, warnings)


def patched(request: AdmissionRequest, patch: list[Obj], warnings: Sequence[str] = ()) -> Obj:
    """Allowed, with changes; an empty patch is left out."""
    if not patch:
        return allowed(request, warnings)
    text = base64.b64encode(orjson.dumps(patch)).decode()
    response: Obj = {"uid": request.uid, "allowed": True, "patchType": "JSONPatch", "patch": text}
    return _answer(response, warnings)


def refused(
    request: AdmissionRequest,
    why: ApiError | Sequence[FieldError],
    warnings: Sequence[str] = (),
) -> Obj:
    """Not allowed: one error, or every mistake as a cause of ``Invalid``."""
    error = why
    if not isinstance(error, ApiError):
        name = request.name or _generated(request)
        error = invalid(request.group, request.kind, name, list(error))
    response: Obj = {"uid": request.uid, "allowed": False, "status": error.status}
    return _answer(response, warnings)


def _generated(request: AdmissionRequest) -> str:
    metadata = (request.object or {}).get("metadata") or {}
    return str(metadata.get("name") or metadata.get("generateName") or "")
