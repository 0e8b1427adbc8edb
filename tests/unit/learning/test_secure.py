"""Secure aggregation: sums are right, drop-outs are recovered, single updates stay hidden."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cryptography.exceptions import InvalidTag

from corral.learning import AggregationFailed, UpdateRejected
from corral.learning.secure import Combiner, Masked, Member, shamir

SIZE = 50


class Round:
    """All members and the server, up to the point where updates are sent."""

    def __init__(self, names="abcde", threshold=3, silent=""):
        self.members = {name: Member(name) for name in names}
        self.threshold = threshold
        self.hellos = [member.hello() for member in self.members.values()]
        sharers = [name for name in names if name not in silent]
        sealed = {
            name: self.members[name].share(self.hellos, threshold=threshold) for name in sharers
        }
        for name in sharers:
            self.members[name].receive({sender: sealed[sender][name] for sender in sharers})
        self.sharers = sharers
        self.combiner = Combiner(self.hellos, threshold=threshold, size=SIZE, sharers=sharers)
        rng = np.random.default_rng(4)
        self.values = {name: rng.standard_normal(SIZE) for name in names}
        self.weights = {name: number + 1 for number, name in enumerate(names)}

    def send(self, names):
        for name in names:
            masked = self.members[name].masked(self.values[name], self.weights[name])
            self.combiner.add(masked, self.weights[name])

    def finish(self, names):
        sent = self.combiner.sent
        return self.combiner.mean([self.members[name].reveal(sent) for name in names])

    def mean(self, names):
        total = sum(self.weights[name] for name in names)
        return sum(self.values[name] * self.weights[name] for name in names) / total


@pytest.mark.parametrize(
    ("senders", "revealers", "silent"),
    [
        ("abcde", "abcde", ""),
        ("edcba", "abc", ""),
        ("abd", "abd", ""),
        ("bcd", "cdb", "a"),
        ("bcde", "bce", "a"),
    ],
)
def test_the_mean_of_those_who_sent_whoever_drops_out(senders, revealers, silent):
    one = Round(silent=silent)
    one.send(senders)
    np.testing.assert_allclose(one.finish(revealers), one.mean(senders), atol=1e-8)


def test_the_order_of_arrival_does_not_matter_bit_for_bit():
    results = set()
    one = Round()
    sent = {n: one.members[n].masked(one.values[n], one.weights[n]) for n in "abcde"}
    revealed = [member.reveal("abcde") for member in one.members.values()]
    for order in itertools.islice(itertools.permutations("abcde"), 0, 120, 17):
        combiner = Combiner(one.hellos, threshold=3, size=SIZE)
        for name in order:
            combiner.add(sent[name], one.weights[name])
        results.add(combiner.mean(revealed).tobytes())
    assert len(results) == 1


def test_masked_values_tell_nothing_by_themselves():
    one = Round()
    masked = one.members["a"].masked(np.zeros(SIZE), 1)
    assert len(set((masked.values >> np.uint64(56)).tolist())) > 20
    again = Round().members["a"].masked(np.zeros(SIZE), 1)
    assert not (masked.values == again.values).any()


def test_shares_are_readable_by_their_client_only():
    one = Round()
    fresh = {name: Member(name) for name in "abc"}
    hellos = [member.hello() for member in fresh.values()]
    sealed = {name: fresh[name].share(hellos, threshold=2) for name in "abc"}
    with pytest.raises(InvalidTag):
        fresh["c"].receive({"a": sealed["a"]["b"]})
    assert one.sharers == list("abcde")


def test_members_reveal_once_and_never_both_secrets_of_a_client():
    one = Round()
    revealed = one.members["a"].reveal("abc")
    assert set(revealed.own_masks) == set("abc")
    assert set(revealed.keys) == set("de")
    with pytest.raises(AggregationFailed, match="once"):
        one.members["a"].reveal("ab")


def test_too_few_are_an_error():
    one = Round()
    one.send("ab")
    with pytest.raises(AggregationFailed, match="too few"):
        one.finish("ab")
    with pytest.raises(AggregationFailed, match="2 updates of at least 3"):
        one.combiner.mean([])
    other = Round()
    other.send("abc")
    with pytest.raises(AggregationFailed, match="2 shares of a secret that needs 3"):
        other.finish("ab")
    with pytest.raises(AggregationFailed, match="more than half"):
        Member("a").share([Member("a").hello(), Member("b").hello()], threshold=1)
    with pytest.raises(AggregationFailed, match="lacks this one"):
        Member("a").share([Member("b").hello()], threshold=1)


@pytest.mark.parametrize("values", [[np.nan], [np.inf], [2000.0]])
def test_values_outside_the_ring_are_refused_by_the_client(values):
    with pytest.raises(UpdateRejected, match="values up to"):
        Round().members["a"].masked(np.array(values), 1)


def test_the_server_refuses_what_cannot_count():
    one = Round()
    one.send("a")
    zeros = np.zeros(SIZE, np.uint64)
    for masked, weight, reason in [
        (Masked("a", zeros), 1, "counted already"),
        (Masked("x", zeros), 1, "not of a participant"),
        (Masked("b", zeros[1:]), 1, "mismatched"),
        (Masked("b", zeros), 0, "weight 0"),
        (Masked("b", zeros), 1 << 20, "weight"),
    ]:
        with pytest.raises(UpdateRejected, match=reason):
            one.combiner.add(masked, weight)


def test_shamir():
    secret = bytes(range(32))
    shares = shamir.split(secret, 6, threshold=4)
    for chosen in itertools.combinations(shares, 4):
        assert shamir.join(chosen, threshold=4) == secret
    with pytest.raises(AggregationFailed, match="3 shares"):
        shamir.join(shares[:3], threshold=4)
    with pytest.raises(AggregationFailed, match="belong together"):
        shamir.join([*shares[:3], (4, shares[3][1] ^ 1 << 300)], threshold=4)
