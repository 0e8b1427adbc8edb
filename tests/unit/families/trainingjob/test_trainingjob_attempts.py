"""Numbers of attempts, and lists of indexes."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.trainingjob.lifecycle.attempts import (
    claim_replicas,
    claim_set,
    format_indexes,
    highest_attempt,
    is_fenced,
    parse_indexes,
    wanted_attempt,
)


@pytest.mark.parametrize(
    ("indexes", "text"),
    [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([5, 0, 2, 1, 7, 8], "0-2,5,7-8")],
)
def test_indexes_are_written_as_ranges(indexes: list[int], text: str) -> None:
    assert format_indexes(indexes) == text
    assert parse_indexes(text) == set(indexes)


def test_numbers_only_go_up() -> None:
    status: dict[str, Any] = {}
    assert highest_attempt(status) == 0
    assert claim_set(status, world=3, keep_completed=False) == 1
    assert claim_replicas(status, [1]) == 2
    assert claim_replicas(status, [0, 1]) == 3
    assert [wanted_attempt(status, replica) for replica in range(3)] == [3, 3, 1]
    assert claim_set(status, world=2, keep_completed=False) == 4
    assert [wanted_attempt(status, replica) for replica in range(2)] == [4, 4]
    assert "replicaAttempts" not in status


def test_a_replica_is_fenced_when_it_was_started_anew() -> None:
    status: dict[str, Any] = {"attempt": 2, "replicaAttempts": {"1": 5}}
    assert not is_fenced(status, 0, 2)
    assert is_fenced(status, 0, 1)
    assert is_fenced(status, 1, 4)
    assert not is_fenced(status, 1, 5)


def test_what_was_completed_is_kept_where_it_counts() -> None:
    status: dict[str, Any] = {"attempt": 1, "completedReplicas": "0,3"}
    claim_set(status, world=2, keep_completed=True)
    assert status["completedReplicas"] == "0"
    claim_set(status, world=2, keep_completed=False)
    assert "completedReplicas" not in status
