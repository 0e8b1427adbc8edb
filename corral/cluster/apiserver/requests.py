"""What a request asks for, read from its method, path and query."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import unquote

from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube import errors

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_NAMESPACE_SUBRESOURCES = frozenset({"status", "finalize"})
MAX_WARNINGS = 4096
"""More could not be sent: together they have as many characters at most."""
ANONYMOUS = UserInfo("system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """The parts of an API request; ``resource`` is empty for paths such as /version."""

    path: str
    verb: str
    group: str = ""
    version: str = ""
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    rest: str = ""
    """What follows a proxy subresource."""

    @property
    def is_resource(self) -> bool:
        return bool(self.resource)


def parse(method: str, raw_path: str, *, watch: bool = False) -> RequestInfo:
    """Split a path as Kubernetes does. Raises NotFound or BadRequest for paths that try tricks."""
    path = unquote(raw_path)
    parts = path.strip("/").split("/") if path.strip("/") else []
    if "\x00" in path:
        raise errors.BadRequest(f"the path {path!r} is not clean")
    # What follows the name may be a path of its own (a proxy's), and have empty parts.
    odd = path.startswith("//") or "" in parts[:6]
    if odd or any(p in (".", "..") for p in parts):
        raise errors.NotFound("the server could not find the requested resource")
    verb = _VERBS.get(method, "")
    plain = RequestInfo(path, method.lower())
    if len(parts) >= 2 and parts[0] == "api":
        group, version, parts = "", parts[1], parts[2:]
    elif len(parts) >= 3 and parts[0] == "apis":
        group, version, parts = parts[1], parts[2], parts[3:]
    else:
        return plain
    if not parts:
        return plain
    if parts[0] == "watch" and len(parts) > 1 and verb == "get":
        parts, verb = parts[1:], "watch"
    return _resource(path, verb, group, version, parts, watch=watch)


def _resource(
    path: str, verb: str, group: str, version: str, parts: list[str], *, watch: bool
) -> RequestInfo:
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 1:
        namespace = parts[1]
        if len(parts) > 2 and parts[2] not in _NAMESPACE_SUBRESOURCES:
            parts = parts[2:]
    resource, *tail = parts
    name = tail[0] if tail else ""
    subresource = tail[1] if len(tail) > 1 else ""
    rest = "/".join(tail[2:])
    if verb == "get" and not name:
        verb = "watch" if watch else "list"
    if verb == "delete" and not name:
        verb = "deletecollection"
    return RequestInfo(path, verb, group, version, namespace, resource, name, subresource, rest)


@dataclass(slots=True)
class Context:
    """Who asks, and what travels beside the object through one request."""

    user: UserInfo
    manager: str = "unknown"
    """The field manager of a write."""
    dry_run: bool = False
    field_validation: str = "Warn"
    force: bool = False
    size: int = 0
    """Bytes of the request's body."""
    warnings: list[str] = field(default_factory=list)

    warned: set[str] = field(default_factory=set)

    def warn(self, text: str) -> None:
        if text not in self.warned and len(self.warnings) < MAX_WARNINGS:
            self.warned.add(text)
            self.warnings.append(text)
