"""One client: who it is, and its requests answered one by one."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from corral.cluster.broker.api.call import Call
from corral.cluster.broker.api.cluster import versions
from corral.cluster.broker.api.table import BEFORE_LOGIN, TABLE
from corral.cluster.broker.errors import ErrorCode
from corral.cluster.broker.protocol import codec
from corral.cluster.broker.protocol.codec import Malformed, Part, RequestHead
from corral.cluster.broker.scram import ScramServer
from corral.cluster.broker.turns import TurnState, metered

if TYPE_CHECKING:
    from corral.cluster.broker.protocol.budget import Budget
    from corral.cluster.broker.protocol.connection import Connection
    from corral.cluster.broker.server import Broker
    from corral.cluster.broker.tenants import Tenant

__all__ = ["ClientSession"]

_PRODUCE: Final = 0
_API_VERSIONS: Final = 18
_BEFORE_LOGIN: Final = 20
"""Requests of one connection; logging in takes about five."""


class ClientSession:
    """`tenant` is None until it is known who is there; that is at once where nobody logs in."""

    def __init__(self, broker: Broker, connection: Connection, address: tuple[str, int]) -> None:
        self._broker = broker
        self.connection = connection
        self.peer = connection.peer
        self.address = address
        """Where it finds the broker again."""
        self.tenant: Tenant | None = None
        self.user: str | None = None
        self.login: ScramServer | None = None
        self._failed = False
        self._asked = 0
        """Requests before the login."""

    @property
    def budget(self) -> Budget | None:
        return self.tenant.budget if self.tenant is not None else None

    @property
    def largest(self) -> int:
        if self.tenant is None:
            return self._broker.settings.limits.strange_frame_bytes
        return self.tenant.share.frame_bytes

    @property
    def _items(self) -> int:
        return (self.tenant or self._broker.nobody).share.items

    def begin_login(self, mechanism: str) -> None:
        users = self._broker.users
        if users is not None:
            self.login = ScramServer(mechanism, users.of(mechanism), secret=users.secret)

    def end_login(self, user: str | None) -> None:
        """Raises ConnectionError where it may not come in, though it is known."""
        self.login = None
        self._failed = user is None
        if user is None:
            self._broker.complain(f"{self.peer}: a login was refused")
            return
        self._broker.admit(self, user)
        self.user = user

    async def turn(self) -> None:
        """Wait until it is served, where others are too."""
        if self.tenant is not None and self.tenant.name:
            await self._broker.turns.enter(self.tenant.turns)

    async def answer(self, frame: bytearray) -> list[Part] | None:
        if self._failed:
            raise ConnectionError("the login was refused")
        state = self._state()
        if state is None:
            return await self._answer(frame)
        await self._broker.turns.enter(state)
        return await metered(self._answer(frame), partial(self._broker.turns.spend, state))

    def _state(self) -> TurnState | None:
        """Whose turn it needs; None where all are one. Those who have not logged in share one."""
        if self.tenant is not None:
            return self.tenant.turns if self.tenant.name else None
        self._asked += 1
        if self._asked > _BEFORE_LOGIN:
            raise Malformed("too many requests before a login")
        return self._broker.strange_turns

    async def _answer(self, frame: bytearray) -> list[Part] | None:
        head = codec.head_of(frame)
        api = TABLE.get(head.key)
        if api is None or not api.oldest <= head.version <= api.newest:
            if head.key == _API_VERSIONS:
                # who speaks a newer version is told in the oldest what there is
                answer = {"error_code": ErrorCode.unsupported_version, "api_keys": versions()}
                return codec.write(_API_VERSIONS, 0, head.correlation, answer)
            raise Malformed(f"request {head.key} in version {head.version} is not offered")
        if self.tenant is None and head.key not in BEFORE_LOGIN:
            raise Malformed(f"request {head.key} before a login")
        self._check(head, frame)
        request = codec.read(frame, head.key, head.version)
        if codec.items_in(request) > self._items:
            raise Malformed(f"request {head.key} names too much at once")
        tenant = self.tenant or self._broker.nobody
        call = Call(self._broker, self, tenant, head.version, head.client, request)
        said = await api.answer(call)
        if said is None:
            return None
        if self._failed:
            # guessing takes its time
            await asyncio.sleep(self._broker.refusal_delay)
        return codec.write(head.key, head.version, head.correlation, said)

    def _check(self, head: RequestHead, frame: bytearray) -> None:
        """Raises Malformed where it would take long to read."""
        if head.key == _PRODUCE:
            codec.check_produce(frame, head.version, self._items)
            return
        most = self.tenant.share.other_frame_bytes if self.tenant is not None else len(frame)
        if len(frame) > most:
            raise Malformed(f"request {head.key} has {len(frame)} bytes")
