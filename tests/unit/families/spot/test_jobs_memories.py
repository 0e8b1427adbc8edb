"""What jobs have learnt, in the ConfigMap of their namespace."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.spot.jobs.memories import Memories
from corral.kube.errors import NotFound
from corral.spot import Memory, Offer, Place, Refusal

Obj = dict[str, Any]
OFFER = Offer(Place("local", "local", "local-a", "local"), 1.0)


class ConfigMaps:
    """A server's ConfigMaps, as far as they are used."""

    def __init__(self, **found: Obj) -> None:
        self.found = found
        self.writes = 0

    async def get(self, resource: Any, name: str, *, namespace: str) -> Obj:
        if namespace not in self.found:
            raise NotFound(f"{name} not found")
        return self.found[namespace]

    async def apply(self, resource: Any, obj: Obj, **options: Any) -> Obj:
        self.writes += 1
        self.found[obj["metadata"]["namespace"]] = obj
        return obj


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def memories(server: ConfigMaps, clock: Clock) -> Memories:
    return Memories(server, field_manager="test", clock=clock)  # type: ignore[arg-type]


async def test_what_was_learnt_is_there_after_a_restart() -> None:
    server, clock = ConfigMaps(), Clock()
    first = memories(server, clock)
    memory = await first.of("team")
    await first.keep("team")
    assert server.writes == 0, "nothing was learnt"
    memory.refused(OFFER, 100.0, Refusal.STOCK_OUT)
    first.changed("team")
    await first.keep("team")
    again = await memories(server, clock).of("team")
    assert again.blocks.blocked(OFFER.place, 101.0)
    assert not (await first.of("other")).blocks.blocked(OFFER.place, 101.0)


async def test_it_is_not_written_all_the_time_and_not_forgotten() -> None:
    server, clock = ConfigMaps(), Clock()
    kept = memories(server, clock)
    await kept.of("team")
    for _ in range(3):
        kept.changed("team")
        await kept.keep("team")
    assert server.writes == 1
    clock.now = 60.0
    await kept.keep("team")
    assert server.writes == 2
    clock.now = 120.0
    await kept.keep("team")
    assert server.writes == 2


async def test_prices_are_noted_by_the_hour() -> None:
    server, clock = ConfigMaps(), Clock()
    kept = memories(server, clock)
    memory = await kept.of("team")
    kept.price("team", [OFFER], now=0.0)
    before = memory.as_object()["prices"]
    kept.price("team", [OFFER], now=60.0)
    kept.price("team", [], now=7200.0)
    assert memory.as_object()["prices"] == before
    kept.price("team", [OFFER], now=7200.0)
    assert memory.as_object()["prices"] != before


@pytest.mark.parametrize("text", ["no json", "[]", '{"hazard": 3}', ""])
async def test_what_cannot_be_read_is_begun_anew(text: str) -> None:
    server = ConfigMaps(team={"data": {"memory.json": text}})
    found = await memories(server, Clock()).of("team")
    assert found.as_object() == Memory().as_object()
