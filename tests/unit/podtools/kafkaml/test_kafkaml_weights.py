from __future__ import annotations

import io
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corral.podtools.kafka.weights import WeightsError, WeightsReader, parts_of, read_weights

LIMIT = 10**8


def sent(parts: Any) -> list[tuple[bytes, bytes, Any]]:
    return [(part.key, bytes(part.value), part.headers) for part in parts]


@pytest.mark.parametrize("limit", [LIMIT, 1000, 97])
def test_arrays_come_back_bit_for_bit(limit: int) -> None:
    rng = np.random.default_rng(1)
    arrays = [
        rng.normal(size=(7, 31)).astype(np.float32), rng.normal(size=5), np.float32(3).reshape(()),
        np.asfortranarray(rng.normal(size=(3, 4))), np.zeros((0, 3), np.float32),
    ]  # fmt: skip
    messages = sent(parts_of(arrays, limit=limit))
    assert all(len(value) <= limit for _, value, _ in messages)
    found = read_weights(messages, limit=LIMIT)
    assert [(a.dtype, a.shape, a.tobytes()) for a in found] == [
        (a.dtype, a.shape, a.tobytes()) for a in arrays
    ]


def test_anybody_can_read_them_with_numpy_alone() -> None:
    (key, value, headers), *_ = sent(parts_of([np.arange(3.0)], limit=LIMIT))
    assert (key, dict(headers)) == (b"\0", {"encoding": b"npy"})
    assert np.load(io.BytesIO(value), allow_pickle=False).tolist() == [0, 1, 2]


def test_more_than_255_arrays() -> None:
    arrays = [np.array([float(n)]) for n in range(300)]
    messages = sent(parts_of(arrays, limit=LIMIT))
    assert (messages[255][0], messages[256][0]) == (b"\xff", b"\x00\x00\x01\x00")
    assert [a[0] for a in read_weights(messages, limit=LIMIT)] == list(range(300))


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pickle_that_would_run_code_does_not(legacy: bool, tmp_path: Path) -> None:
    mark = tmp_path / "mark"

    class Touch:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(mark),)

    for attempt in (Touch(), [np.zeros(2), Touch()], np.array([Touch()], dtype=object)):
        data = pickle.dumps(attempt)
        with pytest.raises(WeightsError, match=r"pickled"):
            read_weights([(b"\0", data, ())], limit=LIMIT, legacy=legacy)
        with pytest.raises(WeightsError):
            read_weights([(b"\0", data, (("encoding", b"npy"),))], limit=LIMIT, legacy=legacy)
    assert not mark.exists()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickled_arrays_are_read_where_they_are_asked_for(protocol: int) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    message = (b"\0", pickle.dumps(array, protocol=protocol), ())
    (found,) = read_weights([message], limit=LIMIT, legacy=True)
    assert found.tolist() == array.tolist()


def npy(array: Any) -> bytes:
    return sent(parts_of([array], limit=LIMIT))[0][1]


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([(None, npy(np.zeros(1)), ())], "no place"),
        ([(b"ab", npy(np.zeros(1)), ())], "no place"),
        ([(b"\0", b"", ())], "no bytes"),
        ([(b"\0", b"rubbish", ())], "neither"),
        ([(b"\0", npy(np.zeros(9))[:-1], ())], "its length is not"),
        ([(b"\0", npy(np.zeros(1)), ())] * 2, "comes twice"),
        ([(b"\1", npy(np.zeros(1)), ())], "there are 1 arrays"),
        ([(b"\0", npy(np.zeros(1)), (("chunk", b"1/2"),))], "out of its order"),
        ([(b"\0", npy(np.zeros(1)), (("chunk", b"0/2"),))], "not whole"),
        ([(b"\0", npy(np.zeros(1)), (("chunk", b"x"),))], "no part"),
        ([(b"\0", npy(np.zeros(10**6)), ())], "larger than the model"),
    ],
)
def test_what_is_no_weights_is_refused(messages: Any, words: str) -> None:
    with pytest.raises(WeightsError, match=words):
        read_weights(messages, limit=10_000)


def test_an_array_of_objects_is_refused() -> None:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.array([1, "a"], dtype=object), allow_pickle=True)
    with pytest.raises(WeightsError, match="objects"):
        read_weights([(b"\0", out.getvalue(), ())], limit=LIMIT)


def test_parts_take_the_room_that_the_first_says() -> None:
    first, second = b"\x93NUMPY" + b"x" * 10, b"y" * 17
    reader = WeightsReader(limit=1000, take=lambda place, array: None)
    reader.add(b"\0", first, [("chunk", b"0/2")])
    with pytest.raises(WeightsError, match="longer than its first"):
        reader.add(b"\0", second, [("chunk", b"1/2")])
    with pytest.raises(WeightsError, match="larger than the model"):
        reader.add(b"\0", b"z" * 1000, [("chunk", b"0/1000000000000")])


def test_a_number_of_parts_alone_takes_no_memory() -> None:
    reader = WeightsReader(limit=1000, take=lambda place, array: None)
    reader.add(b"\0", b"\x93NUMPY", [("chunk", b"0/1000000000000")])
    with pytest.raises(WeightsError, match="not whole"):
        reader.finish(1)
