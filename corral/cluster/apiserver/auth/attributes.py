"""What is asked of an authorizer, what it answers, and the refusal the client sees."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.errors import forbidden
from corral.kube.errors import Forbidden

__all__ = ["Attributes", "Authorize", "Decision", "forbidden_error", "quoted"]


class Attributes(NamedTuple):
    """One request, as far as authorization cares; a tuple because one is made per request."""

    user: UserInfo
    verb: str
    namespace: str = ""
    api_group: str = ""
    api_version: str = ""
    resource: str = ""
    subresource: str = ""
    name: str = ""
    resource_request: bool = True
    path: str = ""
    field_selector: str = ""
    """As in the query; only the Node authorizer looks at it."""


class Decision(NamedTuple):
    """``reason`` says why, in the words the reviews API and refusals print."""

    allowed: bool
    reason: str = ""


Authorize: TypeAlias = Callable[[Attributes], Decision]

_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def quoted(text: str) -> str:
    """Text as Go's ``%q`` prints it; bytes of a request that are no text become ``?``."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=False)


def forbidden_error(attrs: Attributes, reason: str = "") -> Forbidden:
    """403 for a request that no authorizer allowed."""
    message = _refusal(attrs).translate(_HTML)
    if reason:
        message = f"{message}: {reason}"
    if not attrs.resource and not attrs.api_group:
        return Forbidden(f"forbidden: {message}")
    return forbidden(attrs.api_group, attrs.resource, attrs.name, message)


def _refusal(attrs: Attributes) -> str:
    who = f"User {quoted(attrs.user.name)} cannot {attrs.verb}"
    if not attrs.resource_request:
        return f"{who} path {quoted(attrs.path)}"
    resource = f"{attrs.resource}/{attrs.subresource}" if attrs.subresource else attrs.resource
    what = f"{who} resource {quoted(resource)} in API group {quoted(attrs.api_group)}"
    if attrs.namespace:
        return f"{what} in the namespace {quoted(attrs.namespace)}"
    return f"{what} at the cluster scope"
