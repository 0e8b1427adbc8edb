"""Formats: what is written is read back; what is not of the format is refused with a reason."""

from __future__ import annotations

import base64
import json
import math
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.learning import (
    CODECS,
    InvalidConfig,
    Model,
    Spool,
    UpdateRejected,
    codec,
    decode_chunks,
    decode_stream,
)

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VECTORS = st.lists(FINITE, min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(VECTORS, st.sampled_from(["json-f64", "f64-le", "npy", "safetensors"]))
def test_what_is_written_is_read_back(numbers, name):
    one = codec(name)
    model = Model.vector(np.array(numbers))
    again = one.decode(one.encode(model))
    assert again.vectors[0].tolist() == numbers


@settings(max_examples=60, deadline=None)
@given(VECTORS)
def test_json_reads_what_the_standard_library_reads(numbers):
    assert codec("json-f64").decode(json.dumps(numbers).encode()).vectors[0].tolist() == numbers


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([3.25, 4.25, 5.25], "WzMuMjUsNC4yNSw1LjI1XQ=="), ([1.25, 2.0], "WzEuMjUsMl0=")],
)
def test_json_is_written_as_other_implementations_write_it(numbers, text):
    assert base64.b64encode(codec("").encode(Model.vector(np.array(numbers)))).decode() == text


def test_nested_json_has_a_shape():
    model = codec("json-f64").decode(b" [\n [1, 2.5], [3, 4]]")
    assert model.tensors[0].shape == (2, 2)
    assert codec("json-f64").encode(model) == b"[[1,2.5],[3,4]]"


BAD_JSON = {
    "nan": b"[1, NaN]",
    "infinity": b"[Infinity]",
    "minus infinity": b"[-Infinity]",
    "too large": b"[1e999]",
    "string": b'["1"]',
    "bool": b"[true]",
    "null": b"[null]",
    "object": b"{}",
    "number": b"1",
    "cut": b"[1, 2",
    "trailing": b"[1] 2",
    "nested bool": b"[[true]]",
    "nested nan": b"[[NaN]]",
    "nested too large": b"[[1e999]]",
    "ragged": b"[[1, 2], [3]]",
    "mixed depth": b"[[1], 2]",
    "not utf-8": b"[1, \xff]",
    "nothing": b"",
}


@pytest.mark.parametrize("payload", BAD_JSON.values(), ids=BAD_JSON.keys())
def test_json_that_is_not_numbers_is_refused(payload):
    with pytest.raises(UpdateRejected, match="invalid json-f64 payload"):
        codec("json-f64").decode(payload)


@pytest.mark.parametrize(
    ("name", "payload"), [("json-f64", b"[]"), ("json-f64", b"[[]]"), ("f32-le", b"")]
)
def test_empty_vectors_are_refused(name, payload):
    with pytest.raises(UpdateRejected, match="invalid vector: empty"):
        codec(name).decode(payload)


def test_raw_floats_are_read_in_place():
    data = np.arange(5, dtype="<f4").tobytes()
    model = codec("f32-le").decode(data)
    assert np.shares_memory(model.vectors[0], np.frombuffer(data, np.uint8))
    assert codec("f32-le").encode(model) == data
    with pytest.raises(UpdateRejected, match="not whole numbers"):
        codec("f32-le").decode(data[:-1])


def safetensors(header, body=b""):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


ONE = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
BAD_SAFETENSORS = {
    "no header": b"abc",
    "long header": struct.pack("<Q", 1 << 60),
    "not json": struct.pack("<Q", 2) + b"{x",
    "a list": safetensors([]),
    "short body": safetensors({"a": ONE}, b"123"),
    "long body": safetensors({"a": ONE}, b"12345"),
    "hole": safetensors({"a": {**ONE, "data_offsets": [4, 8]}}, b"12345678"),
    "shape": safetensors({"a": {**ONE, "shape": [2]}}, b"1234"),
    "negative shape": safetensors({"a": {**ONE, "shape": [-1]}}, b"1234"),
    "no offsets": safetensors({"a": {"dtype": "F32", "shape": [1]}}),
    "integers": safetensors({"a": {**ONE, "dtype": "I32"}}, b"1234"),
    "unknown type": safetensors({"a": {**ONE, "dtype": "X"}}, b"1234"),
    "nothing": safetensors({}),
}


@pytest.mark.parametrize("payload", BAD_SAFETENSORS.values(), ids=BAD_SAFETENSORS.keys())
def test_bad_safetensors_are_refused(payload):
    with pytest.raises(UpdateRejected):
        codec("safetensors").decode(payload)


def test_safetensors_keep_names_shapes_and_types():
    arrays = {
        "w": np.ones((2, 3), np.float32),
        "b": np.zeros(3),
        "scalar": np.float32(2).reshape(()),
    }
    model = codec("safetensors").decode(codec("safetensors").encode(Model.of(arrays)))
    assert model.layout == (
        ("w", (2, 3), "float32"),
        ("b", (3,), "float64"),
        ("scalar", (), "float32"),
    )


def test_half_floats_are_widened():
    body = np.array([1.5], "<f2").tobytes() + b"\xc0\x3f"
    header = {
        "half": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]},
        "brain": {"dtype": "BF16", "shape": [1], "data_offsets": [2, 4]},
    }
    model = codec("safetensors").decode(safetensors(header, body))
    assert [values.tolist() for values in model.vectors] == [[1.5], [1.5]]


def npy_of(array):
    import io

    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


BAD_NPY = {
    "integers": npy_of(np.arange(3)),
    "objects": npy_of(np.array([{}], object)),
    "cut": npy_of(np.ones(3))[:-1],
    "long": npy_of(np.ones(3)) + b"x",
    "magic": b"hello",
    "header": b"\x93NUMPY\x01\x00\x10\x00{",
}


@pytest.mark.parametrize("payload", BAD_NPY.values(), ids=BAD_NPY.keys())
def test_bad_npy_is_refused(payload):
    with pytest.raises(UpdateRejected):
        codec("npy").decode(payload)


def test_npy_in_fortran_order_and_big_endian():
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3)).astype(">f8")
    model = codec("npy").decode(npy_of(array))
    assert model.tensors[0].array.tolist() == array.tolist()


def test_formats_of_one_tensor_refuse_several():
    model = Model.of({"a": np.ones(1), "b": np.ones(1)})
    for name in set(CODECS) - {"safetensors"}:
        with pytest.raises(InvalidConfig, match="safetensors"):
            CODECS[name].encode(model)


def test_unknown_formats_are_opaque():
    assert codec("onnx") is None


@pytest.mark.parametrize("limit", [10, 10_000])
def test_chunks_are_put_together_in_memory_or_in_a_file(tmp_path, limit):
    data = np.arange(1000, dtype="<f4").tobytes()
    chunks = [data[start : start + 7] for start in range(0, len(data), 7)]
    spool = Spool(len(data), folder=tmp_path, limit=limit)
    model = decode_chunks(codec("f32-le"), chunks, spool=spool)
    assert model.vectors[0].tolist() == list(range(1000))
    assert math.isclose(spool.received, 4000)


async def test_streams_that_end_early_or_late_are_refused(tmp_path):
    async def chunks():
        yield b"1234"
        yield b"5678"

    for size in (7, 9):
        with pytest.raises(UpdateRejected, match="bytes"):
            await decode_stream(codec("f32-le"), chunks(), spool=Spool(size, folder=tmp_path))
    model = await decode_stream(codec("f32-le"), chunks(), spool=Spool(8, folder=tmp_path, limit=2))
    assert model.size == 2
