"""Async code for callers without a loop: results, errors, interrupts, iterators."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from corral.sdk.loop import LoopThread


@pytest.fixture
def loop() -> Iterator[LoopThread]:
    thread = LoopThread("test")
    yield thread
    thread.close()


class Counter:
    """Counts without end, and notes when it is closed."""

    def __init__(self) -> None:
        self.closed = False

    async def numbers(self, end: int = 1 << 30) -> AsyncIterator[int]:
        try:
            for number in range(end):
                await asyncio.sleep(0)
                yield number
        finally:
            self.closed = True


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


def test_results_and_errors(loop: LoopThread) -> None:
    assert loop.run(double(4)) == 8
    with pytest.raises(TypeError):
        loop.run(double(None))  # type: ignore[arg-type]


async def test_inside_a_running_loop(loop: LoopThread) -> None:
    assert loop.run(double(4)) == 8


def test_iterators_end_and_are_closed(loop: LoopThread) -> None:
    counter = Counter()
    assert list(loop.iterate(counter.numbers(3))) == [0, 1, 2]
    assert counter.closed


def test_iterators_that_are_left(loop: LoopThread) -> None:
    counter = Counter()
    found = loop.iterate(counter.numbers())
    assert next(found) == 0
    found.close()  # type: ignore[attr-defined]
    assert counter.closed


@pytest.fixture
def interruptible() -> Iterator[int]:
    """The main thread, which SIGINT interrupts as it does in a script."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    main = threading.main_thread().ident
    assert main is not None
    yield main
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_ends_the_call(loop: LoopThread, interruptible: int) -> None:
    ended = threading.Event()

    async def interrupted() -> None:
        try:
            while True:  # an interrupt that meets a finalizer is lost, as it would be for people
                signal.pthread_kill(interruptible, signal.SIGINT)
                await asyncio.sleep(2)
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        loop.run(interrupted())
    assert ended.wait(30)
    assert loop.run(double(1)) == 2


def test_a_call_from_the_loop_itself_is_refused(loop: LoopThread) -> None:
    async def calls_back() -> None:
        loop.run(double(1))

    with pytest.raises(RuntimeError, match="use the async client"):
        loop.run(calls_back())


def test_closing_twice(loop: LoopThread) -> None:
    loop.close()
    loop.close()
    with pytest.raises(RuntimeError):
        loop.run(double(1))
