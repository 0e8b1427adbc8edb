from __future__ import annotations

import json
import math
import random
from typing import Any

import pytest

from corral.podtools.kafkaml.rounds import (
    Aggregate,
    Ask,
    Close,
    Extend,
    Fail,
    Finish,
    Publish,
    Rounds,
    RoundSettings,
    Wait,
    answer_version,
    sent_version,
)
from tests.support.matrix import seeds

ABC = ("a", "b", "c")


class Play:
    """The server's part, with a log that survives it."""

    def __init__(self, **settings: Any) -> None:
        self.settings = RoundSettings(**settings)
        self.log: list[str] = []
        self.now = 0.0
        self.offset = 0
        self.rounds = Rounds(self.settings)

    def write(self, **entry: Any) -> None:
        self.log.append(json.dumps(entry))
        self.rounds.take(json.loads(self.log[-1]), self.now)

    def crash(self) -> None:
        before = self.rounds
        self.rounds = Rounds(self.settings)
        for line in self.log:
            self.rounds.take(json.loads(line), self.now)
        for name in ("version", "published", "updates", "counted", "closed", "position", "history",
                     "unfit", "newest", "trained", "asked", "tests"):  # fmt: skip
            assert getattr(self.rounds, name) == getattr(before, name), name

    def hear(
        self, client: str, version: int, known: tuple[str, ...] = ABC, *, tests: bool = False
    ) -> str:
        why = self.rounds.refusal(client, version, known)
        if why:
            self.write(type="ignored", client=client, version=version, why=why, offset=self.offset)
        else:
            self.write(
                type="update", client=client, version=version, range=f"d-{client}:0:0:4",
                num_data=10, offset=self.offset, tests=tests,
                metrics={"training_seconds": 1.5},
            )  # fmt: skip
        self.offset += 1
        return why

    def act(self, clients: tuple[str, ...] = ABC, gone: tuple[str, ...] = ()) -> Any:
        action = self.rounds.next(self.now, clients, gone)
        version = self.rounds.version
        match action:
            case Publish():
                self.write(type="published", version=version, range="m:0:0:4", digest="x")
            case Close(clients=chosen):
                self.write(type="closed", version=version, clients=list(chosen))
            case Aggregate(updates=updates):
                self.write(
                    type="aggregated", version=version, digest="y", samples=10 * len(updates)
                )
            case Extend():
                self.write(type="extended", version=version)
            case Ask(clients=asked):
                self.write(type="asked", clients=list(asked))
            case Finish():
                self.write(type="finished", version=version, model_ref="oci://r/m")
            case Fail(why=why):
                self.write(type="failed", why=why)
        return action


def test_a_life_of_two_rounds() -> None:
    play = Play(rounds=2)
    assert play.act(()) == Wait(math.inf)
    assert play.act() == Publish(0)
    assert isinstance(play.act(), Wait)
    for client in "cab":
        assert play.hear(client, 0) == ""
    assert play.act() == Close(0, ABC)
    found = play.act()
    assert isinstance(found, Aggregate) and [u["client"] for u in found.updates] == list(ABC)
    assert play.act() == Publish(1)
    for client in ABC:
        play.hear(client, 1)
    play.act(), play.act()
    assert play.act() == Finish(2)
    assert play.rounds.ended == "finished"
    assert [entry["version"] for entry in play.rounds.history] == [0, 1]


@pytest.mark.parametrize("seed", seeds(20, always=5))
def test_a_server_that_dies_anywhere_is_where_it_was(seed: int) -> None:
    rng = random.Random(seed)
    play = Play(rounds=4, k=2, timeout=0)
    messages: list[tuple[str, int]] = []
    for _ in range(500):
        if play.rounds.ended:
            break
        action = play.act()
        if rng.random() < 0.4:
            play.crash()
        if isinstance(action, Publish):
            messages += [(client, play.rounds.version) for client in ABC]
            messages += rng.sample(messages, 2)  # some come twice, some late
        if isinstance(action, Wait):
            assert messages, "nothing will ever come"
            play.hear(*messages.pop(rng.randrange(len(messages))))
    assert play.rounds.ended == "finished", seed
    assert [entry["version"] for entry in play.rounds.history] == [0, 1, 2, 3]
    updates = [json.loads(line) for line in play.log]
    counted = [(u["client"], u["version"]) for u in updates if u["type"] == "update"]
    assert len(counted) == len(set(counted))
    assert all(len(entry["clients"]) == 2 for entry in play.rounds.history)


@pytest.mark.parametrize(
    ("client", "version", "words"),
    [
        ("x", 0, "none of this deployment's"),
        ("a", 0, "already"),
        ("b", 7, "no version 7 yet"),
    ],
)
def test_what_does_not_count(client: str, version: int, words: str) -> None:
    play = Play()
    play.act()
    play.hear("a", 0)
    assert words in play.hear(client, version)
    assert set(play.rounds.updates) == {"a"}


def test_late_updates_do_not_count() -> None:
    play = Play(k=1)
    play.act()
    play.hear("a", 0)
    play.act()
    assert "closed" in play.hear("b", 0)
    play.act()
    play.act()
    assert "late" in play.hear("c", 0)


def test_time_is_over() -> None:
    for on_timeout, enough, wanted in (
        ("fail", 1, Fail), ("aggregate", 1, Close), ("aggregate", 2, Fail), ("extend", 1, Extend),
    ):  # fmt: skip
        play = Play(timeout=60, on_timeout=on_timeout, enough=enough)
        play.act()
        play.hear("a", 0)
        assert play.act() == Wait(60)
        play.now = 61
        found = play.act()
        assert isinstance(found, wanted), (on_timeout, found)
        if wanted is Fail and on_timeout == "fail":
            assert found.why == "Round timed out: only 1/3 updates received"


