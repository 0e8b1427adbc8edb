"""Stateful sets: order, partition, revisions, claims and their owners, status."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.statefulset import (
    Answer,
    Create,
    Delete,
    Emit,
    Together,
    Update,
    WriteStatus,
    claim_pods,
    sync_stateful_set,
)
from corral.cluster.workloads.statefulset.identity import (
    claim_owners,
    new_pod,
    ordinal,
    owners_are_right,
    parent_name,
)
from corral.cluster.workloads.steps import Failed
from corral.kube.types import Obj

NOW = datetime(2026, 3, 4, 12, 0, 0, tzinfo=UTC)
REV = "controller-revision-hash"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def stateful(replicas: int = 3, *, image: str = "v1", status: Any = None, partition: int = 0,
             policy: str = "OrderedReady", claims: bool = False, **spec: Any) -> Obj:  # fmt: skip
    full: Obj = {
        "replicas": replicas, "selector": {"matchLabels": {"app": "db"}}, "serviceName": "dbs",
        "podManagementPolicy": policy, "revisionHistoryLimit": 10,
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}},
        "template": {"metadata": {"labels": {"app": "db"}},
                     "spec": {"containers": [{"image": image}]}}, **spec,
    }  # fmt: skip
    if claims:
        full["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": {"x": 1}}]
    return {"metadata": {"name": "db", "namespace": "ns", "uid": "set", "generation": 1},
            "spec": full, "status": status or {}}  # fmt: skip


class World:
    """A stateful set with its pods, revisions and claims, as a server would keep them."""

    def __init__(self, subject: Obj) -> None:
        self.set = subject
        self.pods: dict[str, Obj] = {}
        self.revisions: dict[str, Obj] = {}
        self.claims: dict[str, Obj] = {}
        self.log: list[str] = []
        self.events: list[str] = []
        self.made = 0
        self.refuse: set[str] = set()

    def sync(self) -> Any:
        self.log = []
        passing = sync_stateful_set(
            copy.deepcopy(self.set), copy.deepcopy(list(self.pods.values())),
            list(self.revisions.values()), copy.deepcopy(self.claims), now=NOW,
        )  # fmt: skip
        answer: Answer | None = None
        while True:
            try:
                step = passing.send(answer) if answer else next(passing)
            except StopIteration as stop:
                return stop.value
            answer = self.answer(step)

    def together(self, parts: Any) -> Answer:
        for step, part in parts:
            try:
                while True:
                    step = part.send(self.answer(step))
            except StopIteration:
                continue
            except Failed as failure:
                return Answer(error=str(failure))
        return Answer()

    def store(self, body: Obj) -> dict[str, Obj]:
        return {"Pod": self.pods, "ControllerRevision": self.revisions}.get(
            body.get("kind", "Pod"), self.claims
        )

    def answer(self, step: Any) -> Answer:
        match step:
            case WriteStatus(status):
                self.set["status"] = copy.deepcopy(status)
                return Answer()
            case Emit(events):
                self.events += [e.reason for e in events]
                return Answer()
            case Together(parts):
                return self.together(parts)
            case Delete(_, obj):
                name = obj["metadata"]["name"]
                (self.pods if name in self.pods else self.revisions).pop(name)
                self.log.append(f"-{name}")
            case Create(body) | Update(body):
                name = body["metadata"]["name"]
                if name in self.refuse:
                    return Answer(error="no")
                new = copy.deepcopy(body)
                if isinstance(step, Create):
                    self.made += 1
                    new["metadata"]["uid"] = f"{name}-{self.made}"
                    self.log.append(f"+{name}")
                    if body["kind"] == "Pod":
                        new["status"] = {"phase": "Pending"}
                else:
                    self.log.append(f"~{name}")
                self.store(body)[name] = new
                self.events += [e.message for e in step.events]
                return Answer(found=new)
        return Answer()

    def ready(self, *names: str, since: float = 100) -> None:
        for name in names or tuple(self.pods):
            self.pods[name]["status"] = {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": ago(since)}]}  # fmt: skip

    def settle(self, limit: int = 40) -> list[str]:
        """Until nothing happens; every new pod becomes ready at once."""
        done: list[str] = []
        for _ in range(limit):
            self.sync()
            if not self.log:
                return done
            done += [entry for entry in self.log if "-" in entry[1:] and entry[1:4] == "db-"]
            self.ready()
        raise AssertionError(done)

    def pod_log(self) -> list[str]:
        return [e for e in self.log if len(e) < 7 and e[1:4] == "db-"]


def settled(subject: Obj) -> World:
    world = World(subject)
    world.settle()
    return world


def test_pods_start_one_after_the_other() -> None:
    world = World(stateful(3))
    world.sync()
    assert world.pod_log() == ["+db-0"]
    world.sync()
    assert world.pod_log() == []
    world.ready()
    world.sync()
    assert world.pod_log() == ["+db-1"]


def test_parallel_pods_start_together() -> None:
    world = World(stateful(3, policy="Parallel"))
    world.sync()
    assert world.pod_log() == ["+db-0", "+db-1", "+db-2"]


def test_scaling_down_goes_from_the_top() -> None:
    world = settled(stateful(3))
    world.set["spec"]["replicas"] = 1
    world.sync()
    assert world.pod_log() == ["-db-2"]
    world.sync()
    assert world.pod_log() == ["-db-1"]


def test_scaling_down_parallel() -> None:
    world = settled(stateful(3, policy="Parallel"))
    world.set["spec"]["replicas"] = 0
    world.sync()
    assert world.pod_log() == ["-db-2", "-db-1", "-db-0"]


def test_scaling_down_waits_for_an_unhealthy_pod_before() -> None:
    world = settled(stateful(3))
    world.set["spec"]["replicas"] = 2
    world.pods["db-0"]["status"] = {"phase": "Running"}
    world.sync()
    assert world.pod_log() == []


def test_the_first_unhealthy_condemned_pod_may_go() -> None:
    world = settled(stateful(3))
    world.set["spec"]["replicas"] = 1
    world.pods["db-1"]["status"] = {"phase": "Running"}
    world.pods["db-2"]["status"] = {"phase": "Running"}
    world.sync()
    assert world.pod_log() == []
    world.ready("db-2")
    world.sync()
    assert world.pod_log() == ["-db-2"]
    world.sync()
    assert world.pod_log() == ["-db-1"]


def test_start_ordinal() -> None:
    world = settled(stateful(2, ordinals={"start": 5}))
    assert sorted(world.pods) == ["db-5", "db-6"]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_ended_pods_are_replaced(phase: str) -> None:
    world = settled(stateful(2))
    world.pods["db-0"]["status"]["phase"] = phase
    world.sync()
    assert world.pod_log() == ["-db-0"]
    world.sync()
    assert world.pod_log() == ["+db-0"]


def updated(partition: int = 0, **spec: Any) -> World:
    world = settled(stateful(3, partition=partition, **spec))
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = "v2"
    return world


def images(world: World) -> list[str]:
    return [world.pods[n]["spec"]["containers"][0]["image"] for n in sorted(world.pods)]


def test_rolling_update_goes_from_the_top_one_at_a_time() -> None:
    world = updated()
    assert world.settle()[:6] == ["+db-" + world.set["status"]["updateRevision"][3:], "-db-2",
                                  "+db-2", "-db-1", "+db-1", "-db-0"]  # fmt: skip
    assert images(world) == ["v2", "v2", "v2"]
    status = world.set["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert status["currentReplicas"] == status["updatedReplicas"] == 3


def test_partition_keeps_the_lower_pods() -> None:
    world = updated(partition=2)
    world.settle()
    assert images(world) == ["v1", "v1", "v2"]
    assert world.set["status"]["currentReplicas"] == 2
    del world.pods["db-0"]
    world.settle()
    assert images(world) == ["v1", "v1", "v2"]


def test_on_delete_leaves_pods_alone() -> None:
    world = updated(updateStrategy={"type": "OnDelete"})
    world.settle()
    assert images(world) == ["v1", "v1", "v1"]
    del world.pods["db-1"]
    world.settle()
    assert images(world) == ["v1", "v2", "v1"]


@pytest.mark.parametrize(("value", "gone"), [(2, 2), ("67%", 2), ("10%", 1), (9, 3)])
def test_max_unavailable(value: Any, gone: int) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": value}}
    world = updated(updateStrategy=strategy, policy="Parallel")
    world.sync()
    assert len([e for e in world.pod_log() if e[0] == "-"]) == gone


def test_broken_outdated_pods_go_first_in_parallel() -> None:
    world = updated(policy="Parallel")
    world.pods["db-0"]["status"] = {"phase": "Running"}
    world.sync()
    assert world.pod_log() == ["-db-0"]


def test_going_back_reuses_the_revision() -> None:
    world = updated()
    world.settle()
    first = world.set["status"]["updateRevision"]
    world.set["spec"]["template"]["spec"]["containers"][0]["image"] = "v1"
    world.settle()
    assert len(world.revisions) == 2
    newest = max(world.revisions.values(), key=lambda r: r["revision"])
    assert newest["revision"] == 3 and newest["metadata"]["name"] != first


def test_history_limit() -> None:
    world = settled(stateful(1, revisionHistoryLimit=1))
    for image in ("v2", "v3", "v4"):
        world.set["spec"]["template"]["spec"]["containers"][0]["image"] = image
        world.settle()
    world.sync()  # the old revision was current until the status was written
    assert sorted(r["revision"] for r in world.revisions.values()) == [3, 4]


def test_revision_body_and_collision() -> None:
    subject = stateful(1)
    passing = sync_stateful_set(subject, [], [], {}, now=NOW)
    first = next(passing)
    assert isinstance(first, Create)
    assert first.body["revision"] == 1
    template = first.body["data"]["spec"]["template"]
    assert template == {**subject["spec"]["template"], "$patch": "replace"}
    labels = first.body["metadata"]["labels"]
    assert first.body["metadata"]["name"] == f"db-{labels['controller.kubernetes.io/hash']}"
    assert labels["app"] == "db"
    other = {**first.body, "data": {"spec": {"template": {}}}}
    second = passing.send(Answer(found=other, existed=True))
    assert isinstance(second, Create)
    assert second.body["metadata"]["name"] != first.body["metadata"]["name"]


def test_pod_body() -> None:
    body = new_pod(stateful(1, claims=True), 4, "db-abc")
    assert body["metadata"]["name"] == "db-4"
    assert body["metadata"]["labels"] == {
        "app": "db", "statefulset.kubernetes.io/pod-name": "db-4",
        "apps.kubernetes.io/pod-index": "4", REV: "db-abc"}  # fmt: skip
    assert (body["spec"]["hostname"], body["spec"]["subdomain"]) == ("db-4", "dbs")
    assert body["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-4"}}
    ]


def test_claims_are_made_before_pods_and_kept() -> None:
    world = World(stateful(1, claims=True))
    world.sync()
    assert world.log[1:] == ["+data-db-0", "+db-0"]
    assert world.claims["data-db-0"]["metadata"]["labels"] == {"app": "db"}
    assert "Create Claim data-db-0 Pod db-0 in StatefulSet db success" in world.events
    assert "Create Pod db-0 in StatefulSet db successful" in world.events
    world.ready()
    world.set["spec"]["replicas"] = 0
    world.settle()
    assert list(world.claims) == ["data-db-0"] and not world.pods


def test_a_claim_being_deleted_holds_the_pod() -> None:
    world = World(stateful(1, claims=True))
    world.claims["data-db-0"] = {"metadata": {"name": "data-db-0", "deletionTimestamp": ago(1)}}
    verdict = world.sync()
    assert verdict.retry and not world.pods and world.events == ["FailedCreate"]


RETAIN, DELETE = "Retain", "Delete"


@pytest.mark.parametrize(
    ("scaled", "deleted", "number", "owners"),
    [
        (RETAIN, RETAIN, 0, []),
        (RETAIN, DELETE, 0, ["set"]),
        (RETAIN, DELETE, 9, ["set"]),
        (DELETE, RETAIN, 0, []),
        (DELETE, RETAIN, 9, ["pod"]),
        (DELETE, DELETE, 0, ["set"]),
        (DELETE, DELETE, 9, ["pod"]),
    ],
)
def test_retention_policy(scaled: str, deleted: str, number: int, owners: list[str]) -> None:
    policy = {"whenScaled": scaled, "whenDeleted": deleted}
    subject = stateful(3, claims=True, persistentVolumeClaimRetentionPolicy=policy)
    pod = {"metadata": {"name": f"db-{number}", "uid": "pod"}}
    claim: Obj = {"metadata": {"name": "c"}}
    found = claim_owners(claim, subject, pod)
    assert [r["uid"] for r in found] == owners
    assert owners_are_right(claim, subject, pod) is (not owners)
    claim["metadata"]["ownerReferences"] = found
    assert owners_are_right(claim, subject, pod)
    claim["metadata"]["ownerReferences"] = [{"uid": "x", "controller": True, "kind": "Other"}]
    others = [r["uid"] for r in claim_owners(claim, subject, pod)]
    assert others == ["x"]  # somebody else decides about this claim


def test_claims_of_condemned_pods_get_their_owner_before_the_pod_goes() -> None:
    policy = {"whenScaled": DELETE, "whenDeleted": RETAIN}
    world = settled(stateful(2, claims=True, persistentVolumeClaimRetentionPolicy=policy))
    world.set["spec"]["replicas"] = 1
    world.sync()
    assert world.log == ["~data-db-1", "-db-1"]
    world.set["spec"]["replicas"] = 2
    world.sync()
    assert world.log == []  # the claim is about to go with the old pod


def test_lost_labels_come_back() -> None:
    world = settled(stateful(1))
    del world.pods["db-0"]["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"]
    world.sync()
    assert world.log == ["~db-0"]
    labels = world.pods["db-0"]["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-0"


def test_min_ready_seconds_delays_the_next_pod() -> None:
    world = World(stateful(2, minReadySeconds=30))
    world.sync()
    world.ready("db-0", since=10)
    verdict = world.sync()
    assert world.pod_log() == [] and verdict.requeue_after == 20
    assert world.set["status"]["readyReplicas"] == 1
    assert world.set["status"]["availableReplicas"] == 0


def test_status_of_a_settled_set() -> None:
    world = settled(stateful(2))
    name = next(iter(world.revisions))
    assert world.set["status"] == {
        "replicas": 2, "readyReplicas": 2, "availableReplicas": 2, "currentReplicas": 2,
        "updatedReplicas": 2, "observedGeneration": 1, "currentRevision": name,
        "updateRevision": name, "collisionCount": 0}  # fmt: skip


def test_a_set_being_deleted_is_left_alone() -> None:
    world = settled(stateful(2))
    world.set["metadata"]["deletionTimestamp"] = ago(1)
    del world.pods["db-0"]
    world.sync()
    assert world.log == [] and world.set["status"]["replicas"] == 1


def test_refused_pods_are_retried_and_the_status_is_written() -> None:
    world = World(stateful(1))
    world.refuse = {"db-0"}
    verdict = world.sync()
    assert verdict.retry and "FailedCreate" in world.events and world.set["status"]


@pytest.mark.parametrize(
    ("name", "parent", "number"),
    [("db-0", "db", 0), ("a-b-12", "a-b", 12), ("db", "", -1), ("db-x", "", -1)],
)
def test_names(name: str, parent: str, number: int) -> None:
    pod = {"metadata": {"name": name}}
    assert (parent_name(pod), ordinal(pod)) == (parent, number)


def test_only_pods_of_this_name_are_claimed() -> None:
    pods = [{"metadata": {"name": n, "namespace": "ns", "uid": n, "labels": {"app": "db"}}}
            for n in ("db-0", "other-0")]  # fmt: skip
    assert [p["metadata"]["name"] for p, _ in claim_pods(stateful(), pods).adopt] == ["db-0"]
