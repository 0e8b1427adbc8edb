"""Daemon sets at work: nodes that come, go and change, and updates, on every backend."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.apps.builders import Apps, image, names, template, workload
from tests.cluster.apps.conftest import MakeNode
from tests.cluster.objects import Obj, Objects, eventually


@pytest.fixture
def daemon(unique: str) -> Any:
    """Daemon sets for the nodes of the case alone, those with ``role: worker``."""

    def make(**options: Any) -> Obj:
        pod_spec = options.pop("pod_spec", {})
        selector = {"case": unique, "role": "worker"}
        pod = template("agent", nodeSelector=selector, **pod_spec)
        return workload("DaemonSet", "agent", pod, **options)

    return make


def settled(apps: Apps, nodes: int, **counts: int) -> Obj:
    return apps.status(
        "daemonsets", "agent", desiredNumberScheduled=nodes, currentNumberScheduled=nodes,
        numberReady=nodes, numberAvailable=nodes, updatedNumberScheduled=nodes,
        numberUnavailable=0, **counts,
    )  # fmt: skip


def placed(apps: Apps) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in apps.live_pods())


def versions(apps: Apps) -> list[str]:
    found = (pod["spec"]["containers"][0]["image"] for pod in apps.live_pods())
    return sorted(image.rpartition(":")[2] for image in found)


def rolling(**limits: Any) -> Obj:
    return {"type": "RollingUpdate", "rollingUpdate": limits}


# --- nodes ---------------------------------------------------------------------------------------


def test_one_pod_on_every_node_it_selects(apps: Apps, make_node: MakeNode, daemon: Any) -> None:
    one, two = make_node("one", role="worker"), make_node("two", role="worker")
    make_node("three", role="other")
    apps.create(daemon())
    settled(apps, 2, numberMisscheduled=0)
    assert placed(apps) == sorted([one, two])
    [revision] = apps.items("controllerrevisions")
    for pod in apps.pods():
        labels = pod["metadata"]["labels"]
        assert (
            labels["controller-revision-hash"]
            == (revision["metadata"]["labels"]["controller-revision-hash"])
        )
        assert labels["pod-template-generation"] == "1"
        keys = {t["key"] for t in pod["spec"]["tolerations"]}
        assert {f"node.kubernetes.io/{k}" for k in (
            "not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure",
            "unschedulable")} <= keys  # fmt: skip
    made = [("Normal", "SuccessfulCreate", f"Created pod: {name}") for name in names(apps.pods())]
    eventually(lambda: sorted(apps.events("DaemonSet", "agent")) == made)


def test_follows_nodes(apps: Apps, cluster: Objects, make_node: MakeNode, daemon: Any) -> None:
    one = make_node("one", role="worker")
    apps.create(daemon())
    settled(apps, 1)
    two = make_node("two", role="worker")
    settled(apps, 2)
    assert placed(apps) == sorted([one, two])
    cluster.patch("v1", "nodes", one, {"metadata": {"labels": {"role": "none"}}})
    settled(apps, 1)
    eventually(lambda: placed(apps) == [two])
    cluster.patch("v1", "nodes", one, {"metadata": {"labels": {"role": "worker"}}})
    settled(apps, 2)


def test_taints_keep_pods_away(
    apps: Apps, cluster: Objects, make_node: MakeNode, daemon: Any
) -> None:
    one = make_node("one", role="worker")
    two = make_node("two", taints=[{"key": "mine", "effect": "NoSchedule"}], role="worker")
    apps.create(daemon())
    settled(apps, 1)
    assert placed(apps) == [one]
    # No new pod on a node with NoSchedule, but one that is there stays, and is said to be amiss.
    cluster.patch("v1", "nodes", one, {"spec": {"taints": [{"key": "m", "effect": "NoSchedule"}]}})
    cluster.patch("v1", "nodes", two, {"spec": {"taints": []}})
    apps.status("daemonsets", "agent", desiredNumberScheduled=1, numberMisscheduled=1,
                numberAvailable=1)  # fmt: skip
    assert placed(apps) == sorted([one, two])
    cluster.patch("v1", "nodes", one, {"spec": {"taints": [{"key": "m", "effect": "NoExecute"}]}})
    settled(apps, 1, numberMisscheduled=0)
    eventually(lambda: placed(apps) == [two])


def test_tolerated_taints_do_not_matter(apps: Apps, make_node: MakeNode, daemon: Any) -> None:
    one = make_node("one", taints=[{"key": "mine", "effect": "NoExecute"}], role="worker")
    tolerations = [{"key": "mine", "operator": "Exists"}]
    apps.create(daemon(pod_spec={"tolerations": tolerations}))
    settled(apps, 1)
    assert placed(apps) == [one]


def test_failed_pods_are_replaced(apps: Apps, make_node: MakeNode, daemon: Any) -> None:
    make_node("one", role="worker")
    apps.create(daemon())
    settled(apps, 1)
    [pod] = apps.pods()
    broken = pod["metadata"]["name"]
    apps.player.play(lambda pod: "failed" if pod["metadata"]["name"] == broken else "ready")
    eventually(lambda: apps.pods() and broken not in names(apps.pods()))
    settled(apps, 1)
    events = apps.events("DaemonSet", "agent")
    [(_, _, message)] = [event for event in events if event[1] == "FailedDaemonPod"]
    assert message.startswith(f"Found failed daemon pod {apps.objects.namespace}/{broken} on node")


# --- updates -------------------------------------------------------------------------------------


def watch_counts(apps: Apps, start: int, alive: dict[str, Obj]) -> tuple[int, int]:
    """(most pods at a time, fewest ready ones) since an event."""
    most, least = 0, len(alive)
    for kind, pod in list(apps.player.seen[start:]):
        name = pod["metadata"]["name"]
        if kind == "DELETED" or pod["metadata"].get("deletionTimestamp"):
            alive.pop(name, None)
        else:
            alive[name] = pod
        conditions = [c for p in alive.values() for c in p.get("status", {}).get("conditions", ())]
        ready = sum(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
        most, least = max(most, len(alive)), min(least, ready)
    return most, least


@pytest.mark.parametrize(
    ("strategy", "most", "least"),
    [(rolling(maxUnavailable=1), 4, 3), (rolling(maxUnavailable="50%"), 4, 2),
     (rolling(maxSurge=1, maxUnavailable=0), 5, 4)],
    ids=["one", "half", "surge"],
)  # fmt: skip
def test_rolls_within_its_limits(
    apps: Apps, make_node: MakeNode, daemon: Any, strategy: Obj, most: int, least: int
) -> None:
    for number in range(4):
        make_node(f"n{number}", role="worker")
    apps.create(daemon(updateStrategy=strategy))
    settled(apps, 4)
    start, alive = len(apps.player.seen), {p["metadata"]["name"]: p for p in apps.pods()}
    apps.patch("daemonsets", "agent", image("2"))
    settled(apps, 4)
    assert versions(apps) == ["2"] * 4
    found = watch_counts(apps, start, alive)
    assert found[0] <= most
    assert found[1] >= least


def test_on_delete_waits_for_a_hand(apps: Apps, make_node: MakeNode, daemon: Any) -> None:
    make_node("one", role="worker")
    make_node("two", role="worker")
    apps.create(daemon(updateStrategy={"type": "OnDelete"}))
    settled(apps, 2)
    apps.patch("daemonsets", "agent", image("2"))
    apps.status("daemonsets", "agent", updatedNumberScheduled=0, numberAvailable=2)
    assert versions(apps) == ["1", "1"]
    apps.objects.delete("v1", "pods", names(apps.pods())[0])
    apps.status("daemonsets", "agent", updatedNumberScheduled=1, numberAvailable=2)
    assert versions(apps) == ["1", "2"]


def test_min_ready_seconds_hold_the_next_back(apps: Apps, make_node: MakeNode, daemon: Any) -> None:
    make_node("one", role="worker")
    apps.create(daemon(minReadySeconds=2))
    early = apps.status("daemonsets", "agent", numberReady=1)
    assert early["status"]["numberUnavailable"] == 1
    settled(apps, 1)


def test_keeps_as_many_revisions_as_it_may(apps: Apps, make_node: MakeNode, daemon: Any) -> None:
    make_node("one", role="worker")
    apps.create(daemon(revisionHistoryLimit=1))
    settled(apps, 1)
    for version in "234":
        apps.patch("daemonsets", "agent", image(version))
        settled(apps, 1)
    eventually(
        lambda: sorted(one["revision"] for one in apps.items("controllerrevisions")) == [3, 4]
    )


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
def test_is_deleted_as_asked(apps: Apps, make_node: MakeNode, daemon: Any, policy: str) -> None:
    make_node("one", role="worker")
    apps.create(daemon())
    settled(apps, 1)
    path = apps.objects.path("apps/v1", "daemonsets", "agent")
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
    assert apps.objects.backend.request("DELETE", path, body).code in (200, 202)
    eventually(lambda: apps.objects.find("apps/v1", "daemonsets", "agent") is None)
    if policy != "Orphan":
        eventually(lambda: not apps.pods() and not apps.items("controllerrevisions"))
        return
    [left] = apps.pods()
    apps.create(daemon())
    settled(apps, 1)
    assert names(apps.pods()) == names([left])
