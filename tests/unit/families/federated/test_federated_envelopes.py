"""What counts as an update, and what a round gives back."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from corral.families.federated.envelopes import (
    Aggregated,
    Rejected,
    collected_annotation,
    find_envelope,
    read_envelope,
    round_number,
)
from tests.unit.families.federated.learning_cases import envelope


def read(results: object, **more: Any) -> Any:
    return read_envelope(results, **{"round_": 1, "participant": "a", "job_id": "exp", **more})


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (1, 1), (3.0, 3), ("1", 1), ("round-7", 7), ("12abc", 12), (" 4", 4), ("007", 7),
        (0, None), ("0", None), ("", None), ("round-", None), (True, None), (-1, None),
        (1.5, None), (None, None), ([], None),
    ],
)  # fmt: skip
def test_rounds_by_any_name(value: object, number: int | None) -> None:
    assert round_number(value) == number


@pytest.mark.parametrize("nest", [lambda e: e, lambda e: {"update_envelope": e},
                                  lambda e: {"results": {"update_envelope": e}}])  # fmt: skip
def test_the_envelope_is_found_wherever_it_is(nest: Any) -> None:
    found = read(nest(envelope("a", samples=7, metrics={"loss": 0.5, "name": "x"})))
    assert (found.samples, found.payload, found.metrics) == (7, b"[1.0, 2.0]", {"loss": 0.5})


def test_the_nested_one_comes_first() -> None:
    both = {**envelope("x"), "update_envelope": envelope("a", samples=3)}
    assert read(both).samples == 3


@pytest.mark.parametrize("results", [None, "text", [], {"output": 3}])
def test_no_envelope(results: object) -> None:
    assert find_envelope(results) is None
    with pytest.raises(Rejected, match="gave no update envelope"):
        read(results)


def test_lenient_in_what_is_missing() -> None:
    raw = envelope("a", round_id="round-1")
    del raw["job_id"], raw["proplet_id"]
    found = read(raw)
    assert (found.job_id, found.proplet_id) == ("exp", "a")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"round_id": 2}, "it is of round 2, not of round 1"),
        ({"round_id": None}, "round_id is None, not the number of a round"),
        ({"proplet_id": "b"}, "proplet_id is 'b', but the task is of a"),
        ({"num_samples": 0}, "num_samples is 0"),
        ({"num_samples": -3}, "num_samples is -3"),
        ({"num_samples": 2**31}, "num_samples is 2147483648"),
        ({"num_samples": 1.5}, "num_samples is 1.5, not a whole number"),
        ({"num_samples": "9"}, "num_samples is '9', not a whole number"),
        ({"num_samples": None}, "num_samples is None, not a whole number"),
        ({"update_b64": "!!"}, "invalid update_b64: "),
        ({"update_b64": ""}, "it has neither update_b64 nor update_ref"),
    ],
)
def test_strict_in_what_counts(change: dict[str, Any], reason: str) -> None:
    with pytest.raises(Rejected) as raised:
        read({**envelope("a"), **change})
    assert str(raised.value).startswith(reason)


def test_a_task_that_moved_may_name_its_proplet() -> None:
    assert read(envelope("spare"), known_as=["spare"]).proplet_id == "a"


def test_a_reference_is_its_own_digest() -> None:
    reference = "oci://registry.corral.local/ns/job/updates:t@sha256:" + "0" * 64
    found = read({**envelope("a"), "update_ref": reference, "update_bytes": 400})
    assert (found.reference, found.payload, found.size) == (reference, b"", 400)
    assert found.digest == "sha256:" + "0" * 64


def test_what_is_not_finite_is_no_metric() -> None:
    raw = {**envelope("a"), "metrics": {"loss": float("nan"), "a": float("inf"), "b": True, "c": 2}}
    assert read(raw).metrics == {"c": 2.0}


def aggregated(payload: bytes) -> dict[str, Any]:
    made = Aggregated(
        "exp-001", 3, "round-3", 40, "json-f64", {"num_clients": 2}, "oci://r", payload
    )
    found: dict[str, Any] = json.loads(made.annotation())
    return found


def test_the_envelope_of_a_round() -> None:
    assert aggregated(b"[3.25,4.25,5.25]") == {
        "job_id": "exp-001", "round_id": 3, "global_version": "round-3",
        "proplet_id": "aggregator", "num_samples": 40, "format": "json-f64",
        "metrics": {"num_clients": 2}, "update_ref": "oci://r",
        "update_b64": "WzMuMjUsNC4yNSw1LjI1XQ==",
    }  # fmt: skip


def test_a_large_model_is_only_named() -> None:
    assert "update_b64" in aggregated(b"x" * 69_000)
    assert "update_b64" not in aggregated(b"x" * 70_000)


def test_what_does_not_fit_is_kept_without_its_payload() -> None:
    small = [envelope("a"), envelope("b")]
    assert json.loads(collected_annotation(small)) == small
    text = base64.b64encode(b"x" * 90_000).decode()
    large = [{"proplet_id": name, "update_b64": text} for name in ("a", "b")]
    kept = json.loads(collected_annotation(large))
    assert kept == [{"proplet_id": name, "update_bytes": 90_000} for name in ("a", "b")]
    assert len(collected_annotation(large * 5_000, room=10_000)) <= 10_000
