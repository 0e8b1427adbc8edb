"""The exact weighted sum of vectors, cut into blocks that fit the cache of a core.

Memory: 8 bytes an element for float32 (twice the vector), about 24 for float64, whatever the number
of vectors. `take` gives the blocks back while it writes the result, so it needs no more.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from weakref import ReferenceType, ref

import numpy as np
import numpy.typing as npt

from corral.learning.exact.blocks import SIGNIFICANT, Block, Scratch
from corral.learning.exact.digits import Digits

Vector = npt.NDArray[np.float32] | npt.NDArray[np.float64]

BLOCK = 64 * 1024
SEGMENT = 8 * BLOCK
"""What one thread works on before it takes the next piece, and what is freed at once."""

MAX_TOTAL_WEIGHT = (1 << 31) - 1


class Memory(mmap.mmap):
    """Zeros that go back to the system when they are dropped, or some of them before.

    What an allocator keeps for later would count as this process's memory.
    """

    @classmethod
    def of(cls, size: int) -> Memory:
        return cls(-1, size)

    def give_back(self, start: int, size: int) -> None:
        """Of whole pages; what was there is zero."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self.madvise(mmap.MADV_DONTNEED, start, size)


def empty(size: int, dtype: npt.DTypeLike) -> Vector:
    """Room for a result, which is there only as far as it has been written."""
    kind = np.dtype(dtype)
    if size < BLOCK:
        return np.empty(size, kind)
    return np.frombuffer(Memory.of(size * kind.itemsize), kind)


class ExactSum:
    """The sum of `weight * vector` over what was added; weights are integers.

    Constraints: pieces of different segments may be added by different threads at once, pieces of
    one segment may not. `expected` is a guess of the total weight: more is allowed, and slower.
    """

    def __init__(self, size: int, dtype: npt.DTypeLike, *, expected: int = 1 << 16) -> None:
        self.size = size
        self.dtype = np.dtype(dtype)
        room = max(min(expected, MAX_TOTAL_WEIGHT), 1).bit_length()
        self._bits = min(SIGNIFICANT, 63 - room)
        # of each segment; weak, since a segment whose blocks have all turned into digits needs none
        self._memories: list[ReferenceType[Memory] | None] = []
        self._segments: list[list[Block | Digits]] = [
            self._segment(min(SEGMENT, size - start)) for start in range(0, size, SEGMENT)
        ]

    def _segment(self, size: int) -> list[Block | Digits]:
        starts = range(0, size, BLOCK)
        self._memories.append(None)
        if self.dtype == np.float64:
            return [Digits(min(BLOCK, size - start)) for start in starts]
        sums: npt.NDArray[np.int64]
        if size < BLOCK:
            sums = np.zeros(size, np.int64)
        else:
            memory = Memory.of(8 * size)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                memory.madvise(mmap.MADV_HUGEPAGE)
            self._memories[-1] = ref(memory)
            sums = np.frombuffer(memory, np.int64)
        return [Block(sums[start : start + BLOCK]) for start in starts]

    @property
    def segments(self) -> int:
        return len(self._segments)

    def reserve(self, total: int) -> None:
        """Makes room for a total weight; call it before the weight is added."""
        if total >> (63 - self._bits) and self.dtype == np.float32:
            for segment in self._segments:
                for block in segment:
                    if isinstance(block, Block):
                        block.widen()

    def add(
        self, segment: int, vectors: Sequence[Vector], weights: Sequence[int]
    ) -> list[tuple[int, int]]:
        """Adds one segment of whole vectors; the (block, vector) pairs left out as not finite."""
        refused: list[tuple[int, int]] = []
        scratch = Scratch(BLOCK)
        with np.errstate(all="ignore"):
            for number, block in enumerate(self._segments[segment]):
                start = segment * SEGMENT + number * BLOCK
                for index, vector in enumerate(vectors):
                    values = vector[start : start + BLOCK]
                    if not self._add_block(block, values, weights[index], scratch):
                        refused.append((number, index))
        return refused

    def _add_block(
        self, block: Block | Digits, values: Vector, weight: int, scratch: Scratch
    ) -> bool:
        if isinstance(block, Block):
            return block.add(values, weight, bits=self._bits, scratch=scratch)  # type: ignore[arg-type]
        if not np.isfinite(np.abs(values).max()):
            return False
        block.add(values, weight)
        return True

    def remove(
        self, segment: int, vector: Vector, weight: int, *, without: frozenset[int] = frozenset()
    ) -> None:
        """Takes out what `add` added of a vector, but for the blocks it left out."""
        scratch = Scratch(BLOCK)
        for number, block in enumerate(self._segments[segment]):
            start = segment * SEGMENT + number * BLOCK
            if number not in without:
                self._add_block(block, vector[start : start + BLOCK], -weight, scratch)

    def take(self, segment: int, divisor: float, out: Vector) -> None:
        """Writes sum / divisor of a segment and frees it; it cannot be added to afterwards."""
        start = segment * SEGMENT
        with np.errstate(all="ignore"):
            for number, block in enumerate(self._segments[segment]):
                stop = start + block.size
                if isinstance(block, Block):
                    block.divided(divisor, out[start:stop])
                else:
                    out[start:stop] = block.mean(divisor)
                start = stop
                self._give_back(segment, number)
        self._segments[segment], self._memories[segment] = [], None

    def _give_back(self, segment: int, number: int) -> None:
        """A block was taken; the last one, which may be no whole page, goes with its segment."""
        known = self._memories[segment]
        memory = known() if known is not None else None
        if memory is not None and number + 1 < len(self._segments[segment]):
            memory.give_back(8 * BLOCK * number, 8 * BLOCK)
