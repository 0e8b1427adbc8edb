from __future__ import annotations

import asyncio

from corral.gateway.warnings import as_header, collected, note
from corral.kube.connection.transport import parse_warning
from tests.unit.gateway.gateway_stage import Stage, path


async def test_warnings_are_of_the_request_that_caused_them() -> None:
    both = asyncio.Barrier(2)

    async def one(word: str) -> list[str]:
        with collected() as found:
            await both.wait()
            note(word)
            note(word)
            await both.wait()
            return found

    assert await asyncio.gather(one("a"), one("b")) == [["a"], ["b"]]
    note("nobody listens")


def test_a_header_can_be_read_again() -> None:
    said = 'spec.x: "a" \\ b'
    assert parse_warning(as_header(said)) == said
    assert "\n" not in as_header("a\nb")


async def test_warnings_reach_the_caller() -> None:
    stage = Stage()
    answer = stage.gateway._say

    async def warned(verb: str, *args: object, **asked: object) -> object:
        note(f"{verb}: mind the gap")
        return await answer(verb, *args, **asked)  # type: ignore[arg-type]

    stage.gateway._say = warned  # type: ignore[method-assign]
    reply = await stage.ask("GET", path("/pi"))
    assert reply.headers["warning"] == '299 - "get: mind the gap"'
