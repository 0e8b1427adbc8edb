from __future__ import annotations

import pytest

from corral.client import LogChunk, Position, Role
from corral.client.logs.frames import MORE, BadFrame, FrameReader, frame

PLACE = Position.parse(str(Position(began="2026-01-02T03:04:05Z")))


def chunk(data: bytes, index: int | None = 3) -> LogChunk:
    return LogChunk("pi-0", Role("worker", index), "main", data, PLACE)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_frames_arrive_whole_however_they_are_cut(size: int) -> None:
    sent = [b"one\n", b"", b'{"bytes": 3}\nabc\n', bytes(range(256)) * 8]
    stream = b"".join(frame(chunk(data)) for data in sent) + MORE
    reader = FrameReader()
    found: list[LogChunk] = []
    more = []
    for at in range(0, len(stream), size):
        for piece in reader.feed(stream[at : at + size]):
            found.append(piece)
            more.append(reader.more)
    assert [piece.data for piece in found] == [*sent, b""]
    assert more == [False] * len(sent) + [True]
    assert found[0] == chunk(b"one\n")
    assert reader.between


def test_a_frame_that_is_cut_off_is_seen() -> None:
    reader = FrameReader()
    assert list(reader.feed(frame(chunk(b"whole"))[:-1])) == []
    assert not reader.between


@pytest.mark.parametrize(
    "data", [b"nonsense\n", b"[]\n", b"{}\n", b'{"bytes": -1}\n', b'{"bytes": "1"}\n']
)
def test_what_is_no_frame(data: bytes) -> None:
    with pytest.raises(BadFrame):
        list(FrameReader().feed(data))


def test_a_head_without_end_is_given_up() -> None:
    reader = FrameReader()
    with pytest.raises(BadFrame, match="no end"):
        for _ in range(3):
            list(reader.feed(b"x" * (1 << 20)))


def test_an_index_may_be_absent() -> None:
    made = frame(chunk(b"x", None))
    assert b"index" not in made
    [found] = FrameReader().feed(made)
    assert found.role.index is None
