"""Where the connections of one service port go.

Adding and removing a target and choosing one take the same time however many there are. Targets
that are about to end serve only while there is no other.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

_MAX_CLIENTS: Final = 10_000
"""Remembered for affinity; beyond that the longest unseen are forgotten."""


class Target(NamedTuple):
    """An address that takes connections."""

    address: str
    port: int


class _Bag:
    """A set with a random choice."""

    def __init__(self) -> None:
        self.items: list[Target] = []
        self._at: dict[Target, int] = {}

    def add(self, target: Target) -> None:
        if target not in self._at:
            self._at[target] = len(self.items)
            self.items.append(target)

    def remove(self, target: Target) -> None:
        place = self._at.pop(target, None)
        if place is None:
            return
        last = self.items.pop()
        if last != target:
            self.items[place] = last
            self._at[last] = place

    def __contains__(self, target: object) -> bool:
        return target in self._at


class Targets:
    """The targets of one port, by who offers them."""

    def __init__(
        self,
        *,
        affinity: float = 0.0,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``affinity``: seconds for which a client keeps its target; 0 for none."""
        self._affinity = affinity
        self._rng = rng or random.Random()
        self._clock = clock
        self._ready = _Bag()
        self._ending = _Bag()
        self._of: dict[Hashable, tuple[tuple[Target, ...], bool]] = {}
        self._clients: OrderedDict[str, tuple[Target, float]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._ready.items or self._ending.items)

    def __contains__(self, target: object) -> bool:
        return target in self._ready or target in self._ending

    def all(self) -> list[Target]:
        """Those that take connections now."""
        return list(self._ready.items or self._ending.items)

    def put(self, owner: Hashable, targets: tuple[Target, ...], *, ending: bool = False) -> None:
        """What an owner offers now; nothing without targets."""
        before = self._of.pop(owner, None)
        if before is not None:
            bag = self._ending if before[1] else self._ready
            for target in before[0]:
                bag.remove(target)
        if targets:
            self._of[owner] = (targets, ending)
            bag = self._ending if ending else self._ready
            for target in targets:
                bag.add(target)

    def pick(self, client: str = "", *, failed: frozenset[Target] = frozenset()) -> Target | None:
        """A target for a new connection; not one of those that failed, if there is another."""
        bag = self._ready if self._ready.items else self._ending
        if not bag.items:
            return None
        kept = self._kept(client, bag)
        if kept is not None and kept not in failed:
            return kept
        choice = self._rng.choice(bag.items)
        if choice in failed:
            choice = next((t for t in bag.items if t not in failed), choice)
        self._keep(client, choice)
        return choice

    def _kept(self, client: str, bag: _Bag) -> Target | None:
        if not self._affinity or client not in self._clients:
            return None
        target, seen = self._clients[client]
        if self._clock() - seen > self._affinity or target not in bag:
            return None
        self._keep(client, target)
        return target

    def _keep(self, client: str, target: Target) -> None:
        if not self._affinity:
            return
        self._clients[client] = (target, self._clock())
        self._clients.move_to_end(client)
        if len(self._clients) > _MAX_CLIENTS:
            self._clients.popitem(last=False)
