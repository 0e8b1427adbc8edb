"""Weights as messages: one array after the other in one partition, each in the `.npy` format.

The key is the array's place: one byte up to 255, four bytes (big endian) beyond. Headers say how it
is encoded, and where an array is more than one message which part this is. Nothing is unpickled,
but for deployments that ask for it (`legacy`), and then nothing but arrays.
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.podtools.kafka.legacy import array_from_pickle

__all__ = ["Part", "WeightsError", "WeightsReader", "parts_of", "read_weights"]

Array = NDArray[Any]
ENCODING: Final = "encoding"
CHUNK: Final = "chunk"
_NPY: Final = b"npy"
_MAGIC: Final = b"\x93NUMPY"
_PICKLE: Final = b"\x80"
MAX_ARRAYS: Final = 100_000
HEAD: Final = 1 << 17
"""Bytes at the start of a `.npy` that its header is in."""
_FIGURES: Final = 20
"""Characters that say which part of an array a message is."""
_LONGEST: Final = 200
"""Characters of a reason, which may quote what a client sent."""


class WeightsError(ValueError):
    """Messages that are no weights; one line that says why."""


@dataclass(frozen=True, slots=True)
class Part:
    """One message of a model: an array, or a part of one."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...]


def parts_of(weights: Sequence[Array], *, limit: int) -> Iterator[Part]:
    """The messages of a model; none is larger than ``limit`` bytes."""
    for place, array in enumerate(weights):
        head, body = _encoded(array)
        key = bytes([place]) if place < 256 else place.to_bytes(4, "big")
        count = max(-(-(len(head) + len(body)) // limit), 1)
        for number in range(count):
            headers = [(ENCODING, _NPY)]
            if count > 1:
                headers.append((CHUNK, f"{number}/{count}".encode()))
            start, end = number * limit - len(head), (number + 1) * limit - len(head)
            before = head[number * limit : (number + 1) * limit]
            value = body[max(start, 0) : max(end, 0)]
            yield Part(key, b"".join((before, value)), tuple(headers))


def _encoded(array: Array) -> tuple[bytes, memoryview]:
    """What comes before the numbers, and these where they are: a message copies them once."""
    flat = np.asarray(array, order="C")
    if flat.dtype.hasobject:
        raise WeightsError("arrays of objects are no weights")
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(flat))
    return out.getvalue(), flat.reshape(-1).view(np.uint8).data


class WeightsReader:
    """Takes messages one by one, gives arrays as soon as they are whole.

    The parts of an array come one after the other; the arrays may come in any order. Raises
    WeightsError.
    """

    def __init__(
        self, *, limit: int, legacy: bool = False, take: Callable[[int, Array], None]
    ) -> None:
        """``limit``: bytes of all arrays together; ``take`` is told each, with its place."""
        self._left = limit
        self._legacy = legacy
        self._take = take
        self._place = -1
        self._whole = _Whole(b"", 0, 0)
        self._got = 0
        """Parts of the current array that have come."""
        self._wanted = 0
        self.places: set[int] = set()

    def add(
        self, key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]]
    ) -> None:
        place = _place(key)
        if not value:
            raise WeightsError(f"array {place} has no bytes")
        self._left -= len(value)
        if self._left < 0:
            raise WeightsError("the weights are larger than the model")
        header = dict(headers or ())
        number, count = _chunk(header.get(CHUNK))
        if number != self._got or (number and (place, count) != (self._place, self._wanted)):
            raise WeightsError(f"array {place}: part {number} of {count} is out of its order")
        if place in self.places:
            raise WeightsError(f"array {place} comes twice")
        self._place, self._wanted = place, count
        if number:
            self._whole.add(value)
        else:
            self._whole = _Whole(value, count, self._left)
        self._got = number + 1
        if self._got < count:
            return
        whole, self._whole, self._got = self._whole.data(), _Whole(b"", 0, 0), 0
        self.places.add(place)
        self._take(place, self._decode(place, whole, header.get(ENCODING, b"")))

    def finish(self, count: int) -> None:
        """Raises WeightsError where one of so many arrays is missing."""
        if self._got:
            raise WeightsError(f"array {self._place} is not whole")
        missing = sorted(set(range(count)) - self.places)
        if missing or len(self.places) != count:
            raise WeightsError(f"there are {len(self.places)} arrays, not {count}")

    def _decode(self, place: int, data: memoryview, encoding: bytes) -> Array:
        if bytes(data[: len(_MAGIC)]) == _MAGIC and encoding in (b"", _NPY):
            return _from_npy(place, data)
        if bytes(data[:1]) == _PICKLE or encoding == b"pickle":
            if not self._legacy:
                raise WeightsError(
                    f"array {place} is pickled, which can run code and is refused: send .npy, "
                    "or set legacyWeights on the deployment for arrays of trusted clients"
                )
            return _from_pickle(place, bytes(data))
        raise WeightsError(f"array {place} is neither .npy nor anything that is known")


