"""Entries shown at once look as they do one by one, whatever is in them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from corral.cluster.node.container.logs import Formatter, LogOptions

TEXTS = st.sampled_from([b"", b"x", b" stdout F ", b"a b", b"2026-01-02T03:04:05.000000000Z y"])


def entry(second: int, stream: str, tag: str, text: bytes) -> bytes:
    return f"2026-01-02T03:04:{second:02d}.000000000Z {stream} {tag} ".encode() + text


whole = st.builds(
    entry, st.integers(0, 5), st.sampled_from(["stdout", "stderr"]), st.just("F"), TEXTS
)
odd = st.one_of(
    st.builds(entry, st.integers(0, 5), st.just("stdout"), st.sampled_from(["P", "P:x"]), TEXTS),
    st.sampled_from([b"", b"2026-01-02T03:04:05", b"2026-01-02T03:04:05.1Z stdout F short"]),
)


@settings(max_examples=300, deadline=None)
@given(
    blocks=st.lists(st.lists(st.one_of(whole, whole, whole, odd), max_size=6), max_size=5),
    since=st.sampled_from(["", "2026-01-02T03:04:03.000000000Z"]),
    stream=st.sampled_from(["", "", "stderr"]),
    limit=st.sampled_from([None, None, 40]),
    timestamps=st.booleans(),
)
def test_blocks(
    blocks: list[list[bytes]], since: str, stream: str, limit: int | None, timestamps: bool
) -> None:
    options = LogOptions(since=since, stream=stream, limit_bytes=limit, timestamps=timestamps)
    at_once, one_by_one = Formatter(options), Formatter(options)
    for block in blocks:
        expected = b"".join(map(one_by_one._show_one, block))
        assert at_once.show(block) == expected
