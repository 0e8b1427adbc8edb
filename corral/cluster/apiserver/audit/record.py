"""Audit events of one request: made when it is received, when an answer begins, when it ends."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from aiohttp import web

from corral.cluster.apiserver.audit.policy import Decided, Level, Policy
from corral.cluster.apiserver.auth.attributes import Attributes, Decision
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.types import Obj

__all__ = ["AUDIT", "Auditor", "Record", "started"]

Write = Callable[[bytes], None]
_MAX_ID: Final = 64
_MAX_AGENT: Final = 1024
_OTHER: Final = "corral/not-json"
"""The type of what stands for a body that is no JSON document, such as YAML or protobuf."""


class Auditor:
    """Makes records of requests as a policy says."""

    def __init__(self, policy: Policy, write: Write) -> None:
        self._policy = policy
        self._write = write

    def begin(self, request: web.BaseRequest, attrs: Attributes) -> Record | None:
        """A request was received; None where the policy records nothing of it."""
        decided = self._policy.decide(attrs)
        if decided.level is Level.NONE:
            return None
        record = request[AUDIT] = Record(request, attrs, decided, self._write)
        record.stage("RequestReceived")
        return record


class Record:
    """One request on its way."""

    def __init__(
        self,
        request: web.BaseRequest,
        attrs: Attributes,
        decided: Decided,
        write: Write,
    ) -> None:
        self._decided = decided
        self._write = write
        self._event = _event(request, attrs, decided.level)
        self.id: str = self._event["auditID"]

    def impersonates(self, actual: UserInfo) -> None:
        self._event["impersonatedUser"] = actual.as_object()

    def authorized(self, decision: Decision) -> None:
        """What the authorizer decided, as an annotation."""
        self._event["annotations"] = {
            "authorization.k8s.io/decision": "allow" if decision.allowed else "forbid",
            "authorization.k8s.io/reason": decision.reason,
        }

    def started(self, code: int) -> None:
        """The head of an answer of unknown length was sent."""
        self._event["responseStatus"] = _status(code, b"")
        self.stage("ResponseStarted")

    def complete(self, response: web.StreamResponse, *, sent: bytes = b"") -> None:
        """The answer is known, or was sent; ``sent`` is the request's body, where it was read."""
        body = response.body if isinstance(response, web.Response) else b""
        answered = body if isinstance(body, bytes) else b""
        self._event["responseStatus"] = _status(response.status, answered)
        if self._decided.level >= Level.REQUEST and sent:
            self._event["requestObject"] = self._object(sent)
        if self._decided.level is Level.REQUEST_RESPONSE and answered:
            self._event["responseObject"] = self._object(answered)
        self.stage("ResponseComplete")

    def stage(self, name: str) -> None:
        """Write the event as it is at one stage, unless the policy omits the stage."""
        if name in self._decided.omit_stages:
            return
        event = {**self._event, "stage": name, "stageTimestamp": _now()}
        try:
            line = orjson.dumps(event)
        except TypeError:  # headers may have bytes that are no text
            line = orjson.dumps(_clean(event))
        self._write(line + b"\n")

    def _object(self, body: bytes) -> Any:
        try:
            found = orjson.loads(body)
            if self._decided.omit_managed_fields and isinstance(found, dict):
                _without_managed_fields(found)
            return orjson.Fragment(orjson.dumps(found))
        except (orjson.JSONDecodeError, TypeError):  # or nested deeper than is written
            return _as_sent(body)


AUDIT: Final[web.RequestKey[Record]] = web.RequestKey("audit", Record)


def started(request: web.BaseRequest, code: int) -> None:
    """An answer of unknown length begins: a watch, a log, a session."""
    record = request.get(AUDIT)
    if record is not None:
        record.started(code)


def _event(request: web.BaseRequest, attrs: Attributes, level: Level) -> Obj:
    headers = request.headers
    event: Obj = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": level.text,
        "auditID": _id(headers),
        "stage": "",
        "requestURI": request.raw_path,
        "verb": attrs.verb,
        "user": attrs.user.as_object(),
        "sourceIPs": [request.remote] if request.remote else [],
        "userAgent": headers.get("User-Agent", "")[:_MAX_AGENT],
        "requestReceivedTimestamp": _now(),
    }
    if attrs.resource_request:
        event["objectRef"] = _reference(attrs)
    return event


def _id(headers: Mapping[str, str]) -> str:
    """The caller's own, where it is of a sensible length; else a new one."""
    own = headers.get("Audit-ID", "")
    return own if 0 < len(own) <= _MAX_ID and own.isprintable() else str(uuid.uuid4())


def _reference(attrs: Attributes) -> Obj:
    found = {
        "resource": attrs.resource,
        "namespace": attrs.namespace,
        "name": attrs.name,
        "apiGroup": attrs.api_group,
        "apiVersion": attrs.api_version,
        "subresource": attrs.subresource,
    }
    return {key: value for key, value in found.items() if value}


def _status(code: int, body: bytes) -> Obj:
    status: Obj = {"metadata": {}, "code": code}
    if code >= 400:
        try:
            told = orjson.loads(body)
        except orjson.JSONDecodeError:
            told = {}
        if isinstance(told, dict) and told.get("kind") == "Status":
            status |= {key: told[key] for key in ("status", "message", "reason") if key in told}
    return status


def _as_sent(body: bytes) -> Obj:
    """A body that cannot be recorded as an object: nothing of it is left out."""
    try:
        return {"type": _OTHER, "bytes": len(body), "text": body.decode()}
    except UnicodeDecodeError:
        return {"type": _OTHER, "bytes": len(body), "base64": base64.b64encode(body).decode()}


def _clean(value: Any) -> Any:
    """The same with a replacement character for each byte that is no text."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list) else value


def _without_managed_fields(obj: Obj) -> None:
    for one in (obj, *(obj.get("items") or ())):
        metadata = one.get("metadata") if isinstance(one, dict) else None
        if isinstance(metadata, dict):
            metadata.pop("managedFields", None)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
