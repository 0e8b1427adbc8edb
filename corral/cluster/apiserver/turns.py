"""Turns at a few places, fairly by flow: the flows that wait are served one after the other."""

from __future__ import annotations

import asyncio
from collections import deque

from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube import errors

RETRY_AFTER = 1
KEPT = 4096
"""Flows whose last turns are remembered."""
_ACCOUNTS = "system:serviceaccount:"


class Turns:
    """``places`` at once; the others wait, some of each flow and some in all."""

    def __init__(self, places: int, *, waiting_per_flow: int, waiting: int) -> None:
        self.places = places
        self.refused = 0
        self._taken = 0
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By flow, in the order of their turns."""
        self.waiting = 0
        self._handed = 0
        """Turns that there were."""
        self._last: dict[str, int] = {}
        """By flow, which of them was its last, where it came without having to wait."""
        self._per_flow, self._most = waiting_per_flow, waiting

    @property
    def taken(self) -> int:
        return self._taken

    def resize(self, places: int, *, waiting_per_flow: int, waiting: int) -> None:
        self.places = places
        self._per_flow, self._most = waiting_per_flow, waiting
        self.fill()

    def take_free(self) -> bool:
        """Take a place that nobody waits for; False where there is none."""
        if self._taken < self.places and not self._waiting:
            self._taken += 1
            return True
        return False

    def take_next(self, flow: str) -> bool:
        """The same for a flow that would be the next in any case: a place more than there are.

        It has had no turn since all flows that wait could have had one. So a few requests of one
        user need not wait for what others have under way.
        """
        if self.take_free():
            self._note(flow)
            return True
        since = self._handed - self._last.get(flow, -1)
        if flow in self._waiting or since < max(len(self._waiting), 1) or not self._spare():
            return False
        self._taken += 1
        self._note(flow)
        return True

    def _spare(self) -> bool:
        return self._taken < 2 * self.places

    def _note(self, flow: str) -> None:
        self._handed += 1
        if len(self._last) >= KEPT:
            self._last.clear()
        self._last[flow] = self._handed

    def take_back(self) -> None:
        """Take a place again that was only lent, whether one is free or not."""
        self._taken += 1

    async def take(self, flow: str, *, patient: bool = False, ahead: bool = False) -> None:
        """Return when it is this flow's turn. Raises TooManyRequests, unless ``patient``.

        Who goes on with what was begun is ``ahead`` of the others of the flow.
        """
        if self.take_free():
            return
        line = self._waiting.get(flow)
        length = len(line) if line is not None else 0
        if not patient and (self.waiting >= self._most or length >= self._per_flow):
            self.refused += 1
            raise too_many()
        if line is None:
            line = self._waiting[flow] = deque()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if ahead:
            line.appendleft(turn)
        else:
            line.append(turn)
        self.waiting += 1
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give()
            else:
                self._leave(flow, turn)
            raise

    def _leave(self, flow: str, turn: asyncio.Future[None]) -> None:
        """Who goes away waits no more, even where nobody's turn ever comes."""
        line = self._waiting.get(flow)
        if line is not None and turn in line:
            line.remove(turn)
            self.waiting -= 1
            if not line:
                del self._waiting[flow]

    def give(self) -> None:
        """A place is free: it goes to the flow that has waited longest since its last turn."""
        self._taken -= 1
        self.fill()

    def give_soon(self) -> None:
        """The same after the event loop has looked at its sockets.

        So what is ready at once is not done all at once, and who comes meanwhile gets a turn too.
        """
        asyncio.get_running_loop().call_soon(self.give)

    def fill(self) -> None:
        """Hand out what is free."""
        while self._waiting and self._taken < self.places:
            flow, line = next(iter(self._waiting.items()))
            del self._waiting[flow]
            turn = line.popleft()
            self.waiting -= 1
            if line:
                self._waiting[flow] = line  # behind all others
            if not turn.done():
                self._taken += 1
                self._note(flow)
                turn.set_result(None)


def flow_of(user: UserInfo) -> str:
    """Whose turn it is: a user's, or that of all service accounts of a namespace together."""
    if user.name.startswith(_ACCOUNTS):
        return user.name[: user.name.find(":", len(_ACCOUNTS))]
    return user.name


def too_many() -> errors.TooManyRequests:
    """429 in upstream's words."""
    return errors.TooManyRequests(
        "too many requests, please try again later",
        details={"retryAfterSeconds": RETRY_AFTER},
    )
