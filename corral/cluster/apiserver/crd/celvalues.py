"""JSON values as the CEL values rules expect, by schema.

Most schemas need no conversion (None): numbers must be doubles, times and durations must be
those, and properties go by their escaped names.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from datetime import datetime
from typing import Any

from corral.cluster.apiserver.cel.escape import escape
from corral.cluster.apiserver.crd.formats import duration_nanoseconds
from corral.kube.types import Obj

__all__ = ["Converter", "compile_conversion"]

Converter = Callable[[Any], Any]


def compile_conversion(schema: Obj) -> Converter | None:
    """The conversion of a node's values; None where they pass as they are."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return None
    if kind == "number":
        return lambda value: float(value) if type(value) is int else value
    if kind == "string":
        parse = _STRINGS.get(schema.get("format", ""))
        return None if parse is None else _parser(parse)
    if kind == "array" and isinstance(schema.get("items"), dict):
        return _list(schema["items"])
    if kind == "object":
        return _object(schema)
    return None


def _parser(parse: Converter) -> Converter:
    def convert(value: Any) -> Any:
        try:
            return parse(value) if type(value) is str else value
        except (ValueError, binascii.Error):
            return value

    return convert


def _timestamp(text: str) -> Any:
    from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]

    if len(text) == 10:
        text += "T00:00:00+00:00"
    made = Timestamp()
    made.FromDatetime(datetime.fromisoformat(text))
    return made


def _duration(text: str) -> Any:
    from google.protobuf.duration_pb2 import Duration  # type: ignore[import-untyped]

    made = Duration()
    made.FromNanoseconds(duration_nanoseconds(text))
    return made


_STRINGS: dict[str, Converter] = {
    "date": _timestamp,
    "date-time": _timestamp,
    "duration": _duration,
    "byte": base64.b64decode,
}


def _list(item: Obj) -> Converter | None:
    inner = compile_conversion(item)
    if inner is None:
        return None
    return lambda value: [inner(v) for v in value] if type(value) is list else value


def _object(schema: Obj) -> Converter | None:
    more = schema.get("additionalProperties")
    if isinstance(more, dict):
        extra = compile_conversion(more)
        if extra is None:
            return None
        return lambda v: {k: extra(x) for k, x in v.items()} if type(v) is dict else v
    renamed: dict[str, str] = {}
    converted: dict[str, Converter] = {}
    for name, sub in (schema.get("properties") or {}).items():
        spelled, inner = escape(name), compile_conversion(sub)
        if spelled is not None and spelled != name:
            renamed[name] = spelled
        if inner is not None:
            converted[name] = inner
    if not renamed and not converted:
        return None

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            return value
        return {
            renamed.get(name, name): converted[name](item) if name in converted else item
            for name, item in value.items()
        }

    return convert
