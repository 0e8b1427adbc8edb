"""Saving in the background, and the format of a state."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_store import MemoryStore

from corral.checkpoints import About, CheckpointError, Repository, SaveFailed, Saver, load_state
from corral.checkpoints.state import add_state, lay_out
from corral.checkpoints.store import Chunk


class Slow(MemoryStore):
    """Writes only when the gate is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.broken = False

    def write(self, path: str, chunks: Iterable[Chunk]) -> None:
        self.gate.wait()
        if self.broken:
            raise OSError("disk on fire")
        super().write(path, chunks)


def test_the_loop_goes_on_while_it_is_written() -> None:
    store = Slow()
    state = {"w": bytearray(b"1" * 1000), "fixed": b"2" * 10}
    with Saver(Repository(store)) as saver:
        saver.reserve(state)
        pending = saver.save(state, 1)
        state["w"][:] = b"9" * 1000
        assert not pending.done() and saver.busy
        assert saver.try_save(state, 2) is None
        store.gate.set()
        manifest = saver.wait()
        assert manifest is not None and manifest.kind == "state"
        assert saver.wait() is None
        assert load_state(Repository(store)).value == {"w": b"1" * 1000, "fixed": b"2" * 10}
        assert saver.try_save(state, 2) is not None
    assert load_state(Repository(store)).value["w"] == b"9" * 1000


def test_a_second_save_waits_for_the_first() -> None:
    store = Slow()
    store.gate.set()
    with Saver(Repository(store)) as saver:
        for step in range(5):
            saver.save({"w": b"%d" % step * 100}, step)
    assert [m.step for m in Repository(store).scan().manifests] == [4, 3, 2, 1, 0]


def test_a_failure_is_told_once() -> None:
    store = Slow()
    store.gate.set()
    store.broken = True
    saver = Saver(Repository(store))
    saver.save({"w": b"1"}, 1)
    with pytest.raises(SaveFailed, match="disk on fire"):
        saver.save({"w": b"2"}, 2)
    store.broken = False
    saver.save({"w": b"3"}, 3)
    saver.close()
    assert load_state(Repository(store)).value["w"] == b"3"


def test_how_long_it_took_is_known() -> None:
    ticks = iter(range(100))
    store = Slow()
    store.gate.set()
    with Saver(Repository(store), timer=lambda: float(next(ticks))) as saver:
        saver.save({"w": b"1"}, 1)
        saver.wait()
        assert (saver.timing.pause, saver.timing.total) == (1.0, 2.0)


values = (
    st.binary(max_size=300)
    | st.binary(max_size=300).map(bytearray)
    | st.integers(-(2**53), 2**53)
    | st.text()
    | st.none()
    | st.lists(st.booleans())
)


@given(st.dictionaries(st.text(), values, max_size=8), st.integers(1, 200), st.booleans())
def test_any_state_comes_back(state: dict[str, Any], shard_size: int, background: bool) -> None:
    repository = Repository(MemoryStore(), workers=1)
    try:
        json.dumps(list(state)).encode()
        if background:
            with Saver(repository, shard_size=shard_size) as saver:
                saver.save(state, 1)
        else:
            with repository.begin(1, About(kind="state")) as writer:
                add_state(writer, lay_out(state), shard_size=shard_size)
                writer.commit()
    except UnicodeEncodeError:
        return
    assert load_state(repository).value == state


def test_files_in_a_state(tmp_path: Path) -> None:
    (tmp_path / "vocabulary").write_bytes(b"words" * 1000)
    repository = Repository(MemoryStore())
    with Saver(repository) as saver:
        saver.save({"vocabulary": tmp_path / "vocabulary", "w": b"1"}, 1)
    with pytest.raises(CheckpointError, match="which folder"):
        load_state(repository)
    (tmp_path / "out").mkdir()
    state = load_state(repository, files_into=tmp_path / "out").value
    assert state["vocabulary"].read_bytes() == b"words" * 1000


@pytest.mark.parametrize("value", [object(), {1, 2}, float("nan"), lambda: None, [b"x"]])
def test_values_that_would_need_pickle(value: object) -> None:
    with pytest.raises(TypeError, match="cannot be stored"):
        lay_out({"bad": value})


def test_a_folder_is_not_a_state() -> None:
    repository = Repository(MemoryStore())
    with repository.begin(1) as writer:
        writer.add("weights.bin", [b"1"])
        writer.commit()
    with pytest.raises(CheckpointError, match="restore it to a folder"):
        load_state(repository)


def test_arrays() -> None:
    state = {
        "matrix": numpy.arange(12, dtype=numpy.float32).reshape(3, 4),
        "transposed": numpy.arange(6).reshape(2, 3).T,
        "scalar": numpy.float64(2.5),
        "empty": numpy.zeros((0, 3), numpy.int8),
        "big endian": numpy.arange(3, dtype=">i4"),
        "flags": numpy.array([True, False]),
    }
    repository = Repository(MemoryStore())
    with Saver(repository, shard_size=32) as saver:
        saver.save(state, 1)
        state["matrix"][:] = 0
    back = load_state(repository).value
    assert back["matrix"].tolist() == numpy.arange(12).reshape(3, 4).tolist()
    for name in ("transposed", "scalar", "empty", "big endian", "flags"):
        assert back[name].dtype == state[name].dtype
        assert back[name].shape == state[name].shape
        assert numpy.array_equal(back[name], state[name])
    back["matrix"][0, 0] = 5  # training goes on with it
    with pytest.raises(TypeError, match="plain numbers"):
        lay_out({"bad": numpy.array([object()])})
