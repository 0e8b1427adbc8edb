from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import numpy as np
import pytest

from corral.podtools.kafka.records import RecordError, decoder, labelled, raw_bytes

SEED = {
    "type": "float32", "data_type": "float32", "data_reshape": "784", "label_type": "float32",
    "label_reshape": "10",
}  # fmt: skip


def test_the_seeds_bytes() -> None:
    """784 and 10 float32: 3,136 and 40 bytes."""
    rng = np.random.default_rng(0)
    images = rng.random((5, 784), dtype=np.float32)
    classes = np.eye(10, dtype=np.float32)[[3, 1, 4, 1, 5]]
    records = [(raw_bytes(y), raw_bytes(x)) for x, y in zip(images, classes, strict=True)]
    assert {(len(key), len(value)) for key, value in records} == {(40, 3136)}
    x, y = labelled(records, "RAW", SEED)
    assert x.tobytes() == images.tobytes() and y.tobytes() == classes.tobytes()


def test_scalars_are_one_byte_or_a_float() -> None:
    assert raw_bytes(7) == b"\x07" and raw_bytes(True) == b"\x01"
    assert raw_bytes(0.5) == np.float32(0.5).tobytes() and raw_bytes("a") == b"a"
    config = {"data_type": "uint8", "data_reshape": "2 2", "label_type": "uint8"}
    x, y = labelled([(b"\x07", bytes(4))], "RAW", {**config, "label_reshape": ""})
    assert (x.shape, y.tolist()) == ((1, 2, 2), [7])
    for wrong in (256, -1, [1], None):
        with pytest.raises(RecordError):
            raw_bytes(wrong)


def test_avro_as_it_travels_without_a_registry() -> None:
    data: Any = {
        "type": "record", "name": "d",
        "fields": [{"name": "a", "type": "float"}, {"name": "b", "type": "float"}],
    }  # fmt: skip
    label: Any = {"type": "record", "name": "l", "fields": [{"name": "y", "type": "int"}]}
    key, value = io.BytesIO(), io.BytesIO()
    fastavro.schemaless_writer(value, fastavro.parse_schema(data), {"a": 1.5, "b": 2.0})
    fastavro.schemaless_writer(key, fastavro.parse_schema(label), {"y": 3})
    config = {"data_scheme": json.dumps(data), "label_scheme": json.dumps(label)}
    x, y = labelled([(key.getvalue(), value.getvalue())], "AVRO", config)
    assert (x.tolist(), y.tolist()) == ([[1.5, 2.0]], [3.0])
    with pytest.raises(RecordError, match="no Avro of the schema"):
        labelled([(key.getvalue(), b"\x01")], "AVRO", config)


def test_json() -> None:
    read = decoder("JSON", {}, "data")
    assert read(b"[[1, 2], [3, 4]]").tolist() == [[1, 2], [3, 4]]
    assert read(b'{"a": 1, "b": [2, 3]}').tolist() == [1, 2, 3]
    telegraf = decoder("TELEGRAF_STR_JSON", {}, "data")
    assert telegraf(b'{"fields": {"value": "[1, 2]"}}').tolist() == [1, 2]


@pytest.mark.parametrize(
    ("format_", "config", "value", "words"),
    [
        ("RAW", SEED, bytes(784), "784 bytes; float32 of shape 784 has 3136"),
        ("RAW", {**SEED, "data_type": "object"}, b"", "unknown data_type"),
        ("RAW", {**SEED, "data_reshape": "a"}, b"", "no shape"),
        ("AVRO", {"data_scheme": "{"}, b"", "no Avro schema"),
        ("JSON", {}, b"x", "no JSON"),
        ("JSON", {}, b'["a"]', "no array of numbers"),
        ("TELEGRAF_STR_JSON", {}, b"{}", "fields.value"),
        ("CSV", {}, b"", "unknown input format"),
    ],
)
def test_what_cannot_be_read(format_: str, config: Any, value: bytes, words: str) -> None:
    with pytest.raises(RecordError, match=words):
        decoder(format_, config, "data")(value)


def test_the_record_at_fault_is_named() -> None:
    good = (bytes(40), bytes(3136))
    with pytest.raises(RecordError, match="record 1: its label has 3 bytes"):
        labelled([good, (bytes(3), bytes(3136))], "RAW", SEED)
    with pytest.raises(RecordError, match="record 1 has no key"):
        labelled([good, (None, bytes(3136))], "RAW", SEED)
    with pytest.raises(RecordError, match="no records"):
        labelled([], "RAW", SEED)
