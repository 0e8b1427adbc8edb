from __future__ import annotations

from typing import Any

import pytest

from corral.client.logs.frames import MORE, BadFrame, Frame, FrameReader, frame

HEAD: dict[str, Any] = {
    "position": "p1", "pod": "pi-0", "role": "worker", "index": 3, "container": "main",
}  # fmt: skip


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_frames_arrive_whole_however_they_are_cut(size: int) -> None:
    sent = [b"one\n", b"", b'{"bytes": 3}\nabc\n', bytes(range(256)) * 8]
    stream = b"".join(frame(data, **HEAD) for data in sent) + MORE
    reader = FrameReader()
    found: list[Frame] = []
    for at in range(0, len(stream), size):
        found += reader.feed(stream[at : at + size])
    assert [piece.data for piece in found] == [*sent, b""]
    assert [piece.more for piece in found] == [False] * len(sent) + [True]
    assert found[0] == Frame(b"one\n", "p1", "pi-0", "worker", 3, "main")
    assert reader.between


def test_a_frame_that_is_cut_off_is_seen() -> None:
    reader = FrameReader()
    assert list(reader.feed(frame(b"whole", **HEAD)[:-1])) == []
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
    made = frame(b"x", **{**HEAD, "index": None})
    assert b"index" not in made
    [found] = FrameReader().feed(made)
    assert found.index is None
