"""One client: who it is, and its requests answered one by one."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from corral.cluster.broker.api.call import Call
from corral.cluster.broker.api.cluster import versions
from corral.cluster.broker.api.table import BEFORE_LOGIN, TABLE
from corral.cluster.broker.errors import ErrorCode
from corral.cluster.broker.scram import ScramServer
from corral.cluster.broker.wire import codec
from corral.cluster.broker.wire.codec import Malformed, Part

if TYPE_CHECKING:
    from corral.cluster.broker.server import Broker

__all__ = ["ClientSession"]

logger = logging.getLogger(__name__)

_PRODUCE: Final = 0
_API_VERSIONS: Final = 18


class ClientSession:
    """`user` is None until somebody has logged in."""

    def __init__(self, broker: Broker, peer: str, address: tuple[str, int]) -> None:
        self._broker = broker
        self.peer = peer
        self.address = address
        """Where it finds the broker again."""
        self.user: str | None = None
        self.login: ScramServer | None = None
        self._failed = False

    @property
    def trusted(self) -> bool:
        return not self._broker.secure or self.user is not None

    def begin_login(self, mechanism: str) -> None:
        users = self._broker.users
        if users is not None:
            self.login = ScramServer(mechanism, users.of(mechanism), secret=users.secret)

    def end_login(self, user: str | None) -> None:
        self.login = None
        self.user = user
        self._failed = user is None
        if self._failed:
            logger.warning("%s: a login was refused", self.peer)

    async def answer(self, frame: bytearray) -> list[Part] | None:
        if self._failed:
            raise ConnectionError("the login was refused")
        head = codec.head_of(frame)
        api = TABLE.get(head.key)
        if api is None or not api.oldest <= head.version <= api.newest:
            if head.key == _API_VERSIONS:
                # who speaks a newer version is told in the oldest what there is
                answer = {"error_code": ErrorCode.unsupported_version, "api_keys": versions()}
                return codec.write(_API_VERSIONS, 0, head.correlation, answer)
            raise Malformed(f"request {head.key} in version {head.version} is not offered")
        if not self.trusted and head.key not in BEFORE_LOGIN:
            raise Malformed(f"request {head.key} before a login")
        if head.key != _PRODUCE and len(frame) > self._broker.settings.limits.other_frame_bytes:
            raise Malformed(f"request {head.key} has {len(frame)} bytes")
        request = codec.read(frame, head.key, head.version)
        call = Call(self._broker, self, head.version, head.client, request)
        said = await api.answer(call)
        if said is None:
            return None
        if self._failed:
            # guessing takes its time
            await asyncio.sleep(self._broker.refusal_delay)
        return codec.write(head.key, head.version, head.correlation, said)
