"""Shares of keys: all of them together are the whole, and no key is in two."""

from __future__ import annotations

import asyncio

import pytest

from corral.runtime.controller import Controller
from corral.runtime.sharing import WHOLE, Share


@pytest.mark.parametrize("count", [1, 2, 3, 7])
def test_every_key_is_in_one_share(count: int) -> None:
    shares = [Share(index, count) for index in range(count)]
    keys = [f"team-{number % 5}/job-{number}" for number in range(700)]
    for key in keys:
        assert sum(key in share for share in shares) == 1
    for share in shares:
        assert sum(key in share for key in keys) > 700 / count / 2


def test_the_whole_has_every_key() -> None:
    assert "a/b" in WHOLE
    assert "" in WHOLE


@pytest.mark.parametrize(("index", "count"), [(-1, 2), (2, 2), (0, 0)])
def test_there_is_no_such_share(index: int, count: int) -> None:
    with pytest.raises(ValueError, match="share"):
        Share(index, count)


async def test_a_controller_leaves_the_keys_of_others_alone() -> None:
    done: list[str] = []
    keys = [f"default/{number}" for number in range(40)]
    share = Share(1, 3)

    async def reconcile(key: str) -> None:
        done.append(key)
        if len(done) == sum(each in share for each in keys):
            controller.stop()

    controller = Controller("shared", reconcile, share=share)
    for key in keys:
        controller.queue.add(key)
    async with asyncio.timeout(10):
        await controller.run()
    assert sorted(done) == sorted(key for key in keys if key in share)
