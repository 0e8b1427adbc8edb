"""Whole lives of workloads, picture by picture as kube-controller-manager lives them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tests.cluster.apps.builders import Apps, deployment, image, template, workload
from tests.cluster.apps.conftest import MakeNode
from tests.cluster.apps.story import Story
from tests.cluster.objects import Obj, eventually


@contextmanager
def told(apps: Apps, plural: str, name: str, title: str) -> Iterator[Story]:
    story = Story(apps, plural, name).open(title)
    yield story
    story.close()


class Nursery:
    """A rule: pods become ready one at a time, when told."""

    def __init__(self, apps: Apps) -> None:
        self._apps = apps
        self._grown: set[str] = set()
        apps.player.play(self.rule)

    def rule(self, pod: Obj) -> str:
        return "ready" if pod["metadata"]["name"] in self._grown else "pending"

    def grow(self, count: int = 1) -> None:
        young = [p for p in self._apps.live_pods() if p["metadata"]["name"] not in self._grown]
        assert len(young) >= count
        self._grown |= {pod["metadata"]["name"] for pod in young[:count]}
        self._apps.player.play(self.rule)

    def shrink(self) -> None:
        """What was ready is not any more."""
        self._grown.clear()
        self._apps.player.play(lambda pod: "running")


def rolling(surge: Any, unavailable: Any) -> Obj:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def test_a_deployment_rolled_pod_by_pod(apps: Apps) -> None:
    nursery = Nursery(apps)
    with told(apps, "deployments", "web", "rolling") as story:
        apps.create(deployment(replicas=2, strategy=rolling(1, 0)))
        story.step("created")
        nursery.grow()
        story.step("one pod is ready")
        nursery.grow()
        story.step("both are ready")
        apps.patch("deployments", "web", image("2"))
        story.step("new template")
        nursery.grow()
        story.step("the first new pod is ready")
        nursery.grow()
        story.step("the second new pod is ready")
        apps.patch("deployments", "web", image("1"))
        story.step("the old template again")
        nursery.grow()
        nursery_step(apps, nursery, story)


def nursery_step(apps: Apps, nursery: Nursery, story: Story) -> None:
    story.step("the first of them is ready")
    nursery.grow()
    story.step("all are ready")
    apps.patch("deployments", "web", {"spec": {"paused": True}})
    story.step("paused")
    apps.patch("deployments", "web", image("3"))
    story.step("a template while paused")
    apps.patch("deployments", "web", {"spec": {"replicas": 3}})
    story.step("scaled while paused")
    apps.patch("deployments", "web", {"spec": {"paused": False}})
    story.step("resumed")


def test_a_deployment_scaled_amid_a_rollout(apps: Apps) -> None:
    nursery = Nursery(apps)
    with told(apps, "deployments", "web", "proportional") as story:
        apps.create(deployment(replicas=10, strategy=rolling(3, 2)))
        apps.status("deployments", "web", replicas=10)
        nursery.grow(10)
        apps.complete("web", 10)
        next_second(apps)
        apps.patch("deployments", "web", image("2"))
        story.step("new template")
        apps.patch("deployments", "web", {"spec": {"replicas": 20}})
        story.step("doubled")
        next_second(apps)
        apps.patch("deployments", "web", image("3"))
        story.step("another template amid the rollout")
        apps.patch("deployments", "web", {"spec": {"replicas": 4}})
        story.step("shrunk")


def next_second(apps: Apps) -> None:
    """Sets that are made in the same second have no age, and are sorted by their random names."""
    newest = max(one["metadata"]["creationTimestamp"] for one in apps.sets())
    eventually(lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") > newest)


def test_a_deployment_made_anew(apps: Apps) -> None:
    nursery = Nursery(apps)
    with told(apps, "deployments", "web", "recreate") as story:
        apps.create(deployment(replicas=2, strategy={"type": "Recreate"}))
        apps.status("deployments", "web", replicas=2)
        nursery.grow(2)
        story.step("ready")
        apps.player.hold_deleted(True)
        apps.patch("deployments", "web", image("2"))
        story.step("new template, old pods are going")
        apps.player.hold_deleted(False)
        story.step("old pods are gone")
        nursery.grow(2)
        story.step("new pods are ready")
        nursery.shrink()
        story.step("new pods are not ready any more")


def test_a_deployment_that_is_late(apps: Apps) -> None:
    nursery = Nursery(apps)
    with told(apps, "deployments", "web", "deadline") as story:
        apps.create(deployment(replicas=1, progressDeadlineSeconds=1, minReadySeconds=0))
        apps.until(
            "deployments",
            "web",
            lambda d: any(
                c["reason"] == "ProgressDeadlineExceeded" for c in d["status"].get("conditions", ())
            ),
        )
        story.step("late")
        apps.patch("deployments", "web", image("2"))
        story.step("another template while late")
        nursery.grow()
        story.step("the old one is ready after all")


def test_a_stateful_set_pod_by_pod(apps: Apps) -> None:
    nursery = Nursery(apps)
    body = workload("StatefulSet", "db", template("db"), replicas=2, serviceName="db")
    body["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    with told(apps, "statefulsets", "db", "stateful") as story:
        apps.create(body)
        story.step("created")
        nursery.grow()
        story.step("the first pod is ready")
        nursery.grow()
        story.step("both are ready")
        nursery_of_sets(apps, story)


def nursery_of_sets(apps: Apps, story: Story) -> None:
    apps.player.play("running")
    story.step("neither is ready")
    apps.player.play("ready")
    story.step("both are ready again")
    apps.patch("statefulsets", "db", image("2"))
    story.step("new template above the partition")
    strategy = {"rollingUpdate": {"partition": 0}}
    apps.patch("statefulsets", "db", {"spec": {"updateStrategy": strategy}})
    story.step("no partition")
    apps.player.hold_deleted(True)
    apps.patch("statefulsets", "db", {"spec": {"replicas": 0}})
    story.step("scaled to nothing, the last pod is going")
    apps.player.hold_deleted(False)
    story.step("nothing is left")


def test_a_daemon_set_node_by_node(apps: Apps, make_node: MakeNode, unique: str) -> None:
    for name in ("one", "two"):
        make_node(name, role="worker")
    nursery = Nursery(apps)
    pod = template("agent", nodeSelector={"case": unique, "role": "worker"})
    with told(apps, "daemonsets", "agent", "daemon") as story:
        apps.create(workload("DaemonSet", "agent", pod))
        story.step("created")
        nursery.grow()
        story.step("one pod is ready")
        nursery.grow()
        story.step("both are ready")
        apps.patch("daemonsets", "agent", image("2"))
        story.step("new template")
        nursery.grow()
        story.step("the first new pod is ready")
        nursery.grow()
        story.step("the second new pod is ready")
        make_node("three", role="worker")
        story.step("a third node")
