"""Failed calls: canonical codes, and details that every client library can read.

The same problem that REST answers with decides the code; the trailer ``grpc-status-details-bin``
holds a ``google.rpc.Status`` with the problem, the wrong fields (``BadRequest``), the reason
(``ErrorInfo``) and how long to wait (``RetryInfo``). It is kept small enough for the headers of
any client: what does not fit is left out, last fields first.
"""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.any_pb2 import Any  # type: ignore[import-untyped]
from google.protobuf.message import Message  # type: ignore[import-untyped]

from corral.gateway.grpc.messages import write_message
from corral.gateway.grpc.values import Unreadable
from corral.gateway.problems import Problem, Refused
from corral.kube.types import Obj
from corral.v1 import errors_pb2 as pb

__all__ = ["CODES", "DETAILS", "code_of", "details_of", "readable", "unreadable"]

DETAILS: Final = "grpc-status-details-bin"
DOMAIN: Final = "corral.dev"
_ROOM: Final = 4096
"""Bytes of details; clients take 8 KiB of headers unless they are told otherwise."""
_SHORT: Final = ("type", "title", "status", "detail", "instance", "requestId", "hint")
"""Members of a problem that always have room."""
_LINE: Final = 1024
"""Characters of a message."""

CODES: Final[dict[str, grpc.StatusCode]] = {
    "bad-request": grpc.StatusCode.INVALID_ARGUMENT,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "quota-exceeded": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "not-found": grpc.StatusCode.NOT_FOUND,
    "unknown-kind": grpc.StatusCode.NOT_FOUND,
    "not-installed": grpc.StatusCode.FAILED_PRECONDITION,
    "method-not-allowed": grpc.StatusCode.UNIMPLEMENTED,
    "not-supported": grpc.StatusCode.UNIMPLEMENTED,
    "not-acceptable": grpc.StatusCode.INVALID_ARGUMENT,
    "conflict": grpc.StatusCode.FAILED_PRECONDITION,
    "already-exists": grpc.StatusCode.ALREADY_EXISTS,
    "restart-incomplete": grpc.StatusCode.ABORTED,
    "gone": grpc.StatusCode.OUT_OF_RANGE,
    "precondition-failed": grpc.StatusCode.ABORTED,
    "too-large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "unsupported-media-type": grpc.StatusCode.INVALID_ARGUMENT,
    "invalid": grpc.StatusCode.INVALID_ARGUMENT,
    "too-many-requests": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "internal": grpc.StatusCode.INTERNAL,
    "bad-upstream": grpc.StatusCode.INTERNAL,
    "unavailable": grpc.StatusCode.UNAVAILABLE,
    "timeout": grpc.StatusCode.DEADLINE_EXCEEDED,
}
"""The code of every kind of problem that `corral.gateway.problems` knows."""


def code_of(problem: Problem) -> grpc.StatusCode:
    """The canonical code of a problem."""
    wrong = grpc.StatusCode.INTERNAL if problem.status >= 500 else grpc.StatusCode.INVALID_ARGUMENT
    return CODES.get(problem.kind, wrong)


def unreadable(error: Unreadable) -> Refused:
    """A message that cannot be understood, as the refusal it is."""
    where = f"{error.field}: " if error.field else ""
    return Refused(
        "bad-request", f"{where}{error}", errors=((error.field or "object", str(error)),)
    )


def readable(problem: Problem) -> str:
    """The status message."""
    return _cut(problem.detail)


def details_of(problem: Problem, *, instance: str, request_id: str) -> bytes:
    """The trailer of a failed call; ``instance`` is the path of its method."""
    status = pb.RpcStatus(code=code_of(problem).value[0], message=readable(problem))
    _add(
        status,
        "corral.v1.Problem",
        _problem(problem.as_object(instance=instance, request_id=request_id)),
    )
    info = pb.ErrorInfo(reason=_reason(problem.kind), domain=DOMAIN)
    info.metadata["requestId"] = request_id
    _add(status, "google.rpc.ErrorInfo", info)
    if problem.retry_after:
        wait = pb.RetryInfo()
        wait.retry_delay.seconds = problem.retry_after
        _add(status, "google.rpc.RetryInfo", wait)
    if problem.errors:
        room = _ROOM - status.ByteSize()
        _add(status, "google.rpc.BadRequest", _violations(problem.errors, room))
    return bytes(status.SerializeToString())


def _problem(obj: Obj) -> pb.Problem:
    """As REST says it; the fields that are wrong stand in BadRequest."""
    reported = {**obj, "detail": _cut(obj["detail"])}
    reported.pop("errors", None)
    out = pb.Problem()
    write_message(out, reported)
    if out.ByteSize() > _ROOM * 3 // 4:
        out = pb.Problem()
        write_message(out, {key: reported[key] for key in _SHORT if key in reported})
    return out


def _violations(errors: tuple[tuple[str, str], ...], room: int) -> pb.BadRequest:
    out = pb.BadRequest()
    for field, reported in errors:
        one = pb.BadRequest.FieldViolation(field=_cut(field, 200), description=_cut(reported, 400))
        if out.ByteSize() + one.ByteSize() + 100 > room:
            break
        out.field_violations.append(one)
    return out


def _add(status: pb.RpcStatus, name: str, message: Message) -> None:
    """Under the name that readers know; our messages have the same fields."""
    status.details.append(
        Any(type_url=f"type.googleapis.com/{name}", value=message.SerializeToString())
    )


def _reason(kind: str) -> str:
    return kind.upper().replace("-", "_")


def _cut(text: str, most: int = _LINE) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
