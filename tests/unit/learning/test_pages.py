"""Files that are mapped for reading: what was read does not stay in memory."""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np
import pytest

from corral.learning import Aggregation, Update, codec, strategy
from corral.learning.pages import give_back, owner
from tests.unit.learning.test_memory import MODEL_MB, grown, resident
from tests.unit.learning.test_memory import SIZE as SMALL

pytestmark = pytest.mark.skipif(
    not hasattr(mmap, "MADV_DONTNEED") or not Path("/proc/self/clear_refs").exists(),
    reason="pages can be given back, and counted, on Linux only",
)
SIZE = 8 * SMALL


@pytest.fixture
def mapped(tmp_path):
    """A file of random numbers, and its mapping."""
    numbers = np.random.default_rng(2).standard_normal(SIZE, np.float32)
    path = tmp_path / "update"
    path.write_bytes(numbers.tobytes())
    with path.open("rb") as file:
        return numbers, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def test_what_was_given_back_is_read_again(mapped):
    numbers, memory = mapped
    values = np.frombuffer(memoryview(memory)[4:], "<f4")
    assert owner(values) is memory
    total = values.sum(dtype=np.float64)
    held = resident("RssFile")
    give_back(values, 0, len(values))
    assert resident("RssFile") < held - 7 * MODEL_MB
    assert values.sum(dtype=np.float64) == total
    assert (values == numbers[1:]).all()


def test_memory_of_ones_own_is_left_alone():
    own = mmap.mmap(-1, 1 << 20)
    values = np.frombuffer(own, np.float32)
    values[:] = 3
    values.flags.writeable = False
    give_back(values, 0, len(values))
    plain = np.full(1 << 18, 5, np.float32)
    give_back(plain, 0, len(plain))
    assert (values == 3).all() and (plain == 5).all()


def test_an_update_in_a_file_is_never_in_memory_as_a_whole(mapped):
    """Each thread gives back what it has read before it goes on."""
    _, memory = mapped
    round_ = Aggregation(strategy("fedavg"))
    decode = codec("f32-le").decode
    round_.add(Update("a", 3, decode(memoryview(memory))))
    assert grown(lambda: round_.add(Update("b", 5, decode(memoryview(memory))))) < 4 * MODEL_MB
    assert round_.finish().samples == 8
