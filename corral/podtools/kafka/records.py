"""Records of data topics as arrays: RAW bytes, AVRO, JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

__all__ = ["RecordError", "decoder", "labelled", "raw_bytes"]

Array = NDArray[Any]
Decode = Callable[[bytes], Array]
_TYPES: Final = {
    "half": "<f2", "float16": "<f2", "float": "<f4", "float32": "<f4", "double": "<f8",
    "float64": "<f8", "int8": "<i1", "int16": "<i2", "int32": "<i4", "int64": "<i8",
    "uint8": "<u1", "uint16": "<u2", "uint32": "<u4", "uint64": "<u8", "bool": "|b1",
}  # fmt: skip


class RecordError(ValueError):
    """A record that cannot be read; one line that says why."""


def decoder(format_: str, config: Mapping[str, Any], part: str) -> Decode:
    """What reads values (``data``) or keys (``label``) of a topic. Raises RecordError."""
    if format_ == "RAW":
        return _raw(config, part)
    if format_ == "AVRO":
        return _avro(config, part)
    if format_ == "JSON":
        return lambda data: _numbers(_json(data))
    if format_ == "TELEGRAF_STR_JSON":
        return lambda data: _numbers(_telegraf(data))
    raise RecordError(f"unknown input format {format_!r}: use RAW, AVRO, JSON or TELEGRAF_STR_JSON")


def labelled(
    records: Iterable[tuple[bytes | None, bytes | None]], format_: str, config: Mapping[str, Any]
) -> tuple[Array, Array]:
    """Samples and labels of (key, value) pairs. Raises RecordError."""
    read_data = decoder(format_, config, "data")
    read_label = decoder(format_, config, "label")
    samples, labels = [], []
    for number, (key, value) in enumerate(records):
        if key is None or value is None:
            raise RecordError(f"record {number} has no {'key' if key is None else 'value'}")
        try:
            samples.append(read_data(value))
            labels.append(read_label(key))
        except RecordError as error:
            raise RecordError(f"record {number}: {error}") from error
    if not samples:
        raise RecordError("there are no records")
    try:
        return np.stack(samples), np.stack(labels)
    except ValueError as error:
        raise RecordError(f"records differ in shape: {error}") from error


def raw_bytes(value: Any) -> bytes:
    """A value as sinks have always written it: arrays as they are, small numbers as one byte."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, np.ndarray | np.generic):
        return bytes(np.ascontiguousarray(value).tobytes())
    if isinstance(value, bool | int):
        if not 0 <= value < 256:
            raise RecordError(f"{value} does not fit one byte: give an array with a type instead")
        return bytes([value])
    if isinstance(value, float):
        return np.float32(value).tobytes()
    if isinstance(value, str):
        return value.encode()
    raise RecordError(f"a {type(value).__name__} cannot be a record")


def _raw(config: Mapping[str, Any], part: str) -> Decode:
    kind = str(config.get(f"{part}_type") or config.get("type") or "")
    setting = str(config.get(f"{part}_reshape") or "")
    if kind == "string":
        return lambda data: np.array(data.decode())
    if kind not in _TYPES:
        raise RecordError(f"unknown {part}_type {kind!r}: use one of {', '.join(_TYPES)}")
    dtype = np.dtype(_TYPES[kind])
    try:
        shape = tuple(int(word) for word in setting.split())
    except ValueError as error:
        raise RecordError(f"{part}_reshape {setting!r} is no shape such as '28 28'") from error
    shape = () if shape == (1,) else shape
    size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize

    def decode(data: bytes) -> Array:
        if len(data) != size:
            raise RecordError(
                f"its {part} has {len(data)} bytes; {kind} of shape {setting or 'one'} has {size}"
            )
        return np.frombuffer(data, dtype).reshape(shape)

    return decode


def _avro(config: Mapping[str, Any], part: str) -> Decode:
    import fastavro

    setting: Any = config.get(f"{part}_scheme")
    try:
        scheme = fastavro.parse_schema(json.loads(setting) if isinstance(setting, str) else setting)
    except Exception as error:
        raise RecordError(f"{part}_scheme is no Avro schema: {error}") from error

    def decode(data: bytes) -> Array:
        try:
            value = fastavro.schemaless_reader(io.BytesIO(data), scheme, None)
        except Exception as error:
            raise RecordError(f"its {part} is no Avro of the schema: {error}") from error
        return _numbers(value)

    return decode


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is no JSON: {error}") from error


def _telegraf(data: bytes) -> Any:
    """Telegraf's ``fields.value`` is the text of what is meant."""
    value = _json(data)
    try:
        inner = value["fields"]["value"]
    except (KeyError, TypeError) as error:
        raise RecordError("it has no fields.value") from error
    return _json(inner.encode()) if isinstance(inner, str) else inner


def _numbers(value: Any) -> Array:
    """An object's values are numbers, in the order of its fields."""
    if isinstance(value, dict):
        flat = [_numbers(item).reshape(-1) for item in value.values()]
        return flat[0].reshape(()) if len(flat) == 1 and flat[0].size == 1 else np.concatenate(flat)
    try:
        array = np.asarray(value, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise RecordError(f"it is no array of numbers: {error}") from error
    return array
