"""One consumer group (the classic protocol): events in, answers out. No I/O, no clock.

Members join; when all have, each is told the generation and the leader who the others are; the
leader assigns, everybody fetches the assignment with a sync, and the group is stable until somebody
joins, leaves, or is silent for too long.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.settings import Limits

__all__ = ["Group", "GroupState", "Join", "Joined", "Member", "Synced"]


class GroupState(StrEnum):
    """As the protocol spells them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True, slots=True)
class Joined:
    """The answer to a join."""

    error: ErrorCode
    member: str
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: Sequence[tuple[str, bytes]] = ()
    """Each with what it said; the leader alone is told."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The answer to a sync."""

    error: ErrorCode
    assignment: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """What somebody who joins says."""

    member: str
    client: str
    host: str
    session: float
    """Seconds of silence after which it is taken for dead."""
    rebalance: float
    """Seconds it may take to join again."""
    kind: str
    protocols: Sequence[tuple[str, bytes]]
    named_first: bool
    """Whether a newcomer is told its name and has to come again with it."""


@dataclass(slots=True)
class Member:
    """Somebody in a group."""

    name: str
    said: Join
    deadline: float = 0.0
    joining: Callable[[Joined], None] | None = None
    syncing: Callable[[Synced], None] | None = None
    assignment: bytes = b""

    def metadata(self, protocol: str) -> bytes:
        return dict(self.said.protocols).get(protocol, b"")