def test_extensions_come_to_an_end() -> None:
    play = Play(timeout=10, on_timeout="extend", max_extensions=2)
    play.act()
    for _ in range(2):
        play.now += 11
        assert isinstance(play.act(), Extend)
    play.now += 11
    assert isinstance(play.act(), Fail)


def test_nobody_waits_for_those_who_are_gone() -> None:
    play = Play(on_timeout="aggregate")
    play.act()
    play.hear("a", 0)
    play.hear("b", 0)
    assert play.act(gone=("c",)) == Close(0, ("a", "b"))
    play = Play(on_timeout="fail")
    play.act()
    assert isinstance(play.act(gone=("c",)), Fail)
    assert "no update that counts came from c" in play.rounds.why


def test_nobody_waits_for_another_try_of_who_sent_rubbish() -> None:
    play = Play()
    play.act()
    play.hear("a", 0)
    play.hear("b", 0)
    play.write(type="ignored", client="c", version=0, why="NaN", unfit=True, offset=9)
    play.crash()
    assert play.act() == Close(0, ("a", "b"))
    play.act(), play.act()
    assert isinstance(play.act(), Wait)  # in the next round it counts again


def test_rubbish_that_comes_first_does_not_end_the_round_of_the_others() -> None:
    play = Play(on_timeout="aggregate")
    play.act()
    play.write(type="ignored", client="c", version=0, why="NaN", unfit=True, offset=0)
    assert isinstance(play.act(), Wait)
    play.hear("a", 0)
    assert isinstance(play.act(), Wait)
    play.hear("b", 0)
    assert play.act() == Close(0, ("a", "b"))


def test_k_of_n_goes_on_without_some() -> None:
    play = Play(k=2)
    play.act()
    play.hear("a", 0)
    assert isinstance(play.act(gone=("c",)), Wait)
    play.hear("b", 0)
    assert play.act(gone=("c",)) == Close(0, ("a", "b"))


def test_async_counts_one_by_one_in_their_order() -> None:
    play = Play(mode="async", rounds=3)
    play.act()
    assert play.hear("b", 0) == ""
    assert play.hear("a", 0) == ""
    assert play.act() == Close(0, ("b@0",))
    play.act()
    play.crash()
    assert play.act() == Publish(1)
    assert play.act() == Close(1, ("a@0",))  # stale by one: it counts less, but it counts
    play.act()
    play.act()
    assert "already" in play.hear("a", 0)
    assert play.hear("c", 0) == ""
    play.act(), play.act()
    assert isinstance(play.act(), Finish)


def test_a_fast_client_loses_nothing_in_async() -> None:
    play = Play(mode="async", rounds=3)
    play.act()
    play.hear("a", 0)
    play.act(), play.act(), play.act()
    play.hear("a", 1)
    play.hear("b", 0)
    play.hear("b", 1)
    while not play.rounds.ended:
        play.act()
    assert [entry["clients"] for entry in play.rounds.history] == [["a"], ["a"], ["b"]]


def test_what_is_too_old_does_not_count_in_async() -> None:
    play = Play(mode="async", rounds=9, max_staleness=1)
    play.act()
    for version in range(2):
        play.hear("a", version)
        play.act(), play.act(), play.act()
    assert "too old" in play.hear("b", 0)


def test_an_open_deployment_takes_clients_of_others() -> None:
    play = Play(rounds=2, open=True, at_least=2)
    assert play.act(()) == Publish(0)
    assert play.hear("x", 0, ()) == ""
    assert isinstance(play.act(()), Wait)
    assert play.hear("y", 0, ()) == ""
    assert play.act(()) == Close(0, ("x", "y"))


def finds(play: Play, client: str) -> None:
    assert play.rounds.test_refusal(client) == ""
    play.write(type="tested", client=client, samples=5, metrics={}, offset=play.offset)
    play.offset += 1


def last_round(**settings: Any) -> Play:
    """One round of three clients, of which two have data to test with."""
    play = Play(rounds=1, **settings)
    play.act()
    for client in ABC:
        play.hear(client, 0, tests=client != "c")
    play.act(), play.act()
    return play


def test_clients_with_data_for_it_test_the_last_version() -> None:
    play = last_round()
    assert "not asked" in play.rounds.test_refusal("a")
    assert play.act() == Ask(("a", "b"))
    assert play.act() == Wait(120)
    finds(play, "b")
    play.crash()
    assert isinstance(play.act(), Wait)
    assert "already" in play.rounds.test_refusal("b")
    assert "not asked" in play.rounds.test_refusal("c")
    finds(play, "a")
    assert play.act() == Finish(1)
    assert sorted(play.rounds.tests) == ["a", "b"]


def test_nobody_waits_for_ever_for_tests() -> None:
    play = last_round()
    play.act()
    assert play.act(gone=("a", "b")) == Finish(1)
    play = last_round()
    play.act()
    finds(play, "a")
    play.now = 121
    assert play.act() == Finish(1)
    play = last_round()
    assert play.act(gone=("a", "b", "c")) == Finish(1)
    play = last_round(test_timeout=0)
    assert play.act() == Finish(1)


def test_how_long_clients_have_trained() -> None:
    play = Play(rounds=2)
    for version in range(2):
        play.act()
        for client in ABC:
            play.hear(client, version)
        play.act(), play.act()
    assert play.rounds.trained == dict.fromkeys(ABC, 3.0)


def test_versions_as_they_are_told() -> None:
    assert [sent_version(v, 3) for v in range(3)] == [0, 1, -1]
    assert [answer_version(v, 3) for v in (1, 2, -1)] == [0, 1, 2]
    assert sent_version(0, 1) == -1 and answer_version(-1, 1) == 0
