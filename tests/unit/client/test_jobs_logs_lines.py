"""Cutting a log into lines from a mark on: cases, and everything that chance can think of."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.client.logs import lines as log_lines
from corral.client.logs.lines import Cutter
from corral.client.logs.marks import Mark, second_of


def stamp(nanos: int, zone: str = "Z") -> str:
    seconds, rest = divmod(nanos, 10**9)
    return f"2026-01-02T03:{4 + seconds // 60:02d}:{seconds % 60:02d}.{rest:09d}{zone}"


def log(*lines: tuple[int, str]) -> bytes:
    return "".join(f"{stamp(at)} {text}\n" for at, text in lines).encode()


def since(data: bytes, mark: Mark) -> bytes:
    """What a kubelet gives for the second of a mark: a filter on the time of each line."""
    if not mark.since:
        return data
    second = second_of(mark.since)[:19].encode()
    lines = data.split(b"\n")[:-1]
    return b"".join(one + b"\n" for one in lines if one[:19] >= second)


def test_times_are_left_out_unless_wanted() -> None:
    data = log((1, "one"), (2, ""), (3, "three  ends"))
    assert Cutter(Mark(), timestamps=False).feed(data) == b"one\n\nthree  ends\n"
    assert Cutter(Mark(), timestamps=True).feed(data) == data


def test_only_whole_lines_are_given() -> None:
    cutter = Cutter(Mark(), timestamps=False)
    data = log((1, "one"), (2, "two"))
    given = [cutter.feed(data[at : at + 1]) for at in range(len(data))]
    assert [part for part in given if part] == [b"one\n", b"two\n"]


def test_a_last_line_without_an_end_gets_one() -> None:
    cutter = Cutter(Mark(), timestamps=False)
    assert cutter.feed(log((1, "one")) + stamp(2).encode() + b" two") == b"one\n"
    assert cutter.finish() == b"two\n"
    assert cutter.finish() == b""


def test_an_anchor_that_is_gone() -> None:
    """A later line proves that it is: everything from there on is new."""
    cutter = Cutter(Mark(stamp(5).encode(), stamp(5).encode(), 3), timestamps=False)
    assert cutter.feed(log((4, "before"), (6, "after"), (3, "late"))) == b"after\nlate\n"


def test_words_of_the_server_are_shown_and_not_counted() -> None:
    cutter = Cutter(Mark(), timestamps=False)
    shown = cutter.feed(log((1, "one")) + b"rpc error: no such container\n" + log((1, "two")))
    assert shown == b"one\nrpc error: no such container\ntwo\n"
    assert cutter.mark.lines == 2


@pytest.mark.parametrize("zone", ["Z", "+02:00", "-11:30"])
def test_zones(zone: str) -> None:
    line = f"{stamp(7, zone)} text\n".encode()
    cutter = Cutter(Mark(), timestamps=False)
    assert cutter.feed(line) == b"text\n"
    assert Cutter(cutter.mark, timestamps=False).feed(line + line) == b"text\n"


def test_a_change_of_zone_in_the_middle() -> None:
    """Times of other lengths are read line by line."""
    data = b"".join(f"{stamp(7, zone)} a b\n".encode() for zone in ("+01:00", "Z", "+01:00"))
    assert Cutter(Mark(), timestamps=False).feed(data) == b"a b\n" * 3


@pytest.mark.parametrize(
    ("text", "second"),
    [
        (b"2026-01-02T03:04:05.123456789Z", "2026-01-02T03:04:05Z"),
        (b"2026-01-02T03:04:05Z", "2026-01-02T03:04:04Z"),
        (b"2026-01-02T03:04:05.9+02:00", "2026-01-02T01:04:05Z"),
    ],
)
def test_seconds(text: bytes, second: str) -> None:
    assert second_of(text) == second


@pytest.mark.parametrize("text", [b"", b"rpc", b"2026-01-02T03:04:05", b"2026-13-02T03:04:05Z"])
def test_no_seconds(text: bytes) -> None:
    with pytest.raises(ValueError):
        second_of(text)


@dataclass
class Reading:
    """A log that is read over many connections, each cut somewhere."""

    data: bytes
    mark: Mark = field(default_factory=Mark)
    given: bytes = b""

    def connect(self, cuts: list[int], timestamps: bool) -> None:
        """One connection: the log comes in pieces of these sizes, and breaks off after them."""
        cutter = Cutter(self.mark, timestamps=timestamps)
        rest = since(self.data, self.mark)
        for size in cuts:
            self.given += cutter.feed(rest[:size])
            rest = rest[size:]
        self.mark = cutter.mark

    def finish(self, timestamps: bool) -> None:
        cutter = Cutter(self.mark, timestamps=timestamps)
        self.given += cutter.feed(since(self.data, self.mark))
        self.given += cutter.finish()
        self.mark = cutter.mark


SECOND, JITTER = 10**9, 10**8 - 1


def scrambled(steps: list[int], jitter: list[int]) -> list[int]:
    """Times that go up by steps, many of them equal, and are out of order by a jitter."""
    out, now = [], 2 * SECOND
    for number, step in enumerate(steps):
        now += step
        out.append(now - (jitter[number % len(jitter)] if jitter else 0))
    return out


times = st.builds(
    scrambled,
    st.lists(st.sampled_from([0, 0, 1, SECOND - 1, SECOND, 3 * SECOND])),
    st.lists(st.sampled_from([0, 1, 2, JITTER]), max_size=4),
)
words = st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=6)


@settings(max_examples=300, deadline=None)
@given(
    times=times,
    texts=st.lists(words, min_size=1, max_size=5),
    timestamps=st.booleans(),
    connections=st.lists(st.lists(st.integers(0, 120), max_size=4), max_size=6),
    longest=st.sampled_from([36, 40, 1 << 20]),
)
def test_every_line_once_however_it_is_cut(
    times: list[int],
    texts: list[str],
    timestamps: bool,
    connections: list[list[int]],
    longest: int,
) -> None:
    lines = [(at, texts[n % len(texts)]) for n, at in enumerate(times)]
    reading = Reading(log(*lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_lines, "MAX_LINE", longest)
        for cuts in connections:
            reading.connect(cuts, timestamps)
        reading.finish(timestamps)
    expected = log(*lines) if timestamps else "".join(f"{t}\n" for _, t in lines).encode()
    assert reading.given == expected
