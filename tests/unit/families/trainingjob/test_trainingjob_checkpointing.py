"""What Checkpoint objects say."""

from __future__ import annotations

from typing import Any

import pytest

from corral.families.trainingjob.checkpoints.retention import Graces, expired, named_as_start
from corral.families.trainingjob.checkpoints.summaries import (
    ATTEMPT,
    JOB_UID,
    REQUEST,
    SEQUENCE,
    TIME,
    facts,
    id_of,
    newest_first,
    restore_source,
    storage_of,
    summarise,
    unanswered_request,
)
from corral.kube.types import Obj
from corral.runtime.sightings import Sightings

NOW = 1_700_000_000.0


def job(*, storage: Obj | None = None, **more: Any) -> Obj:
    restore = more.pop("restore", "Latest")
    retention = more.pop("retention", {})
    checkpoint = {
        "storage": storage or {"s3": {"bucket": "b"}},
        "restore": {"from": restore},
        "retention": retention,
    }
    metadata = {"name": "mnist", "namespace": "a", "uid": "u1", **more.pop("metadata", {})}
    return {"metadata": metadata, "spec": {"checkpoint": checkpoint}, **more}


def checkpoint(
    number: int, *, step: int = 0, attempt: int = 1, phase: str = "Ready", age: float = 0.0,
    uid: str = "u1", metrics: Obj | None = None, uri: str = "", going: bool = False, **notes: str,
) -> Obj:  # fmt: skip
    step = step or number
    annotations = {
        ATTEMPT: str(attempt), SEQUENCE: str(number), TIME: repr(NOW - age), JOB_UID: uid, **notes,
    }  # fmt: skip
    metadata: Obj = {
        "name": f"mnist-{number:06d}", "namespace": "a", "annotations": annotations,
    }  # fmt: skip
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {
        "metadata": metadata,
        "spec": {
            "jobRef": {"name": "mnist"},
            "step": step,
            "uri": uri or f"s3://b/a/mnist/{uid}/step-{step:012d}.n{number}?region=x",
            "metrics": metrics or {},
        },
        "status": {"phase": phase, "bytes": 10},
    }


def names(found: list[Obj]) -> list[int]:
    return [int(item["metadata"]["name"][-6:]) for item in found]


def doomed(*args: Any, **kwargs: Any) -> list[int]:
    return sorted(names([found for found, _ in expired(*args, now=NOW, **kwargs).delete]))


class TestSummary:
    def test_nothing(self) -> None:
        assert summarise([]) == {"count": 0, "bytes": 0}
        assert summarise([checkpoint(1, phase="Writing")]) == {"count": 0, "bytes": 0}

    def test_newest_is_of_the_latest_attempt(self) -> None:
        found = [
            checkpoint(1, step=90),
            checkpoint(2, step=50, attempt=2),
            checkpoint(3, going=True),
        ]
        assert summarise(found) == {
            "count": 2,
            "bytes": 20,
            "last": "mnist-000002",
            "lastStep": 50,
            "lastTime": "2023-11-14T22:13:20Z",
        }
        assert names(newest_first(found)) == [2, 1, 3]

    def test_objects_of_users_are_not_trusted(self) -> None:
        bare: Obj = {
            "metadata": {"name": "x"},
            "spec": {"jobRef": {"name": "j"}, "step": 1, "uri": "nonsense"},
        }
        assert summarise([bare])["count"] == 0
        assert (id_of(bare), storage_of(bare), facts(bare).id) == ("", {}, "x")
        bare["metadata"]["annotations"] = {TIME: "soon", "training.corral.dev/storage": "[1"}
        assert (facts(bare).time, storage_of(bare)) == (0.0, {})


class TestRestoreSource:
    @pytest.mark.parametrize(
        ("wanted", "found", "source"),
        [
            ("Latest", [], "latest"),
            ("None", [], "none"),
            ("None", [checkpoint(1)], "latest"),
            ("None", [checkpoint(1, uid="earlier")], "none"),
            ("None", [checkpoint(1, phase="Failed")], "none"),
            ("missing", [], "missing"),
            (
                "mnist-000001",
                [checkpoint(1, uid="e", uri="s3://b/x/step-1.n")],
                "s3://b/x/step-1.n",
            ),
            ("mnist-000001", [checkpoint(1, uid="e"), checkpoint(2)], "latest"),
            ("s3://b/x/step-1.n", [], "s3://b/x/step-1.n"),
        ],
    )
    def test_remote(self, wanted: str, found: list[Obj], source: str) -> None:
        assert restore_source(job(restore=wanted), found) == source

    def test_volumes_know_ids(self) -> None:
        own = checkpoint(1, uid="e", uri="pvc://mnist-checkpoints/step-1.n")
        on_claim = job(storage={"pvc": {"size": "1Gi"}}, restore="mnist-000001")
        assert restore_source(on_claim, [own]) == "step-1.n"

    def test_no_checkpoints_at_all(self) -> None:
        assert restore_source({"metadata": {}, "spec": {}}, []) == "none"


