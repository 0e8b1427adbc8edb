"""A confined process that is kept: it loads what it needs once and answers many requests.

Requests and answers are bytes in frames on its standard input and output; what it prints goes to
standard error. A request that is not answered in time ends the process, and the next one has a new
process. Whatever comes out of it is what code that nobody vouches for says: check it.
"""

from __future__ import annotations

import os
import selectors
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self

from corral.podtools.confine.errors import ConfineError
from corral.podtools.confine.launch import UNCONFINED
from corral.podtools.confine.process import Ended, Running, Start, without_namespaces
from corral.podtools.confine.results import Unreadable
from corral.podtools.confine.rules import Limits

__all__ = ["Channel", "Kept", "NotStarted", "Unanswered"]

_MAGIC: Final = b"kept"
_ANSWER, _REFUSAL = 0, 1
_HEAD: Final = struct.Struct("<4sBQQ")
"""What a frame begins with: its kind, the number of the request, the bytes that follow."""
_PART: Final = 1 << 20
_WORDS: Final = 64 * 1024
"""Bytes of a refusal, and of what a process says that does not start."""


_GRACE: Final = 1.0
"""Seconds for an end that has begun."""


class Unanswered(Exception):
    """A request has no answer; one line that says why."""


class NotStarted(Exception):
    """The process cannot do what it is for: no request would be answered."""


class _Silence(Exception):
    """There is no answer: it has ended, its time was over, or it does not keep to the frames."""

    def __init__(self, received: bytes = b"", *, late: bool = False, why: str = "") -> None:
        super().__init__(why)
        self.received = received
        self.late = late
        self.why = why


