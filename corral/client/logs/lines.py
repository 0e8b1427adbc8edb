"""A log with times, cut into whole lines from a mark on. No input or output happens here.

`Cutter` is fed the bytes of an answer with ``timestamps=true`` as they come and gives back whole
lines, with or without their times, beginning after its mark; ``mark`` is then the place after what
was given. Work is done per block and not per line as far as Python allows.
"""

from __future__ import annotations

import re
from dataclasses import replace

from corral.client.logs.marks import Mark

__all__ = ["MAX_LINE", "Cutter"]

MAX_LINE = 1 << 20
"""Bytes that are kept waiting for the end of a line; a longer one is given in parts."""
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)\Z")
_ZONE = 29
"""Where the zone begins in a time with nanoseconds."""


class Cutter:
    """Whole lines of one answer; a new one is made for every connection."""

    def __init__(self, mark: Mark, *, timestamps: bool) -> None:
        self.mark = mark
        self._timestamps = timestamps
        self._held: list[bytes] = []
        self._held_size = 0
        self._seeking = bool(mark.anchor)
        self._skip = 0 if mark.anchor else mark.lines
        self._counted = bool(mark.anchor)
        """Whether the lines to pass over are counted in the mark: not those before its anchor."""
        self._part = mark.part
        """Text to leave out of the next line."""
        self._long: bytes | None = None
        """The time of a long line of which a part was taken already."""

    @property
    def settled(self) -> bool:
        """Whether the place of the mark is found."""
        return not self._seeking and not self._skip

    def feed(self, data: bytes) -> bytes:
        """What of it is new, in whole lines; may be empty."""
        end = data.rfind(b"\n") + 1
        if not end:
            if data:
                self._hold(data)
            return self._part_of_line() if self._held_size > MAX_LINE else b""
        block = data if end == len(data) else data[:end]
        if self._held:
            block = b"".join((*self._held, block))
            self._held.clear()
            self._held_size = 0
        if end < len(data):
            self._hold(data[end:])
        return self._take(block)

    def finish(self) -> bytes:
        """The log is over: its last line may have no end; it gets one."""
        return self.feed(b"\n") if self._held or self._long is not None else b""

    def _hold(self, data: bytes) -> None:
        self._held.append(data)
        self._held_size += len(data)

    def _take(self, block: bytes) -> bytes:
        """Whole lines; the first may be the end of a long one."""
        begun = b""
        if self._long is not None:
            end = block.index(b"\n") + 1
            begun, block = self._end_of_line(block[:end]), block[end:]
        if self._skip:
            block = self._skipped(block)
        if self._seeking:
            block = self._sought(block)
        if self._part and block:
            begun += self._resumed(block)
            block = block[block.index(b"\n") + 1 :]
        return begun + self._given(block) if block else begun

    # -- finding the place ----------------------------------------------------------------------

    def _skipped(self, block: bytes) -> bytes:
        """Without the lines that are left out."""
        at = 0
        while self._skip and at < len(block):
            at = block.index(b"\n", at) + 1
            self._skip -= 1
        if not self._counted:
            self._given(block[:at])
        return block[at:]

    def _sought(self, block: bytes) -> bytes:
        """What stands after the lines of the mark; from the first later line on if they are gone.

        Nothing later stands before the anchor: the anchor was the greatest when it was given.
        """
        anchor, at = self.mark.anchor, 0
        while at < len(block):
            end = block.index(b"\n", at) + 1
            stamp = block[at : block.find(b" ", at, end)]
            if stamp == anchor:
                self._seeking = False
                self._skip = self.mark.lines
                return self._skipped(block[at:])
            if stamp > anchor and _STAMP.match(stamp):
                self._lose()
                return block[at:]
            at = end
        return b""

    def _lose(self) -> None:
        """The anchor is gone, and with it the end of a line of which the beginning was given."""
        self._seeking, self._part = False, 0
        self.mark = replace(self.mark, part=0)

    # -- whole lines ------------------------------------------------------------------------------

    def _given(self, block: bytes) -> bytes:
        lines = block.split(b"\n")
        lines.pop()
        width = lines[0].find(b" ")
        ends = {line[_ZONE : width + 1] for line in lines}
        if width <= _ZONE or len(ends) != 1 or not _STAMP.match(lines[0][:width]):
            return self._given_oddly(lines)
        self._advance([line[:width] for line in lines])
        if self._timestamps:
            return block
        width += 1
        return b"\n".join([line[width:] for line in lines]) + b"\n"

    def _given_oddly(self, lines: list[bytes]) -> bytes:
        """Times in several forms, or lines without one: words of the server, not of the log."""
        stamps, shown = [], []
        for line in lines:
            stamp, _, text = line.partition(b" ")
            known = _STAMP.match(stamp) is not None
            if known:
                stamps.append(stamp)
            shown.append(text if known and not self._timestamps else line)
        if stamps:
            self._advance(stamps)
        return b"\n".join(shown) + b"\n"

    def _advance(self, stamps: list[bytes]) -> None:
        mark, greatest = self.mark, max(stamps)
        if greatest > mark.anchor:
            first = stamps.index(greatest)
            # the usual case is a log in order, whose least time from here on is the anchor's own
            least = greatest if stamps[-1] == greatest else min(stamps[first:])
            self.mark = Mark(greatest, least, len(stamps) - first, restarts=mark.restarts)
            return
        least = min(stamps)
        self.mark = replace(
            mark,
            since=min(mark.since, least) if mark.since else least,
            lines=mark.lines + len(stamps),
            part=0,
        )

    # -- very long lines --------------------------------------------------------------------------

    def _part_of_line(self) -> bytes:
        """The line so far is longer than may be held."""
        data = b"".join(self._held)
        self._held.clear()
        self._held_size = 0
        if self._long is not None:
            return self._more(data)
        stamp, _, text = data.partition(b" ")
        self._long = stamp
        if self._seeking and stamp > self.mark.anchor and _STAMP.match(stamp):
            self._lose()
        if not self.settled:
            return b""
        fresh = not self._part
        shown = self._more(text)
        return stamp + b" " + shown if self._timestamps and fresh and shown else shown

    def _more(self, text: bytes) -> bytes:
        """Text of the long line, as far as it is new."""
        if not self.settled:
            return b""
        shown = text[self._part :]
        self._part -= len(text) - len(shown)
        self.mark = replace(self.mark, part=self.mark.part + len(shown))
        return shown

    def _end_of_line(self, text: bytes) -> bytes:
        stamp, self._long = self._long or b"", None
        if self._seeking:
            if stamp != self.mark.anchor:
                return b""
            self._seeking = False
            self._skip = self.mark.lines
        if self._skip:
            self._skip -= 1
            if not self._counted:
                self._advance([stamp])
            return b""
        shown = text[self._part :] if self._part < len(text) else b"\n"
        self._part = 0
        self._advance([stamp])
        return shown

    def _resumed(self, block: bytes) -> bytes:
        """The rest of the line whose beginning was given over an earlier connection."""
        line = block[: block.index(b"\n")]
        stamp, _, text = line.partition(b" ")
        shown, self._part = text[self._part :], 0
        self._advance([stamp])
        return shown + b"\n"
