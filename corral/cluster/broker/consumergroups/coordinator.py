"""All groups of a broker: their clock, their waiting, their offsets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from corral.cluster.broker.consumergroups.group import Group, GroupState, Join, Joined, Synced
from corral.cluster.broker.consumergroups.offsets import Committed, Offsets, Place
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.settings import Limits
from corral.cluster.broker.tenants import Tenant

__all__ = ["Coordinator"]

_LONGEST: Final = 512
"""Characters of a group's name, with whose it is."""
_GRAIN: Final = 0.05
"""Seconds by which a deadline may be late."""


Answer = TypeVar("Answer", Joined, Synced)


def _resolve(answer: asyncio.Future[Answer]) -> Callable[[Answer], None]:
    """The connection that asked may be gone by then."""

    def resolve(value: Answer) -> None:
        if not answer.done():
            answer.set_result(value)

    return resolve


class Coordinator:
    """`run` has to run beside it."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._limits = limits
        self.groups: dict[str, Group] = {}
        self.offsets = Offsets(path)
        self._changed = asyncio.Event()

    # -- membership ------------------------------------------------------------------------------

    async def join(self, tenant: Tenant, name: str, said: Join) -> Joined:
        if not name or len(name) > _LONGEST:
            return Joined(ErrorCode.invalid_group_id, said.member)
        if sum(len(n) + len(meta) for n, meta in said.protocols) > tenant.share.member_bytes:
            return Joined(ErrorCode.invalid_group_id, said.member)
        group = self.groups.get(name)
        if not self._has_room(tenant, group, said):
            return Joined(ErrorCode.group_max_size_reached, said.member)
        if group is None:
            if said.member:
                return Joined(ErrorCode.unknown_member_id, said.member)
            group = self.groups[name] = Group(name, self._limits)
        answer: asyncio.Future[Joined] = asyncio.get_running_loop().create_future()
        group.join(said, _resolve(answer), time.monotonic())
        self._changed.set()
        return await answer

    def _has_room(self, tenant: Tenant, group: Group | None, said: Join) -> bool:
        """For a group that is new, and for somebody who is."""
        if group is not None and said.member:
            return True
        if group is None and len(self.groups) >= self._limits.groups:
            return False
        if not tenant.name:
            return True
        own = [one for inner, one in self.groups.items() if tenant.outer(inner) is not None]
        if group is None and len(own) >= tenant.share.groups:
            return False
        return sum(len(g.members) + len(g.expected) for g in own) < tenant.share.members

    async def sync(
        self,
        tenant: Tenant,
        name: str,
        member: str,
        generation: int,
        assignments: Mapping[str, bytes],
    ) -> Synced:
        group = self.groups.get(name)
        if group is None:
            return Synced(ErrorCode.unknown_member_id)
        if any(len(data) > tenant.share.member_bytes for data in assignments.values()):
            return Synced(ErrorCode.invalid_request)
        answer: asyncio.Future[Synced] = asyncio.get_running_loop().create_future()
        group.sync(member, generation, assignments, _resolve(answer), time.monotonic())
        self._changed.set()
        return await answer

    def heartbeat(self, name: str, member: str, generation: int) -> ErrorCode:
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.unknown_member_id
        return group.heartbeat(member, generation, time.monotonic())

    def leave(self, name: str, member: str) -> ErrorCode:
        group = self.groups.get(name)
        if group is None:
            return ErrorCode.unknown_member_id
        error = group.leave(member, time.monotonic())
        self._changed.set()
        return error

    # -- offsets ---------------------------------------------------------------------------------

    def commit(
        self,
        tenant: Tenant,
        name: str,
        member: str,
        generation: int,
        entries: Mapping[Place, Committed],
    ) -> None:
        """Raises BrokerError, and then nothing has been committed."""
        if not name or len(name) > _LONGEST:
            raise BrokerError(ErrorCode.invalid_group_id)
        group = self.groups.get(name)
        if group is not None:
            group.may_commit(member, generation, time.monotonic())
        elif generation >= 0:
            raise BrokerError(ErrorCode.illegal_generation)
        held = self.offsets.of(name)
        if not held and len(set(self.offsets.groups())) >= self._limits.groups:
            raise BrokerError(ErrorCode.group_max_size_reached)
        if len(held.keys() | entries.keys()) > self._limits.committed:
            raise BrokerError(ErrorCode.invalid_commit_offset_size)
        if tenant.name and (new := len(entries.keys() - held.keys())):
            own = [self.offsets.of(g) for g in self.offsets.groups() if tenant.outer(g) is not None]
            if not held and len(own) >= tenant.share.groups:
                raise BrokerError(ErrorCode.group_max_size_reached)
            if sum(map(len, own)) + new > tenant.share.committed:
                raise BrokerError(ErrorCode.invalid_commit_offset_size)
        self._write(lambda: self.offsets.commit(name, entries))

    def forget(self, name: str, places: list[Place]) -> dict[Place, ErrorCode]:
        """Remove committed offsets of partitions nobody in the group reads. Raises BrokerError."""
        self._must_exist(name)
        group = self.groups.get(name)
        if group is not None and group.members:
            raise BrokerError(ErrorCode.non_empty_group)
        held = self.offsets.of(name)
        there = [place for place in dict.fromkeys(places) if place in held]
        if there:  # nothing is written of what a caller merely names
            self._write(lambda: self.offsets.remove(name, there))
        return dict.fromkeys(places, ErrorCode.none)

    def delete(self, name: str) -> None:
        """Raises BrokerError."""
        self._must_exist(name)
        group = self.groups.get(name)
        if group is not None and group.members:
            raise BrokerError(ErrorCode.non_empty_group)
        self._write(lambda: self.offsets.remove_group(name))
        if group is not None:
            del self.groups[name]
            group.end()

    def forget_all(self, tenant: Tenant) -> None:
        """All groups of a tenant, with members or without. Raises OSError."""
        for name in self.names():
            if tenant.outer(name) is not None:
                self.offsets.remove_group(name)
                group = self.groups.pop(name, None)
                if group is not None:
                    group.end()

    def _must_exist(self, name: str) -> None:
        if name not in self.groups and not self.offsets.of(name):
            raise BrokerError(ErrorCode.group_id_not_found)

    def _write(self, change: Callable[[], None]) -> None:
        try:
            change()
        except OSError as err:
            raise BrokerError(ErrorCode.kafka_storage_error, str(err)) from err

    def names(self) -> list[str]:
        """Groups with members or offsets."""
        held = [name for name in self.offsets.groups() if self.offsets.of(name)]
        return list(dict.fromkeys([*self.groups, *held]))

    # -- time ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Tick every group when its time has come, until cancelled."""
        while True:
            self._changed.clear()
            now = time.monotonic()
            for group in tuple(self.groups.values()):
                if (due := group.next_deadline()) is not None and due <= now:
                    group.tick(now)
            dues = [due for g in self.groups.values() if (due := g.next_deadline()) is not None]
            delay = max(min(dues) - time.monotonic(), 0) + _GRAIN if dues else None
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def expire(self, now: float) -> None:
        """Forget groups without members: at once without offsets, else when these are old."""
        for name, group in tuple(self.groups.items()):
            if group.state is GroupState.EMPTY and not group.expected and not self.offsets.of(name):
                del self.groups[name]
        for name in self.offsets.groups():
            if name not in self.groups or self.groups[name].state is GroupState.EMPTY:
                if self.offsets.last(name) < now - self._limits.offsets_age:
                    self.offsets.remove_group(name)
                    self.groups.pop(name, None)

    def stop(self) -> None:
        for group in self.groups.values():
            group.end()