@dataclass(slots=True)
class Group:
    """`deadline` is when a rebalance ends without those who are missing."""

    name: str
    limits: Limits
    state: GroupState = GroupState.EMPTY
    kind: str = ""
    generation: int = 0
    protocol: str = ""
    leader: str = ""
    members: dict[str, Member] = field(default_factory=dict)
    expected: dict[str, float] = field(default_factory=dict)
    """Names that were given away and not used yet, and until when they are good."""
    deadline: float = 0.0

    # -- join ------------------------------------------------------------------------------------

    def join(self, said: Join, answer: Callable[[Joined], None], now: float) -> None:
        """Somebody joins; the answer comes when the group is complete."""
        new = said.member not in self.members
        try:
            member = self._admit(said, now)
        except BrokerError as err:
            answer(Joined(err.code, said.member))
            return
        if member is None:
            name = f"{said.client[:100]}-{uuid.uuid4()}"
            self.expected[name] = now + said.session
            answer(Joined(ErrorCode.member_id_required, name))
            return
        changed = new or list(member.said.protocols) != list(said.protocols)
        member.said = said
        member.deadline = now + said.session
        if self._knows_all(member, changed):
            answer(self._joined(member))
            return
        if member.joining is not None:
            member.joining(Joined(ErrorCode.rebalance_in_progress, member.name))
        member.joining = answer
        if self.state is not GroupState.PREPARING:
            self._prepare(now)
        self._try_complete(now)

    def _admit(self, said: Join, now: float) -> Member | None:
        """The member; None for a newcomer that has to come again."""
        limits = self.limits
        if not limits.session_min <= said.session <= limits.session_max:
            raise BrokerError(ErrorCode.invalid_session_timeout)
        if not said.protocols or not said.kind or not self._fits(said):
            raise BrokerError(ErrorCode.inconsistent_group_protocol)
        if said.member in self.members:
            return self.members[said.member]
        if len(self.members) + len(self.expected) >= limits.members + (
            said.member in self.expected
        ):
            raise BrokerError(ErrorCode.group_max_size_reached)
        if not said.member and said.named_first:
            return None
        if said.member and self.expected.pop(said.member, None) is None:
            raise BrokerError(ErrorCode.unknown_member_id)
        name = said.member or f"{said.client[:100]}-{uuid.uuid4()}"
        member = self.members[name] = Member(name, said, now + said.session)
        self.kind = said.kind
        return member

    def _fits(self, said: Join) -> bool:
        """Whether there is a protocol that everybody else speaks too."""
        others = [m for m in self.members.values() if m.name != said.member]
        if not others:
            return True
        common = {name for name, _ in said.protocols}
        for other in others:
            common &= {name for name, _ in other.said.protocols}
        return said.kind == self.kind and bool(common)

    def _knows_all(self, member: Member, changed: bool) -> bool:
        """Whether a member that joins again has only missed the answer."""
        if changed:
            return False
        if self.state is GroupState.COMPLETING:
            return True
        return self.state is GroupState.STABLE and member.name != self.leader

    def _joined(self, member: Member) -> Joined:
        others: Sequence[tuple[str, bytes]] = ()
        if member.name == self.leader:
            others = [(m.name, m.metadata(self.protocol)) for m in self.members.values()]
        return Joined(
            ErrorCode.none, member.name, self.generation, self.protocol, self.leader, others
        )

    # -- rebalance -------------------------------------------------------------------------------

    def _prepare(self, now: float) -> None:
        self._end_syncs(ErrorCode.rebalance_in_progress)
        self.state = GroupState.PREPARING
        longest = max((m.said.rebalance for m in self.members.values()), default=0.0)
        self.deadline = now + min(longest, self.limits.rebalance_max)

    def _end_syncs(self, error: ErrorCode) -> None:
        for member in self.members.values():
            if member.syncing is not None:
                member.syncing(Synced(error))
                member.syncing = None

    def _try_complete(self, now: float) -> None:
        if self.state is not GroupState.PREPARING or self.expected:
            return
        if all(member.joining is not None for member in self.members.values()):
            self._complete(now)

    def _complete(self, now: float) -> None:
        """All are there, or the time is up: those who are not there are members no more."""
        for name in [n for n, member in self.members.items() if member.joining is None]:
            del self.members[name]
        self.generation += 1
        self.protocol = ""
        if not self.members:
            self.state, self.leader = GroupState.EMPTY, ""
            return
        self.state = GroupState.COMPLETING
        self.protocol = self._vote()
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        self.deadline = now + max(m.said.rebalance for m in self.members.values())
        for member in self.members.values():
            member.assignment = b""
            member.deadline = now + member.said.session
            answer, member.joining = member.joining, None
            if answer is not None:
                answer(self._joined(member))

    def _vote(self) -> str:
        """The protocol that most members like best, of those that all speak."""
        common = set.intersection(
            *({name for name, _ in member.said.protocols} for member in self.members.values())
        )
        votes: dict[str, int] = {}
        for member in self.members.values():
            best = next(name for name, _ in member.said.protocols if name in common)
            votes[best] = votes.get(best, 0) + 1
        return max(votes, key=lambda name: votes[name])

    # -- sync, heartbeat, leave ------------------------------------------------------------------

    def sync(
        self,
        name: str,
        generation: int,
        assignments: Mapping[str, bytes],
        answer: Callable[[Synced], None],
        now: float,
    ) -> None:
        """A member fetches what it is assigned; the leader brings it."""
        try:
            member = self.member(name, generation)
        except BrokerError as err:
            answer(Synced(err.code))
            return
        member.deadline = now + member.said.session
        if self.state is GroupState.PREPARING:
            answer(Synced(ErrorCode.rebalance_in_progress))
        elif self.state is GroupState.STABLE:
            answer(Synced(ErrorCode.none, member.assignment))
        else:
            if member.syncing is not None:
                member.syncing(Synced(ErrorCode.rebalance_in_progress))
            member.syncing = answer
            if name == self.leader:
                self._assign(assignments, now)

    def _assign(self, assignments: Mapping[str, bytes], now: float) -> None:
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.name, b"")
            if member.syncing is not None:
                member.deadline = now + member.said.session
                answer, member.syncing = member.syncing, None
                answer(Synced(ErrorCode.none, member.assignment))

    def heartbeat(self, name: str, generation: int, now: float) -> ErrorCode:
        try:
            member = self.member(name, generation)
        except BrokerError as err:
            return err.code
        member.deadline = now + member.said.session
        if self.state is GroupState.PREPARING:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    def leave(self, name: str, now: float) -> ErrorCode:
        if self.expected.pop(name, None) is None:
            member = self.members.pop(name, None)
            if member is None:
                return ErrorCode.unknown_member_id
            self._gone(member, now)
        else:
            self._try_complete(now)
        return ErrorCode.none

    def _gone(self, member: Member, now: float) -> None:
        if member.joining is not None:
            member.joining(Joined(ErrorCode.unknown_member_id, member.name))
        if member.syncing is not None:
            member.syncing(Synced(ErrorCode.unknown_member_id))
        if self.state in (GroupState.STABLE, GroupState.COMPLETING):
            self._prepare(now)
        self._try_complete(now)

    def member(self, name: str, generation: int) -> Member:
        """Raises BrokerError where there is none, or it speaks of another generation."""
        member = self.members.get(name)
        if member is None:
            raise BrokerError(ErrorCode.unknown_member_id)
        if generation != self.generation:
            raise BrokerError(ErrorCode.illegal_generation)
        return member

    def may_commit(self, name: str, generation: int, now: float) -> None:
        """Whether somebody may say how far it has read. Raises BrokerError."""
        if generation < 0 and not self.members:
            return
        member = self.member(name, generation)
        if self.state is GroupState.COMPLETING:
            raise BrokerError(ErrorCode.rebalance_in_progress)
        member.deadline = now + member.said.session

    # -- time ------------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        """Time has passed: who was silent for too long is gone."""
        late = [name for name, until in self.expected.items() if until <= now]
        for name in late:
            del self.expected[name]
        for member in tuple(self.members.values()):
            waits = member.joining is not None or member.syncing is not None
            if not waits and member.deadline <= now and member.name in self.members:
                del self.members[member.name]
                self._gone(member, now)
        if self.state is GroupState.PREPARING and self.deadline <= now:
            self.expected.clear()
            self._complete(now)
        elif self.state is GroupState.COMPLETING and self.deadline <= now:
            self._end_late_syncs(now)
        elif late:
            self._try_complete(now)

    def _end_late_syncs(self, now: float) -> None:
        """Who has not fetched its assignment in time is gone; the leader, mostly."""
        for name in [n for n, member in self.members.items() if member.syncing is None]:
            del self.members[name]
        self._prepare(now)
        self._try_complete(now)

    def next_deadline(self) -> float | None:
        """When `tick` has something to do."""
        times = list(self.expected.values())
        times += [
            member.deadline
            for member in self.members.values()
            if member.joining is None and member.syncing is None
        ]
        if self.state in (GroupState.PREPARING, GroupState.COMPLETING):
            times.append(self.deadline)
        return min(times, default=None)

    def end(self) -> None:
        """The group is deleted, or the broker stops: nobody waits any longer."""
        self.state = GroupState.DEAD
        for member in self.members.values():
            if member.joining is not None:
                member.joining(Joined(ErrorCode.coordinator_not_available, member.name))
                member.joining = None
        self._end_syncs(ErrorCode.coordinator_not_available)
