"""Pickled arrays are read; nothing else that a pickle can ask for happens."""

from __future__ import annotations

import os
import pickle
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corral.podtools.kafka.legacy import array_from_pickle

ARRAYS = {
    "matrix": np.arange(12, dtype=np.float32).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12, dtype=np.float64).reshape(3, 4)),
    "big-endian": np.arange(5, dtype=">i4"),
    "half": np.arange(5, dtype=np.float16),
    "flags": np.array([True, False]),
    "bytes": np.arange(256, dtype=np.uint8),
    "empty": np.zeros((0, 3), np.int64),
    "scalar": np.array(3.5),
    "strided": np.arange(20)[::3],
}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_of_every_protocol(name: str, protocol: int) -> None:
    wanted = ARRAYS[name]
    got = array_from_pickle(pickle.dumps(wanted, protocol))
    assert got.dtype == wanted.dtype
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("module", ["numpy.core", "numpy._core"])
def test_arrays_of_older_and_newer_numpy(module: str) -> None:
    data = pickle.dumps(ARRAYS["matrix"], 0)
    data = data.replace(b"numpy._core", b"numpy.core").replace(b"numpy.core", module.encode())
    np.testing.assert_array_equal(array_from_pickle(data), ARRAYS["matrix"])


class Call:
    """Pickles to a call of anything."""

    def __init__(self, function: Any, *words: Any, state: Any = None) -> None:
        self.function, self.words, self.state = function, words, state

    def __reduce__(self) -> tuple[Any, ...]:
        said = (self.function, self.words)
        return said if self.state is None else (*said, self.state)


RECONSTRUCT = np.zeros(1).__reduce__()[0]
FLOAT = np.dtype("f4")
ENCODE = pickle.loads(b"c_codecs\nencode\n.")


@pytest.mark.parametrize(
    "payload",
    [
        Call(np.ndarray, (10**12,), FLOAT),
        Call(np.ndarray, (10**12,), np.dtype("u1"), b"x", 0, (0,)),
        Call(np.ndarray, (1,), np.dtype("O"), struct.pack("Q", 0x4141414141)),
        Call(RECONSTRUCT, np.ndarray, (10**12,), b"b"),
        Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (2**40,), FLOAT, False, b"abcd")),
        Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (1,), FLOAT, False, [1.0])),
        Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (-1,), FLOAT, False, b"abcd")),
        Call(RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (1.0,), FLOAT, False, b"abcd")),
        Call(
            RECONSTRUCT, np.ndarray, (0,), b"b", state=(1, (1,), np.dtype("O"), False, b"abcdefgh")
        ),
        Call(RECONSTRUCT, np.ndarray, (0,), b"b", state={"__class__": 1}),
        Call(ENCODE, "x", "rot13"),
        Call(ENCODE, "x", "latin1"),
        np.array([object], dtype=object),
        np.zeros(3, dtype=[("a", "f4"), ("b", "f4")]),
        np.array(["a", "b"]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.ma.masked_array([1, 2]),
        np.float32(1),
        [1, 2],
        None,
        Path("x"),
    ],
    ids=range(21),
)
def test_anything_else_is_refused(payload: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        array_from_pickle(pickle.dumps(payload))


@pytest.mark.parametrize("function", [os.system, eval, exec, __import__, getattr, open])
def test_code_does_not_run(function: Any, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    words = {
        os.system: (f"touch {trace}",),
        eval: (f"open({str(trace)!r}, 'w')",),
        exec: (f"open({str(trace)!r}, 'w')",),
        open: (str(trace), "w"),
    }.get(function, ("os", "path"))
    with pytest.raises(ValueError, match="no part of an array"):
        array_from_pickle(pickle.dumps(Call(function, *words)))
    assert not trace.exists()


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\x80\x04", b"garbage", b"cos\nsystem\n(S'x'\ntR.", b"P1\n."]
)
def test_what_is_no_pickle(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        array_from_pickle(data)


def test_damaged_pickles_do_no_harm() -> None:
    good = pickle.dumps(ARRAYS["matrix"])
    rng = np.random.default_rng(20261116)
    for _ in range(3000):
        bad = bytearray(good)
        for _ in range(int(rng.integers(1, 4))):
            bad[int(rng.integers(len(bad)))] = int(rng.integers(256))
        try:
            array = array_from_pickle(bytes(bad))
        except ValueError:
            continue
        assert array.nbytes <= len(bad)
