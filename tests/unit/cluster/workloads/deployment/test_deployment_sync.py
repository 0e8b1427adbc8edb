"""Deployments: scaling, rollouts, pause, rollback, history and status."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.deployment import (
    Answer,
    CreateSet,
    DeleteSet,
    Emit,
    UpdateDeployment,
    UpdateSet,
    WriteStatus,
    claim_sets,
    sync_deployment,
)
from corral.cluster.workloads.deployment.sets import (
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    REVISION,
    REVISION_HISTORY,
    limits,
    new_set_size,
    same_template,
    template_hash,
    with_revision_annotations,
)
from corral.kube.types import Obj

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def template(image: str) -> Obj:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"image": image}]}}


def deployment(replicas: int, *, image: str = "new", surge: Any = None, unavailable: Any = None,
               strategy: str = "RollingUpdate", annotations: Any = None, status: Any = None,
               **spec: Any) -> Obj:  # fmt: skip
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    how: Obj = {"type": strategy}
    if strategy == "RollingUpdate":
        how["rollingUpdate"] = {k: v for k, v in rolling.items() if v is not None}
    return {
        "metadata": {"name": "web", "namespace": "ns", "uid": "dep", "generation": 1,
                     "annotations": {REVISION: "9", **(annotations or {})}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
                 "template": template(image), "strategy": how, **spec},
        "status": status or {},
    }  # fmt: skip


def rset(name: str, replicas: int, *, image: str = "old", age: int = 0, available: int = 0,
         desired: int | None = None, maximum: int | None = None, revision: int = 1,
         **extra: Any) -> Obj:  # fmt: skip
    annotations = {REVISION: str(revision)}
    if desired is not None:
        annotations[DESIRED_REPLICAS] = str(desired)
        annotations[MAX_REPLICAS] = str(desired if maximum is None else maximum)
    return {
        "metadata": {"name": name, "namespace": "ns", "uid": f"uid-{name}", "generation": 1,
                     "creationTimestamp": ago(age), "annotations": annotations,
                     "labels": {"app": "web"},
                     "ownerReferences": [{"uid": "dep", "controller": True}]},
        "spec": {"replicas": replicas, "template": template(image)},
        "status": {"availableReplicas": available, "replicas": available, "observedGeneration": 1,
                   "terminatingReplicas": 0, **extra.pop("status", {})},
    }  # fmt: skip


class Ran:
    def __init__(self, subject: Obj, sets: list[Obj], pods: Any = None, *,
                 create: Answer | None = None, **options: Any) -> None:  # fmt: skip
        self.sizes = {s["metadata"]["name"]: s["spec"]["replicas"] for s in sets}
        self.sets = {s["metadata"]["name"]: s for s in sets}
        self.steps: list[Any] = []
        self.events: list[str] = []
        self.messages: list[str] = []
        self.status: Obj | None = None
        self.deployment: Obj = subject
        self.deleted: list[str] = []
        passing = sync_deployment(subject, sets, pods or {}, now=options.get("now", NOW))
        answer: Answer | None = None
        while True:
            try:
                step = passing.send(answer) if answer else next(passing)
            except StopIteration as stop:
                self.verdict = stop.value
                return
            self.steps.append(step)
            answer = self.answer(step, create)

    def answer(self, step: Any, create: Answer | None) -> Answer:
        if create is not None and isinstance(step, CreateSet):
            return create
        for event in getattr(step, "events", ()):
            self.events.append(event.reason)
            self.messages.append(event.message)
        match step:
            case CreateSet(body) | UpdateSet(body):
                stored = copy.deepcopy(body)
                stored["metadata"].setdefault("uid", f"uid-{body['metadata']['name']}")
                self.sizes[body["metadata"]["name"]] = body["spec"]["replicas"]
                self.sets[body["metadata"]["name"]] = stored
                return Answer(found=stored)
            case DeleteSet(one):
                self.deleted.append(one["metadata"]["name"])
            case WriteStatus(found):
                self.status, self.deployment = found["status"], copy.deepcopy(found)
            case UpdateDeployment(found):
                self.deployment = copy.deepcopy(found)
            case Emit():
                pass
        return Answer()

    def condition(self, kind: str) -> tuple[str, str, str] | None:
        for c in (self.status or {}).get("conditions", ()):
            if c["type"] == kind:
                return (c["status"], c["reason"], c["message"])
        return None


# Upstream's table of proportional scaling.
# name: (from, to, surge before, surge now, new set's size or None, old sizes newest first,
#        expected new, expected old)
SCALES: dict[str, tuple[Any, ...]] = {
    "normal: 10 to 12": (10, 12, None, None, 10, [], 12, []),
    "normal: 10 to 5": (10, 5, None, None, 10, [], 5, []),
    "5 to 10": (5, 10, None, None, 2, [3], 4, [6]),
    "5 to 3": (5, 3, None, None, 2, [3], 1, [2]),
    "9 to 4": (9, 4, None, None, 8, [1], 4, [0]),
    "7 to 10": (7, 10, None, None, 2, [3, 2], 3, [4, 3]),
    "13 to 8": (13, 8, None, None, 2, [8, 3], 1, [5, 2]),
    "leftover 3 to 4": (3, 4, None, None, 1, [1, 1], 2, [1, 1]),
    "leftover 3 to 2": (3, 2, None, None, 1, [1, 1], 1, [1, 0]),
    "no new set 4 to 5": (4, 5, None, None, None, [2, 2], None, [3, 2]),
    "6 to 0": (6, 0, None, None, 3, [2, 1], 0, [0, 0]),
    "surge": (10, 20, 2, 2, 6, [6], 11, [11]),
    "surge and size": (10, 50, 3, 6, 5, [8], 22, [34]),
    "size and template": (10, 14, None, None, None, [7, 3], None, [10, 4]),
}


@pytest.mark.parametrize("name", SCALES)
def test_scaling(name: str) -> None:
    before, after, surge_before, surge, new, old, want_new, want_old = SCALES[name]
    top = before + (surge_before or 0)
    sets = [rset(f"v{9 - i}", size, age=10 + i, desired=before, maximum=top)
            for i, size in enumerate(old)]  # fmt: skip
    if new is not None:
        sets.append(rset("new", new, image="new", desired=before, maximum=top, revision=9))
    ran = Ran(deployment(after, surge=surge), sets)
    assert ran.sizes.get("new") == want_new
    assert [ran.sizes[f"v{9 - i}"] for i in range(len(old))] == want_old
    assert "CreateSet" not in [type(step).__name__ for step in ran.steps]


@pytest.mark.parametrize(
    ("wanted", "surge", "old", "new", "expected"),
    [(10, 0, 10, 0, 0), (10, 2, 10, 0, 2), (10, 2, 5, 0, 7), (10, 2, 10, 2, 2), (10, 2, 2, 11, 10)],
)
def test_new_set_grows(wanted: int, surge: int, old: int, new: int, expected: int) -> None:
    sets = [rset("old", old, age=9, desired=wanted),
            rset("new", new, image="new", desired=wanted, revision=9)]  # fmt: skip
    subject = deployment(wanted, surge=surge, unavailable=0)
    ran = Ran(subject, sets)
    assert ran.sizes["new"] == expected
    if expected != new:
        assert ran.sizes["old"] == old


@pytest.mark.parametrize(
    ("unavailable", "old", "new", "old_ready", "new_ready", "expected"),
    [
        (0, 10, 0, 10, 0, 9),
        (2, 10, 0, 10, 0, 8),
        (2, 10, 0, 8, 0, 8),
        (2, 10, 0, 9, 0, 8),
        (2, 8, 2, 8, 0, 8),
    ],
)
def test_old_sets_shrink(
    unavailable: int, old: int, new: int, old_ready: int, new_ready: int, expected: int
) -> None:
    sets = [rset("old", old, age=9, desired=10, available=old_ready),
            rset("new", new, image="new", desired=10, available=new_ready, revision=9)]  # fmt: skip
    ran = Ran(deployment(10, surge=0, unavailable=unavailable), sets)
    assert ran.sizes["old"] == expected


@pytest.mark.parametrize(
    ("size", "surge", "unavailable", "expected"),
    [
        (10, "25%", "25%", (3, 2)),
        (1, "25%", "25%", (1, 0)),
        (10, 0, 0, (0, 1)),
        (3, 1, 9, (1, 3)),
        (0, "25%", "25%", (0, 0)),
        (7, "50%", "50%", (4, 3)),
    ],
)
def test_limits(size: int, surge: Any, unavailable: Any, expected: tuple[int, int]) -> None:
    assert limits(deployment(size, surge=surge, unavailable=unavailable)) == expected
    assert limits(deployment(size, strategy="Recreate")) == (0, 0)


def test_first_rollout_creates_the_set() -> None:
    subject = deployment(3, surge=1, progressDeadlineSeconds=600, minReadySeconds=5)
    subject["metadata"]["annotations"] = {"team": "a"}
    ran = Ran(subject, [])
    body = ran.steps[0].body
    short = body["metadata"]["labels"]["pod-template-hash"]
    assert body["metadata"]["name"] == f"web-{short}"
    assert body["metadata"]["annotations"] == {
        "team": "a", REVISION: "1", DESIRED_REPLICAS: "3", MAX_REPLICAS: "4"}  # fmt: skip
    assert body["spec"]["selector"]["matchLabels"] == {"app": "web", "pod-template-hash": short}
    assert body["spec"]["template"]["metadata"]["labels"]["pod-template-hash"] == short
    assert (body["spec"]["replicas"], body["spec"]["minReadySeconds"]) == (3, 5)
    assert ran.messages == [f"Scaled up replica set web-{short} from 0 to 3"]
    assert ran.deployment["metadata"]["annotations"][REVISION] == "1"
    assert ran.condition("Progressing") == (
        "True", "NewReplicaSetCreated", f'Created new replica set "web-{short}"')  # fmt: skip
    assert ran.condition("Available") == (
        "False", "MinimumReplicasUnavailable",
        "Deployment does not have minimum availability.")  # fmt: skip


def test_a_found_set_is_taken_and_gets_the_next_revision() -> None:
    sets = [
        rset("a", 0, image="new", age=9, revision=1),
        rset("b", 1, age=1, revision=2, desired=1),
    ]
    ran = Ran(deployment(1, surge=1, unavailable=0), sets)
    assert ran.sets["a"]["metadata"]["annotations"][REVISION] == "3"
    assert ran.sets["a"]["metadata"]["annotations"][REVISION_HISTORY] == "1"
    assert ran.sizes == {"a": 1, "b": 1}


def test_a_rollout_ends_and_never_breaks_its_limits() -> None:
    subject = deployment(10, surge=3, unavailable=2, progressDeadlineSeconds=600)
    sets = [rset("old", 10, age=9, available=10, desired=10, maximum=13)]
    for _ in range(60):
        ran = Ran(subject, sets)
        subject = {**ran.deployment, "metadata": {**ran.deployment["metadata"]}}
        sets = list(ran.sets.values())
        assert sum(ran.sizes.values()) <= 13
        for one in sets:  # pods go at once, one new pod a round becomes available
            status = one.setdefault("status", {})
            size = one["spec"]["replicas"]
            status["availableReplicas"] = min(size, status.get("availableReplicas", 0) + 1)
            status["replicas"] = status["readyReplicas"] = status["availableReplicas"]
            status["observedGeneration"], status["terminatingReplicas"] = 1, 0
        assert sum(s["status"]["availableReplicas"] for s in sets) >= 8
    (new,) = [n for n, size in ran.sizes.items() if size]
    assert ran.sizes == {"old": 0, new: 10} and ran.steps == []
    final = {c["type"]: c["reason"] for c in subject["status"]["conditions"]}
    assert final == {
        "Available": "MinimumReplicasAvailable", "Progressing": "NewReplicaSetAvailable"
    }  # fmt: skip


def running_pod(phase: str = "Running") -> Obj:
    return {"metadata": {"uid": "p"}, "status": {"phase": phase}}


def test_pods_that_are_going_are_not_counted_as_spare() -> None:
    """The old set was made smaller, and its status does not know yet."""
    subject = deployment(6, surge=3, unavailable=0)
    old = rset("old", 3, available=6, age=9, desired=6)
    new = rset("new", 6, image="new", available=4, desired=6, revision=9)
    assert Ran(subject, [old, new]).sizes == {"old": 2, "new": 6}


def test_recreate_waits_for_the_last_old_pod() -> None:
    subject = deployment(2, strategy="Recreate")
    first = Ran(subject, [rset("old", 2, available=2, desired=2)])
    assert first.sizes == {"old": 0}
    empty = rset("old", 0, desired=2)
    waiting = Ran(subject, [empty], {"uid-old": [running_pod()]})
    assert waiting.sizes == {"old": 0}
    done = Ran(subject, [empty], {"uid-old": [running_pod("Succeeded")]})
    assert sorted(done.sizes.values()) == [0, 2]


def test_pause_and_resume() -> None:
    subject = deployment(2, progressDeadlineSeconds=600, paused=True)
    ran = Ran(subject, [rset("old", 2, desired=2, available=2)])
    assert ran.sizes == {"old": 2}
    assert ran.condition("Progressing") == ("Unknown", "DeploymentPaused", "Deployment is paused")
    resumed = {**ran.deployment, "spec": {**subject["spec"], "paused": False}}
    again = Ran(resumed, [rset("old", 2, desired=2, available=2)])
    reasons = [
        c["reason"]
        for s in again.steps
        if isinstance(s, WriteStatus)
        for c in s.deployment["status"]["conditions"]
        if c["type"] == "Progressing"
    ]
    assert reasons[0] == "DeploymentResumed"


def test_paused_deployments_still_scale() -> None:
    ran = Ran(deployment(5, paused=True), [rset("old", 2, desired=2, available=2)])
    assert ran.sizes == {"old": 5}


PROGRESSING = {"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated",
               "message": "m", "lastTransitionTime": ago(900)}  # fmt: skip


def stuck(updated: float) -> Obj:
    return deployment(
        1, surge=1, unavailable=0, progressDeadlineSeconds=600,
        status={"observedGeneration": 1, "unavailableReplicas": 1, "terminatingReplicas": 0,
                "conditions": [
                    {**PROGRESSING, "lastUpdateTime": ago(updated)},
                    {"type": "Available", "status": "False",
                     "reason": "MinimumReplicasUnavailable", "message": "m"}]},
    )  # fmt: skip


def test_deadline() -> None:
    new = rset("new", 1, image="new", desired=1, maximum=2, revision=9)
    late = Ran(stuck(601), [new])
    assert late.condition("Progressing") == (
        "False", "ProgressDeadlineExceeded",
        'ReplicaSet "new" has timed out progressing.')  # fmt: skip
    early = Ran(stuck(100), [new])
    assert early.steps == [] and early.verdict.requeue_after == 501


def test_progress_moves_the_deadline() -> None:
    new = rset("new", 2, image="new", desired=2, maximum=2, revision=9, available=1)
    subject = {**stuck(500), "spec": {**stuck(500)["spec"], "replicas": 2}}
    ran = Ran(subject, [new])
    (found,) = [c for c in (ran.status or {})["conditions"] if c["type"] == "Progressing"]
    assert found["lastUpdateTime"] == ago(0) and found["lastTransitionTime"] == ago(900)
    assert found["message"] == 'ReplicaSet "new" is progressing.'


def test_failures_of_sets_show() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate",
               "message": "quota", "lastTransitionTime": ago(3)}  # fmt: skip
    new = rset("new", 1, image="new", desired=1, revision=9, status={"conditions": [failure]})
    ran = Ran(deployment(1), [new])
    assert ran.condition("ReplicaFailure") == ("True", "FailedCreate", "quota")


def test_history_is_trimmed_when_complete() -> None:
    done = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}
    sets = [rset("r1", 0, revision=1), rset("r3", 0, revision=3), rset("r2", 0, revision=2),
            rset("r4", 0, revision=4, status={"replicas": 1}),
            rset("new", 1, image="new", desired=1, available=1, revision=9)]  # fmt: skip
    ran = Ran(deployment(1, revisionHistoryLimit=2, status=done), sets)
    assert ran.deleted == ["r1", "r2"]
    assert Ran(deployment(1, revisionHistoryLimit=2), sets).deleted == []


def test_collision_counts_and_changes_the_hash() -> None:
    stranger = rset("x", 1, image="other")
    ran = Ran(deployment(1), [], create=Answer(found=stranger, existed=True))
    assert ran.status is not None and ran.status["collisionCount"] == 1
    assert ran.verdict.retry
    assert template_hash(template("a"), None) != template_hash(template("a"), 1)
    ours = rset("x", 1, image="new")
    taken = Ran(deployment(1), [], create=Answer(found=ours, existed=True))
    assert not taken.verdict.retry


def test_refused_creation() -> None:
    subject = deployment(1, progressDeadlineSeconds=5)
    ran = Ran(subject, [], create=Answer(error="quota"))
    assert ran.verdict.retry and ran.events == ["ReplicaSetCreateError"]
    found = ran.condition("Progressing")
    assert found is not None and found[:2] == ("False", "ReplicaSetCreateError")


@pytest.mark.parametrize(
    ("to", "image", "reason"),
    [
        ("1", "old", "DeploymentRollback"),
        ("0", "old", "DeploymentRollback"),
        ("2", "new", "DeploymentRollbackTemplateUnchanged"),
        ("7", "new", "DeploymentRollbackRevisionNotFound"),
    ],
)
def test_rollback(to: str, image: str, reason: str) -> None:
    subject = deployment(1, annotations={"deprecated.deployment.rollback.to": to, REVISION: "2"})
    sets = [rset("a", 0, revision=1, age=9), rset("b", 1, image="new", revision=2, desired=1)]
    ran = Ran(subject, sets)
    assert ran.events == [reason]
    assert ran.deployment["spec"]["template"]["spec"] == template(image)["spec"]
    assert "deprecated.deployment.rollback.to" not in ran.deployment["metadata"]["annotations"]


def test_a_selector_for_everything_is_refused() -> None:
    subject = deployment(1)
    subject["spec"]["selector"] = {}
    ran = Ran(subject, [])
    assert ran.events == ["SelectingAll"] and ran.status == {"observedGeneration": 1}


def test_deployments_being_deleted_only_report() -> None:
    subject = deployment(5)
    subject["metadata"]["deletionTimestamp"] = ago(1)
    ran = Ran(subject, [rset("new", 1, image="new", desired=1, available=1, revision=9)])
    assert [type(s).__name__ for s in ran.steps] == ["WriteStatus"]


def test_templates_are_compared_by_meaning() -> None:
    one, other = template("a"), template("a")
    other["metadata"]["labels"]["pod-template-hash"] = "x"
    other["spec"]["volumes"] = []
    assert same_template(one, other)
    assert template_hash(one, None) == template_hash(template("a"), None)
    assert not same_template(one, template("b"))


def test_long_histories_lose_their_oldest_entries() -> None:
    one = rset("a", 1, revision=5)
    one["metadata"]["annotations"][REVISION_HISTORY] = ",".join(["1000"] * 400)
    found = with_revision_annotations(deployment(1), one, 6)
    assert found[REVISION_HISTORY].endswith(",5") and len(found[REVISION_HISTORY]) <= 2000


def test_size_of_a_recreated_set() -> None:
    assert new_set_size(deployment(4, strategy="Recreate"), [], 0) == 4


def test_claims() -> None:
    mine, orphan = rset("mine", 1), rset("orphan", 1)
    orphan["metadata"]["ownerReferences"] = []
    found = claim_sets(deployment(1), [mine, orphan])
    assert found.owned == (mine,) and [o for o, _ in found.adopt] == [orphan]
