"""A group by events, with a clock that the case moves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from corral.cluster.broker.consumergroups.group import Group, GroupState, Join, Joined, Synced
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.settings import Limits

JOIN = Join(
    member="",
    client="c",
    host="h",
    session=10.0,
    rebalance=60.0,
    kind="consumer",
    protocols=[("range", b"r"), ("sticky", b"s")],
    named_first=True,
)


class Play:
    def __init__(self, **limits: Any) -> None:
        self.group = Group("g", Limits(**limits))
        self.now = 1000.0

    def join(self, name: str = "", **changes: Any) -> list[Joined]:
        answers: list[Joined] = []
        self.group.join(replace(JOIN, member=name, **changes), answers.append, self.now)
        return answers

    def named(self, **changes: Any) -> str:
        (answer,) = self.join(**changes)
        assert answer.error is ErrorCode.member_id_required
        return answer.member

    def sync(self, name: str, generation: int, **plan: bytes) -> list[Synced]:
        answers: list[Synced] = []
        self.group.sync(name, generation, plan, answers.append, self.now)
        return answers

    def beat(self, name: str, generation: int) -> str:
        return self.group.heartbeat(name, generation, self.now).name

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.group.tick(self.now)

    def stable(self, count: int) -> list[str]:
        """A group of so many, the first of them its leader."""
        names = [self.named() for _ in range(count)]
        answers = [self.join(name) for name in names]
        (leader,) = {answer[0].leader for answer in answers}
        names.sort(key=lambda name: name != leader)
        waiting = [self.sync(name, self.group.generation) for name in names[1:]]
        assert not any(waiting)
        plan = {name: name.encode() for name in names}
        (own,) = self.sync(leader, self.group.generation, **plan)
        assert own.assignment == leader.encode()
        assert [answer[0].assignment for answer in waiting] == [n.encode() for n in names[1:]]
        assert self.group.state is GroupState.STABLE
        return names


def test_a_newcomer_is_named_first() -> None:
    play = Play()
    name = play.named()
    assert not play.group.members
    (joined,) = play.join(name)
    assert (joined.error, joined.generation, joined.leader) == (ErrorCode.none, 1, name)
    assert joined.members == [(name, b"r")]


def test_an_old_client_is_not() -> None:
    (joined,) = Play().join(named_first=False)
    assert joined.error is ErrorCode.none


def test_a_name_that_nobody_gave() -> None:
    (joined,) = Play().join("stranger")
    assert joined.error is ErrorCode.unknown_member_id


def test_all_are_waited_for() -> None:
    play = Play()
    first, second = play.named(), play.named()
    waiting = play.join(first)
    assert not waiting
    (joined,) = play.join(second)
    assert waiting[0].generation == joined.generation == 1
    leader = joined.leader
    told = {answer.member: len(answer.members) for answer in (waiting[0], joined)}
    assert told == {first: 2 * (first == leader), second: 2 * (second == leader)}


def test_who_comes_later_makes_all_join_again() -> None:
    play = Play()
    first, second = play.stable(2)
    third = play.named()
    waiting = play.join(third)
    assert not waiting
    assert play.beat(first, 1) == "rebalance_in_progress"
    assert play.sync(second, 1)[0].error is ErrorCode.rebalance_in_progress
    again = [play.join(first), play.join(second)]
    assert [answer[0].generation for answer in (waiting, *again)] == [2, 2, 2]


def test_who_does_not_join_again_in_time_is_out() -> None:
    play = Play()
    first, _second = play.stable(2)
    waiting = play.join(first)
    assert not waiting  # the leader joins again: a rebalance
    play.later(9)
    assert not waiting
    play.later(52)
    assert waiting[0].generation == 2
    assert list(play.group.members) == [first]


def test_the_silent_are_out() -> None:
    play = Play()
    first, second = play.stable(2)
    play.later(6)
    assert play.beat(first, 1) == "none"
    play.later(6)
    assert list(play.group.members) == [first]
    assert play.beat(second, 1) == "unknown_member_id"
    assert play.beat(first, 1) == "rebalance_in_progress"


def test_a_leader_who_assigns_nothing_is_out() -> None:
    play = Play()
    names = [play.named(), play.named()]
    answers = [play.join(name) for name in names]
    leader = answers[0][0].leader
    (other,) = [name for name in names if name != leader]
    waiting = play.sync(other, 1)
    for _ in range(7):
        play.later(9)
        play.beat(leader, 1)
    play.now += 60
    play.group.tick(play.now)
    assert waiting[0].error is ErrorCode.rebalance_in_progress
    assert leader not in play.group.members


def test_leaving() -> None:
    play = Play()
    first, second = play.stable(2)
    assert play.group.leave(second, play.now) is ErrorCode.none
    assert play.group.leave(second, play.now) is ErrorCode.unknown_member_id
    assert play.beat(first, 1) == "rebalance_in_progress"
    (joined,) = play.join(first)
    assert joined.generation == 2
    play.group.leave(first, play.now)
    assert play.group.state is GroupState.EMPTY


def test_a_name_that_is_never_used_holds_nobody_up() -> None:
    play = Play()
    first = play.named()
    play.named()
    waiting = play.join(first)
    assert not waiting
    play.later(11)
    assert waiting[0].generation == 1


def test_who_missed_the_answer_gets_it_again() -> None:
    play = Play()
    first, second = play.stable(2)
    (joined,) = play.join(second)
    assert (joined.error, joined.generation) == (ErrorCode.none, 1)
    assert play.group.state is GroupState.STABLE
    assert not play.join(first)  # the leader's is a wish for a rebalance


def test_generations_are_checked() -> None:
    play = Play()
    first, _ = play.stable(2)
    assert play.beat(first, 0) == "illegal_generation"
    assert play.sync(first, 2)[0].error is ErrorCode.illegal_generation
    with pytest.raises(BrokerError):
        play.group.may_commit(first, 0, play.now)
    with pytest.raises(BrokerError):
        play.group.may_commit("", -1, play.now)
    play.group.may_commit(first, 1, play.now)


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({"session": 1.0}, ErrorCode.invalid_session_timeout),
        ({"session": 4000.0}, ErrorCode.invalid_session_timeout),
        ({"protocols": []}, ErrorCode.inconsistent_group_protocol),
        ({"protocols": [("own", b"")]}, ErrorCode.inconsistent_group_protocol),
        ({"kind": "connect"}, ErrorCode.inconsistent_group_protocol),
    ],
)
def test_who_does_not_fit(changes: dict[str, Any], wanted: ErrorCode) -> None:
    play = Play()
    play.stable(1)
    (joined,) = play.join(**changes)
    assert joined.error is wanted


def test_a_full_group() -> None:
    play = Play(members=2)
    play.stable(2)
    (joined,) = play.join()
    assert joined.error is ErrorCode.group_max_size_reached


def test_the_protocol_most_like_best() -> None:
    play = Play()
    sticky = [("sticky", b"s"), ("range", b"r")]
    names = [play.named(), play.named(), play.named()]
    play.join(names[0])
    play.join(names[1], protocols=sticky)
    (joined,) = play.join(names[2], protocols=sticky)
    assert joined.protocol == "sticky"


def test_nobody_waits_when_it_ends() -> None:
    play = Play()
    first = play.named()
    play.named()
    waiting = play.join(first)
    play.group.end()
    assert waiting[0].error is ErrorCode.coordinator_not_available


def test_deadlines() -> None:
    play = Play()
    assert play.group.next_deadline() is None
    play.stable(1)
    assert play.group.next_deadline() == play.now + 10
