"""Request bodies in JSON, decoded into normal form or refused in Kubernetes' words."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import orjson

from corral.cluster.apiserver.codec import refusal
from corral.cluster.apiserver.codec.duplicates import may_have_duplicates
from corral.cluster.apiserver.codec.explain import explain
from corral.cluster.apiserver.codec.normal import Mismatch, normaliser
from corral.cluster.apiserver.codec.syntax import depth_error, syntax_error
from corral.cluster.apiserver.codec.types import Message, message_for
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["Decoded", "decode_json", "normalise", "parse_json", "strict_error"]


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded body."""

    obj: Obj
    """In normal form: as the server prints it, before defaults."""
    problems: list[str] = field(default_factory=list)
    """What a strict request is refused for, e.g. ``unknown field "spec.foo"``."""


def decode_json(msg: Message, body: bytes | Obj, *, strict: bool) -> Decoded:
    """Decode a request body meant to be a ``msg``; a kind or version left out is filled in.

    Unknown fields are dropped in any case; ``strict`` also reports them, and duplicates, which
    only bytes can show.

    Raises:
        errors.BadRequest: not JSON, of another kind, or a value of the wrong type.
    """
    raw = body if isinstance(body, bytes) else None
    parsed = body if isinstance(body, dict) else parse_json(msg.kind, body)
    _identify(msg, parsed, raw)
    rest: list[None] = []
    try:
        obj = normaliser(msg)(parsed, rest)
    except Mismatch:
        raise _mismatch(msg, raw, parsed) from None
    except RecursionError:
        raise _refuse(msg, depth_error()) from None
    if "kind" not in obj or "apiVersion" not in obj:
        obj = {"kind": msg.kind, "apiVersion": msg.api_version, **obj}
    if not strict or (not rest and (raw is None or not may_have_duplicates(raw, parsed))):
        return Decoded(obj)
    return Decoded(obj, list(explain(msg, orjson.dumps(parsed) if raw is None else raw).problems))


def normalise(msg: Message, obj: Obj) -> Obj:
    """``obj`` in normal form, as a new dict that may share values with the old one.

    Raises:
        errors.BadRequest: a value is of the wrong type.
    """
    try:
        out: Obj = normaliser(msg)(obj, [])
    except Mismatch:
        raise _mismatch(msg, None, obj) from None
    except RecursionError:
        raise _refuse(msg, depth_error()) from None
    return out


def strict_error(msg: Message, problems: list[str]) -> errors.BadRequest:
    """The refusal of a strict request."""
    return _refuse(msg, f"strict decoding error: {', '.join(problems)}")


def parse_json(expected: str, body: bytes) -> Obj:
    """The object in ``body``; JSON ``null`` counts as an empty one, as it does in Go.

    Raises:
        errors.BadRequest: not JSON, or not an object.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        value = _parse_again(expected, body)
    if value is None:
        return {}
    if type(value) is not dict:
        raise refusal.not_an_object(expected, value, body)
    return value


def _parse_again(expected: str, body: bytes) -> Any:
    """What the fast parser refuses: bad syntax, and odd text that Go repairs."""
    error = syntax_error(body)
    if error is None:
        try:
            text = json.dumps(json.loads(body.decode("utf-8", "replace")), ensure_ascii=False)
            return orjson.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
        except (ValueError, RecursionError):
            error = depth_error()
    raise refusal.unrecognized(expected, refusal.NO_KIND + error, body)


def _identify(msg: Message, parsed: Obj, raw: bytes | None) -> None:
    """Refuse a body that says it is something else."""
    kind, api_version = parsed.get("kind"), parsed.get("apiVersion")
    if kind in (msg.kind, None, "") and api_version in (msg.api_version, None, ""):
        return
    body = orjson.dumps(parsed) if raw is None else raw
    for name, value in (("apiVersion", api_version), ("kind", kind)):
        if value is not None and type(value) is not str:
            raise refusal.no_text(msg.kind, name, value, body)
    kind, api_version = kind or msg.kind, api_version or msg.api_version
    if api_version.count("/") > 1:
        why = f"unexpected GroupVersion string: {api_version}"
        raise refusal.unrecognized(msg.kind, why, body)
    group, _, version = api_version.rpartition("/")
    actual = message_for(group, version, kind)
    if actual is msg:
        return
    raise refusal.other_kind(msg, actual, api_version, kind)


def _mismatch(msg: Message, raw: bytes | None, parsed: Obj) -> errors.BadRequest:
    finding = explain(msg, orjson.dumps(parsed) if raw is None else raw)
    return _refuse(msg, finding.error or "json: cannot unmarshal object")


def _refuse(msg: Message, why: str) -> errors.BadRequest:
    return refusal.cannot_handle(msg, msg.kind, msg.version, why)
