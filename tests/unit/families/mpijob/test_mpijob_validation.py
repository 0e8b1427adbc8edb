"""What is said about MPIJobs, field by field."""

from __future__ import annotations

from collections import Counter

import pytest

from corral.api.mpi.kinds import MPIJob
from corral.families.mpijob.validation import AREAS, Context, examine, judge
from tests.unit.families.mpijob.mpijob_cases import Case, edited, job, spelled
from tests.unit.families.mpijob.mpijob_tables import CASES

_LETTERS = {"error": "E", "policy": "P", "advice": "A"}


def judged_by(case: Case, policy: str) -> Context:
    context = case.context
    return Context(
        policy=policy,  # type: ignore[arg-type]
        required_labels=context.required_labels,
        quotas=context.quotas,
        priorities=context.priorities,
        gang_scheduler=context.gang_scheduler,
    )


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_findings(case: Case) -> None:
    old = edited(job(), case.old) if case.old is not None else None
    found = examine(case.obj, old=old, context=case.context)
    expected = [spelled(text) for text in case.expected]
    said = [(_LETTERS[f.severity.value], f.problem.field) for f in found]
    assert said == [(severity, path) for severity, path, _ in expected], found
    for finding, (_, _, words) in zip(found, expected, strict=True):
        assert finding.problem.body.startswith(words)


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_errors_are_refused_everywhere_and_policy_where_restricted(case: Case) -> None:
    old = edited(job(), case.old) if case.old is not None else None
    for policy in ("baseline", "restricted"):
        context = judged_by(case, policy)
        found = examine(case.obj, old=old, context=context)
        counted = Counter(f.severity.value for f in found)
        known = examine(old, context=context) if old is not None else []
        strict = sum(f.severity.value == "policy" and f not in known for f in found)
        refused = counted["error"] + (strict if policy == "restricted" else 0)
        judgement = judge(case.obj, old=old, context=context)
        assert len(judgement.errors) == refused
        assert judgement.accepted == (not refused)


def test_there_are_enough_cases_for_every_area() -> None:
    counted = Counter(case.area for case in CASES)
    assert set(counted) == set(AREAS)
    assert min(counted.values()) >= 15 and sum(counted.values()) >= 150


def test_kubeflows_rules_come_in_kubeflows_order() -> None:
    wrong = edited(
        job(slotsPerWorker=-1, mpiImplementation="X"),
        {
            "metadata|name": "1",
            "L|replicas": 2,
            "W|replicas": 0,
            "run|cleanPodPolicy": "X",
            "LC|args": ["a"],
        },
    )
    fields = [
        "metadata.name",
        "spec.mpiReplicaSpecs[Launcher].replicas",
        "spec.mpiReplicaSpecs[Worker].replicas",
        "spec.slotsPerWorker",
        "spec.runPolicy.cleanPodPolicy",
        "spec.mpiImplementation",
    ]
    assert [problem.field for problem in judge(wrong).errors] == fields
    assert [problem.field for problem in MPIJob.validate(wrong)] == fields


def test_a_job_of_before_is_not_stopped_by_a_new_policy() -> None:
    old = edited(job(), {"WC|securityContext": None, "run|suspend": True})
    new = edited(old, {"run|suspend": False})
    restricted = Context(policy="restricted")
    assert judge(old, context=restricted).errors
    assert judge(new, old=old, context=restricted).errors == []
    worse = edited(new, {"WP|hostPID": True})
    found = judge(worse, old=old, context=restricted).errors
    assert [problem.field for problem in found] == [
        "spec.mpiReplicaSpecs[Worker].template.spec.hostPID"
    ]


def test_consequences_of_a_mistake_are_not_told() -> None:
    wrong = edited(job(), {"WC|env": [{"name": 1}], "W|replicas": -1})
    found = judge(wrong).errors
    assert [problem.field for problem in found] == [
        "spec.mpiReplicaSpecs.Worker.template.spec.containers[0].env[0].name",
        "spec.mpiReplicaSpecs[Worker].replicas",
    ]


def test_remarks_are_not_endless() -> None:
    wrong = edited(job(), {"WC|ports": [{"hostPort": 1}] * 40})
    warnings = judge(wrong).warnings
    assert len(warnings) == 25 and warnings[-1] == "and 16 more remarks"


def test_judging_leaves_the_job_alone() -> None:
    obj = job()
    before = repr(obj)
    judge(obj, old=obj)
    assert repr(obj) == before
