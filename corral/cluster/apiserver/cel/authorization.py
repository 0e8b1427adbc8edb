"""The ``authorizer`` variable of admission expressions, over a callback into the authorizer.

Checks are maps at run time; the callback in force is the one of the evaluation under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from corral.cluster.apiserver.cel.signatures import Signature, method

__all__ = ["AUTHORIZATION", "AUTHORIZER", "Authorize", "authorizing"]

Authorize = Callable[[Mapping[str, str]], tuple[bool, str]]
"""Attributes (verb, group, resource, … or path, serviceAccount) to (allowed, reason)."""

AUTHORIZER: dict[str, str] = {"": "authorizer"}
_current: ContextVar[Authorize | None] = ContextVar("cel_authorizer", default=None)


@contextmanager
def authorizing(authorize: Authorize | None) -> Iterator[None]:
    """Answer the checks of the enclosed evaluation with ``authorize``."""
    token = _current.set(authorize)
    try:
        yield
    finally:
        _current.reset(token)


def _with(kind: str, *names: str) -> Callable[..., dict[str, Any]]:
    def extend(check: dict[str, Any], *values: str) -> dict[str, Any]:
        return {**check, "": kind, **dict(zip(names, values, strict=True))}

    return extend


def _required(kind: str, name: str) -> Callable[..., dict[str, Any]]:
    def extend(check: dict[str, Any], value: str) -> dict[str, Any]:
        if not value:
            raise ValueError(f"{name} must not be empty")
        return {**check, "": kind, name: value}

    return extend


def _check(check: dict[str, Any], verb: str) -> dict[str, Any]:
    authorize = _current.get()
    if authorize is None:
        raise ValueError("authorization is not available here")
    attributes = {k: v for k, v in check.items() if k} | {"verb": verb}
    allowed, reason = authorize(attributes)
    return {"": "decision", "allowed": allowed, "reason": reason, "error": ""}


_RESOURCE, _DECISION = "ResourceCheck", "Decision"
AUTHORIZATION: tuple[Signature, ...] = (
    method("path", ["Authorizer", "string"], "PathCheck", _required("path", "path")),
    method("group", ["Authorizer", "string"], "GroupCheck", _with("group", "group")),
    method(
        "serviceAccount",
        ["Authorizer", "string", "string"],
        "Authorizer",
        _with("authorizer", "serviceAccountNamespace", "serviceAccount"),
    ),
    method("resource", ["GroupCheck", "string"], _RESOURCE, _required("resource", "resource")),
    *(
        method(name, [_RESOURCE, "string"], _RESOURCE, _with("resource", name))
        for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    ),
    method("check", [_RESOURCE, "string"], _DECISION, _check),
    method("check", ["PathCheck", "string"], _DECISION, _check),
    method("allowed", [_DECISION], "bool", lambda d: d["allowed"]),
    method("reason", [_DECISION], "string", lambda d: d["reason"]),
    method("errored", [_DECISION], "bool", lambda d: bool(d["error"])),
    method("error", [_DECISION], "string", lambda d: d["error"]),
)
