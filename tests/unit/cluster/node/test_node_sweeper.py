"""What is to be removed is removed, in order, and tried again where it cannot be removed yet."""

from __future__ import annotations

import threading

from corral.cluster.node.sweeper import Sweeper

PATIENCE = 30.0


async def test_everything_is_done_in_order_before_it_closes() -> None:
    done: list[int] = []
    sweeper = Sweeper()
    for number in range(100):
        sweeper.later(done.append, number)
    await sweeper.close()
    assert done == list(range(100))


async def test_nothing_to_do_is_closed_at_once() -> None:
    await Sweeper().close()


async def test_what_fails_is_tried_again_until_it_is_done() -> None:
    tries: list[int] = []
    removed = threading.Event()

    def remove() -> None:
        tries.append(len(tries))
        if len(tries) < 4:
            raise OSError("the file system is read-only")
        removed.set()

    sweeper = Sweeper(first_wait=0.01, longest_wait=0.02)
    sweeper.later(remove)
    assert removed.wait(PATIENCE)
    await sweeper.close()
    assert len(tries) == 4


async def test_others_are_not_held_up_and_it_closes_with_what_cannot_be_removed() -> None:
    tried: list[str] = []

    def fail() -> None:
        tried.append("fails")
        raise OSError("busy")

    sweeper = Sweeper(first_wait=1000.0)
    sweeper.later(fail)
    sweeper.later(tried.append, "other")
    await sweeper.close()
    assert tried == ["fails", "other", "fails"]


async def test_a_bug_is_not_tried_again() -> None:
    tries: list[int] = []

    def bug() -> None:
        tries.append(1)
        raise ValueError("a bug")

    sweeper = Sweeper(first_wait=0.01)
    sweeper.later(bug)
    sweeper.later(tries.append, 2)
    await sweeper.close()
    assert tries == [1, 2]