class _Whole:
    """The parts of one array, put together as they come: its bytes are in memory once."""

    def __init__(self, first: bytes, count: int, left: int) -> None:
        """``left``: bytes that may come after the first part."""
        self._end = len(first)
        if count <= 1:
            self._data = memoryview(first)
            return
        # all parts but the last are as long as the first, and memory that is not used is not taken
        room = np.empty(len(first) + min(len(first) * (count - 1), left), np.uint8)
        self._data = room.data
        self._data[: self._end] = first

    def add(self, part: bytes) -> None:
        end = self._end + len(part)
        if end > len(self._data):
            raise WeightsError("parts of an array are longer than its first")
        self._data[self._end : end] = part
        self._end = end

    def data(self) -> memoryview:
        return self._data[: self._end]


def read_weights(
    messages: Iterable[tuple[bytes | None, bytes | None, Iterable[tuple[str, bytes]]]],
    *,
    limit: int,
    legacy: bool = False,
) -> list[Array]:
    """All arrays in their order. Raises WeightsError."""
    found: dict[int, Array] = {}
    reader = WeightsReader(limit=limit, legacy=legacy, take=found.__setitem__)
    for key, value, headers in messages:
        reader.add(key, value, headers)
    reader.finish(len(found))
    return [found[place] for place in range(len(found))]


def _place(key: bytes | None) -> int:
    if key is None or len(key) not in (1, 4):
        raise WeightsError("a message of weights has no place: its key is not one or four bytes")
    place = int.from_bytes(key, "big")
    if place >= MAX_ARRAYS:
        raise WeightsError(f"a model has at most {MAX_ARRAYS} arrays")
    return place


def _chunk(header: bytes | None) -> tuple[int, int]:
    if header is None:
        return 0, 1
    number, _, count = header.decode(errors="replace").partition("/")
    figures = number.isdecimal() and count.isdecimal() and len(header) < _FIGURES
    if not figures or int(number) >= int(count):
        raise WeightsError(f"{header[:50]!r} is no part of an array")
    return int(number), int(count)


def _from_npy(place: int, data: memoryview) -> Array:
    file = io.BytesIO(data[:HEAD])
    try:
        version = np.lib.format.read_magic(file)
        read = (
            np.lib.format.read_array_header_1_0
            if version == (1, 0)
            else np.lib.format.read_array_header_2_0
        )
        shape, fortran, dtype = read(file)
        if dtype.hasobject:
            raise ValueError("it holds objects")
        body = data[file.tell() :]
        if math.prod(shape) * dtype.itemsize != len(body):
            raise ValueError("its length is not that of its shape")
        array = np.frombuffer(body, dtype)
        return array.reshape(shape[::-1]).T if fortran else array.reshape(shape)
    except Exception as error:
        # the header is read as Python: whatever it trips over is that client's fault
        why = str(error) or type(error).__name__
        raise WeightsError(f"array {place} is no .npy: {why[:_LONGEST]}") from error


def _from_pickle(place: int, data: bytes) -> Array:
    try:
        return array_from_pickle(data)
    except ValueError as error:
        raise WeightsError(f"array {place} is no pickled array: {error}") from error
