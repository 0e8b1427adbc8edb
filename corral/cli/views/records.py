"""Records of topics as people read them: control messages, weights, data."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime

from corral.podtools.kafka.client import Record

__all__ = ["describe"]

_SHOWN = 60


def describe(record: Record, *, partition: int) -> list[str]:
    """A line, and the message below it where it is JSON."""
    when = datetime.fromtimestamp(max(record.time, 0), UTC).strftime("%H:%M:%S")
    head = f"{partition}:{record.offset} {when} key={_key(record.key)}"
    headers = dict(record.headers)
    value = record.value
    if value is None:
        return [f"{head} nothing"]
    if "encoding" in headers or value.startswith(b"\x93NUMPY"):
        return [f"{head} {_weights(record.key, value, headers.get('chunk', b''))}"]
    if value[:1] == b"\x80":
        return [f"{head} pickled, {len(value)} bytes"]
    detail = _json(value)
    return [f"{head} data, {len(value)} bytes"] if detail is None else [head, *detail.split("\n")]


def _key(key: bytes | None) -> str:
    if key is None:
        return "none"
    text = key.decode("ascii", "replace")
    if len(key) > 1 and len(key) <= _SHOWN and text.isprintable():
        return text
    return f"0x{key.hex()}" if len(key) <= 4 else f"({len(key)} bytes)"


def _weights(key: bytes | None, value: bytes, chunk: bytes) -> str:
    place = int.from_bytes(key, "big") if key else "?"
    out = f"weights[{place}]"
    if chunk:
        out += f" part {chunk.decode('ascii', 'replace')}"
    if value.startswith(b"\x93NUMPY"):
        out += _array(value)
    return f"{out} {len(value)} bytes"


def _array(value: bytes) -> str:
    import numpy as np

    file = io.BytesIO(value)
    try:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0
        if version != (1, 0):
            read = np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except (ValueError, EOFError, SyntaxError) as error:
        return f" (no array: {error})"
    return f" {dtype} {'x'.join(map(str, shape)) or 'scalar'}"


def _json(value: bytes) -> str | None:
    if value[:1] not in b"{[":
        return None
    try:
        detail = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return json.dumps(detail, indent=2)