class Kept:
    """One such process, which is started when it is needed."""

    def __init__(
        self,
        function: str,
        arguments: Sequence[str] = (),
        *,
        readable: Sequence[Path] = (),
        writable: Sequence[Path] = (),
        limits: Limits | None = None,
        threads: int = 1,
        start_seconds: float = 120.0,
        demanded: Sequence[str] = (),
    ) -> None:
        """``limits.seconds`` is the processor time of one process in all; then comes another.

        ``start_seconds`` are those that it has until it waits for requests.
        """
        self._start = Start(
            function, arguments, readable, writable, limits or Limits(), threads, demanded
        )
        self._start_seconds = start_seconds
        self._running: Running | None = None
        self._answers = 0
        """That the process at hand has given."""
        self._requests = 0
        """Requests so far; 0 is the start."""
        self.started = 0
        """How many processes were started so far."""
        self.missing: tuple[str, ...] = ()
        """Protections that this machine does not give, by name, once one has started."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the process; it can be asked again."""
        running, self._running = self._running, None
        if running is not None:
            running.end()
            running.close()

    def start(self) -> None:
        """Have a process that waits for requests.

        Raises:
            NotStarted: it cannot be had.
            ConfineError: this machine cannot keep it in; nothing was run.
        """
        if self._running is not None:
            return
        self._running = Running(self._start, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
        self.started += 1
        self._answers = 0
        try:
            until = time.monotonic() + self._start_seconds
            refused, received = self._exchange(b"", 0, until, _WORDS)
        except _Silence as silence:
            ended = self._ended(silence)
            if without_namespaces(ended.code, ended.output):
                return self.start()
            if ended.code == UNCONFINED:
                raise ConfineError(ended.why) from None
            raise NotStarted(silence.why or ended.why or "it says nothing") from None
        if refused:
            self.close()
            raise NotStarted(received.decode(errors="replace"))
        self._running.learn()
        self.missing = self._running.missing

    def ask(self, request: bytes, *, seconds: float, most: int) -> bytes:
        """The answer to a request.

        Args:
            request: what is asked.
            seconds: how long an answer may take.
            most: bytes that an answer may have.

        Raises:
            Unanswered: there is none. The process has ended, but for requests that it refuses.
            NotStarted: there is no process that could answer.
            ConfineError: this machine cannot keep it in; nothing was run.
        """
        self.start()
        used = self._answers > 0
        self._requests += 1
        data = _HEAD.pack(_MAGIC, _ANSWER, self._requests, len(request)) + request
        try:
            refused, received = self._exchange(
                data, self._requests, time.monotonic() + seconds, most
            )
        except _Silence as silence:
            ended = self._ended(silence)
            if used and not silence.late and not silence.why:
                # what it had done before may have brought it to its end: a new one is not so worn
                return self.ask(request, seconds=seconds, most=most)
            why = silence.why or ended.why or "it ended without an answer"
            raise Unanswered(why) from None
        self._answers += 1
        self._take_results()
        if refused:
            raise Unanswered(received.decode(errors="replace"))
        return received

    def _take_results(self) -> None:
        """What it left is there when its answer is. Raises Unanswered."""
        assert self._running is not None
        try:
            self._running.take_results()
        except Unreadable as err:
            self.close()
            raise Unanswered(str(err)) from err

    def _ended(self, silence: _Silence) -> Ended:
        """End the process, and say how it did."""
        running = self._running
        assert running is not None
        try:
            running.process.wait(0 if silence.late or silence.why else _GRACE)
        except subprocess.TimeoutExpired:
            running.end()
        code = running.process.wait()
        self.close()
        return Ended(code, silence.received.decode(errors="replace"), silence.late)

    def _exchange(self, data: bytes, number: int, until: float, most: int) -> tuple[bool, bytes]:
        """Send bytes and read the frame that answers; neither waits for the other.

        Raises _Silence.
        """
        assert self._running is not None
        process = self._running.process
        assert process.stdin is not None and process.stdout is not None
        to, back = process.stdin.fileno(), process.stdout.fileno()
        os.set_blocking(to, False)
        os.set_blocking(back, False)
        left, found = memoryview(data), bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(back, selectors.EVENT_READ)
            if left:
                selector.register(to, selectors.EVENT_WRITE)
            while (rest := until - time.monotonic()) > 0:
                ready = {key.fd for key, _ in selector.select(rest)}
                if to in ready:
                    left = self._written(to, left)
                    if not left:
                        selector.unregister(to)
                if back in ready:
                    part = os.read(back, _PART)
                    found += part
                    frame = _frame(found, number, most)
                    if frame is not None:
                        return frame
                    if not part:
                        raise _Silence(bytes(found[-_WORDS:]), late=False)
        raise _Silence(bytes(found[-_WORDS:]), late=True)

    def _written(self, to: int, data: memoryview) -> memoryview:
        try:
            return data[os.write(to, data[:_PART]) :]
        except BlockingIOError:
            return data
        except BrokenPipeError:
            return data[:0]  # it has ended: what it said is read


def _frame(found: bytearray, number: int, most: int) -> tuple[bool, bytes] | None:
    """What the frame of a request holds, and whether it refuses; none while it is not whole.

    Frames of other requests are taken away: nobody waits for them.
    """
    while len(found) >= _HEAD.size:
        magic, kind, of, size = _HEAD.unpack_from(found)
        if magic != _MAGIC:
            if len(found) > _WORDS:
                raise _Silence(why="it says something else than answers")
            return None  # words: whoever says them ends soon
        limit = _WORDS if kind == _REFUSAL else most
        if size > limit:
            raise _Silence(why=f"its answer is larger than {limit} bytes")
        end = _HEAD.size + size
        if len(found) < end:
            return None
        data = bytes(found[_HEAD.size : end])
        del found[:end]
        if of == number:
            return kind != _ANSWER, data
    return None


class Channel:
    """The other end, in the confined process. Make it before anything is loaded."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._in: IO[bytes] = os.fdopen(os.dup(0), "rb")
        self._out: IO[bytes] = os.fdopen(os.dup(1), "wb")
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        os.dup2(2, 1)

        self._number = 0

    def ready(self) -> None:
        """Tell the parent that requests can be sent."""
        self._send(_ANSWER, b"")

    def answer(self, data: bytes) -> None:
        self._send(_ANSWER, data)

    def refuse(self, why: str) -> None:
        self._send(_REFUSAL, " ".join(why.split())[:2000].encode(errors="replace"))

    def requests(self) -> Iterator[bytes]:
        """One after the other, each to be answered or refused, until nobody asks any more."""
        while head := self._in.read(_HEAD.size):
            _, _, self._number, size = _HEAD.unpack(head)
            yield self._in.read(size)

    def _send(self, kind: int, data: bytes) -> None:
        self._out.write(_HEAD.pack(_MAGIC, kind, self._number, len(data)))
        self._out.write(data)
        self._out.flush()