def test_requests_are_answered_once() -> None:
    asked = job(metadata={"annotations": {REQUEST: "r2"}})
    assert unanswered_request(job(), []) is None
    assert unanswered_request(asked, [checkpoint(1, **{REQUEST: "r1"})]) == "r2"
    assert unanswered_request(asked, [checkpoint(1, uid="e", **{REQUEST: "r2"})]) == "r2"
    assert unanswered_request(asked, [checkpoint(1, **{REQUEST: "r2"})]) is None


class TestRetention:
    def test_policies(self) -> None:
        found = [checkpoint(n, metrics={"loss": float(abs(n - 2))}) for n in range(1, 8)]
        assert doomed(job(retention={"keepLast": 3}), found) == [1, 2, 3, 4]
        every = {"keepLast": 1, "keepEvery": 3}
        assert doomed(job(retention=every), found) == [1, 2, 4, 5]
        best = {"keepLast": 1, "keepBest": {"metric": "loss", "mode": "min"}}
        assert doomed(job(retention=best), found) == [1, 3, 4, 5, 6]
        assert doomed(job(retention={}), found) == []

    def test_age(self) -> None:
        policy = {"keepLast": 9, "maxAge": "1h"}
        found = [checkpoint(1, age=3601), checkpoint(2, age=3000), checkpoint(3, age=3601)]
        verdict = expired(job(retention=policy), found, now=NOW)
        assert sorted(names([item for item, _ in verdict.delete])) == [1]
        assert verdict.wake == pytest.approx(600, abs=1)
        alone = [checkpoint(1, age=9999)]
        assert doomed(job(retention=policy), alone) == [], "the newest stays, however old"

    def test_others_stay(self) -> None:
        policy = {"keepLast": 1}
        earlier = [checkpoint(n, uid="earlier") for n in (1, 2, 3)]
        assert doomed(job(retention=policy), earlier) == []
        mine = [checkpoint(n) for n in (4, 5, 6)]
        assert doomed(job(retention=policy), [*earlier, *mine]) == [4, 5]
        assert doomed(job(retention=policy), mine, pinned=["mnist-000004"]) == [5]
        assert doomed(job(retention=policy), mine, pinned=[mine[1]["spec"]["uri"]]) == [4]
        assert doomed(job(retention=policy), [checkpoint(4, going=True), checkpoint(5)]) == []

    def test_parents_stay(self) -> None:
        base = checkpoint(1)
        child = checkpoint(3, **{"training.corral.dev/parent": id_of(base)})
        assert doomed(job(retention={"keepLast": 1}), [base, checkpoint(2), child]) == [2]

    def test_the_unfinished_and_the_damaged(self) -> None:
        graces = Graces(orphan=100, overtaken=20, quarantine=1000)
        running = job(status={"attempt": 2})
        found = [
            checkpoint(1, phase="Writing", attempt=1),
            checkpoint(2, phase="Writing", attempt=2, age=99),
            checkpoint(3, phase="Writing", attempt=2, age=101),
            checkpoint(4, phase="Failed", age=999),
            checkpoint(5, phase="Failed", age=1001),
        ]
        verdict = expired(running, found, now=NOW, graces=graces)
        assert sorted(names([item for item, _ in verdict.delete])) == [1, 3, 5]
        assert verdict.wake == pytest.approx(1)
        found = [checkpoint(1, phase="Writing", age=30), checkpoint(2, age=5)]
        assert doomed(job(), found, graces=graces) == [1], "overtaken"
        on_claim = job(storage={"pvc": {}}, status={"attempt": 2})
        assert doomed(on_claim, [checkpoint(1, phase="Writing", age=1e9)]) == []

    def test_the_unfinished_of_a_wrong_clock(self) -> None:
        graces, known = Graces(orphan=100), Sightings()
        found = [checkpoint(1, phase="Writing", age=-730 * 86400)]
        assert expired(job(), found, now=NOW, graces=graces, sightings=known).wake == 100
        verdict = expired(job(), found, now=NOW + 100, graces=graces, sightings=known)
        assert names([item for item, _ in verdict.delete]) == [1]

    def test_what_jobs_start_from(self) -> None:
        jobs = [job(restore="x-000001"), job(), job(restore="y", status={"phase": "Succeeded"})]
        assert named_as_start(jobs) == {"x-000001"}
