"""Deployments at work: the same with our controllers and with kube-controller-manager."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.cluster.apps.builders import (
    Apps,
    condition,
    deployment,
    image,
    names,
    revision,
    template,
    workload,
)
from tests.cluster.objects import Obj, eventually


def rolling(surge: Any, unavailable: Any) -> Obj:
    limits = {"maxSurge": surge, "maxUnavailable": unavailable}
    return {"type": "RollingUpdate", "rollingUpdate": limits}


def image_of(pod: Obj) -> str:
    found: str = pod["spec"]["containers"][0]["image"].rpartition(":")[2]
    return found


def new_not_ready(pod: Obj) -> str:
    return "ready" if image_of(pod) == "1" else "running"


def scale(apps: Apps, name: str, replicas: int) -> None:
    apps.patch("deployments", name, {"spec": {"replicas": replicas}}, subresource="scale")


# --- creation and scaling ------------------------------------------------------------------------


def test_creates_its_pods_and_says_so(apps: Apps) -> None:
    apps.create(deployment(replicas=3))
    done = apps.complete("web", 3)
    assert condition(done, "Available") == ("True", "MinimumReplicasAvailable")
    assert condition(done, "Progressing") == ("True", "NewReplicaSetAvailable")
    assert revision(done) == 1
    assert done["status"]["readyReplicas"] == 3
    assert done["status"]["terminatingReplicas"] == 0
    [one] = apps.sets()
    assert one["status"]["replicas"] == one["status"]["fullyLabeledReplicas"] == 3
    assert one["metadata"]["ownerReferences"][0]["uid"] == done["metadata"]["uid"]
    short = one["metadata"]["labels"]["pod-template-hash"]
    for pod in apps.pods():
        assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": short}
        assert pod["metadata"]["generateName"] == f"web-{short}-"
    scaled = f"Scaled up replica set {names([one])[0]} from 0 to 3"
    said = [("Normal", "ScalingReplicaSet", scaled)]
    eventually(lambda: apps.events("Deployment", "web") == said)
    made = [("Normal", "SuccessfulCreate", f"Created pod: {name}") for name in names(apps.pods())]
    eventually(lambda: sorted(apps.events("ReplicaSet", names([one])[0])) == made)


def test_scales_up_and_down(apps: Apps) -> None:
    apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    scale(apps, "web", 5)
    apps.complete("web", 5)
    first = set(names(apps.live_pods()))
    scale(apps, "web", 1)
    apps.complete("web", 1)
    [left] = eventually(lambda: apps.pods() if len(apps.pods()) == 1 else None) or ()
    assert left["metadata"]["name"] in first
    scale(apps, "web", 0)
    apps.status("deployments", "web", replicas=0, availableReplicas=0)
    [one] = apps.sets()
    sizes = [" from 0 to 2", " from 2 to 5", " from 5 to 1", " from 1 to 0"]
    eventually(lambda: changes(apps, one) == sizes)
    assert revision(apps.get("deployments", "web")) == 1


def changes(apps: Apps, replica_set: Obj) -> list[str]:
    """What is said about the size of a set."""
    name = replica_set["metadata"]["name"]
    return [event[2].partition(name)[2] for event in apps.events("Deployment", "web")]


def test_replaces_pods_that_fail_or_are_deleted(apps: Apps) -> None:
    apps.create(deployment(replicas=3))
    apps.complete("web", 3)
    failed, deleted, kept = names(apps.pods())
    apps.player.play(lambda pod: "failed" if pod["metadata"]["name"] == failed else "ready")
    apps.objects.delete("v1", "pods", deleted)

    def replaced() -> bool:
        ready = [p for p in apps.live_pods() if p["status"]["phase"] == "Running"]
        return len(ready) == 3 and kept in names(ready) and deleted not in names(ready)

    eventually(replaced)
    apps.complete("web", 3)
    assert apps.get("pods", failed)["status"]["phase"] == "Failed"


def test_waits_for_min_ready_seconds(apps: Apps) -> None:
    apps.create(deployment(replicas=2, minReadySeconds=3))
    early = apps.status("deployments", "web", readyReplicas=2)
    assert early["status"].get("availableReplicas", 0) == 0
    assert condition(early, "Available") == ("False", "MinimumReplicasUnavailable")
    apps.complete("web", 2)
    assert apps.sets()[0]["spec"]["minReadySeconds"] == 3


def test_says_why_pods_cannot_be_made(apps: Apps) -> None:
    pod = template("web", serviceAccountName="absent")
    apps.create(workload("Deployment", "web", pod, replicas=2))
    stuck = apps.until("deployments", "web", lambda d: condition(d, "ReplicaFailure")[0])
    assert condition(stuck, "ReplicaFailure") == ("True", "FailedCreate")
    [one] = apps.sets()
    assert condition(one, "ReplicaFailure") == ("True", "FailedCreate")
    said = eventually(lambda: apps.events("ReplicaSet", names([one])[0]))
    assert {event[1] for event in said} == {"FailedCreate"}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "absent"}}
    apps.objects.create("serviceaccounts", account)
    done = apps.complete("web", 2, seconds=60)
    assert condition(done, "ReplicaFailure") == ("", "")


# --- rollouts ------------------------------------------------------------------------------------


def test_rolls_out_a_new_template(apps: Apps) -> None:
    apps.create(deployment(replicas=4))
    apps.complete("web", 4)
    apps.patch("deployments", "web", image("2"))
    done = apps.complete("web", 4)
    assert revision(done) == 2
    assert apps.sizes() == [0, 4]
    assert {image_of(pod) for pod in apps.live_pods()} == {"2"}
    old, new = names(apps.sets())

    def said() -> list[str]:
        return [event[2] for event in apps.events("Deployment", "web")]

    # how many go at once depends on how quickly the new ones are ready
    last = re.compile(rf"Scaled down replica set {old} from [1-4] to 0")
    eventually(lambda: any(map(last.fullmatch, said())))
    messages = said()
    assert messages[0] == f"Scaled up replica set {old} from 0 to 4"
    assert any(message.startswith(f"Scaled up replica set {new}") for message in messages)


@pytest.mark.parametrize(
    ("surge", "unavailable", "most", "least"),
    [(2, 1, 8, 5), (0, 2, 6, 4), ("50%", 0, 9, 6), (1, "34%", 7, 4)],
)
def test_never_leaves_its_limits(
    apps: Apps, surge: Any, unavailable: Any, most: int, least: int
) -> None:
    apps.create(deployment(replicas=6, strategy=rolling(surge, unavailable)))
    apps.complete("web", 6)
    start = len(apps.player.seen)
    alive = {pod["metadata"]["name"]: pod for pod in apps.pods()}
    apps.patch("deployments", "web", image("2"))
    apps.complete("web", 6)
    assert any(kind == "DELETED" for kind, _ in apps.player.seen[start:])
    seen = list(apps.player.seen[start:])
    for at, (kind, pod) in enumerate(seen):
        name = pod["metadata"]["name"]
        if is_going(kind, pod):
            alive.pop(name, None)
        else:
            alive[name] = pod
        ready = [p for p in alive.values() if condition_status(p, "Ready") == "True"]
        # the set that grows may be quicker than the one that shrinks, which was told so before
        soon = {
            later["metadata"]["name"] for how, later in seen[at : at + 8] if is_going(how, later)
        }
        assert len(alive.keys() - soon) <= most
        assert len(ready) >= least


def is_going(kind: str, pod: Obj) -> bool:
    return kind == "DELETED" or bool(pod["metadata"].get("deletionTimestamp"))


def condition_status(pod: Obj, kind: str) -> str:
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((c["status"] for c in found if c["type"] == kind), "")


def test_recreate_waits_until_all_old_pods_are_gone(apps: Apps) -> None:
    apps.create(deployment(replicas=3, strategy={"type": "Recreate"}))
    apps.complete("web", 3)
    apps.player.hold_deleted(True)
    apps.patch("deployments", "web", image("2"))
    going = apps.status("deployments", "web", replicas=0, terminatingReplicas=3)
    assert going["status"].get("updatedReplicas", 0) == 0
    assert apps.sizes() == [0]
    apps.player.hold_deleted(False)
    apps.complete("web", 3)
    assert apps.sizes() == [0, 3]
    new_seen = [pod for kind, pod in apps.player.seen if kind == "ADDED" and image_of(pod) == "2"]
    last_gone = max(at for at, (kind, _) in enumerate(apps.player.seen) if kind == "DELETED")
    first_new = next(
        at for at, (kind, pod) in enumerate(apps.player.seen)
        if kind == "ADDED" and image_of(pod) == "2"
    )  # fmt: skip
    assert len(new_seen) == 3
    assert first_new > last_gone


def test_old_templates_come_back_under_their_old_set(apps: Apps) -> None:
    apps.create(deployment(replicas=1))
    apps.complete("web", 1)
    [first] = names(apps.sets())
    apps.patch("deployments", "web", image("2"))
    apps.complete("web", 1)
    apps.patch("deployments", "web", image("1"))
    apps.until("deployments", "web", lambda d: revision(d) == 3)
    apps.complete("web", 1)
    newest = apps.sets()[-1]
    assert newest["metadata"]["name"] == first
    annotations = newest["metadata"]["annotations"]
    assert annotations["deployment.kubernetes.io/revision"] == "3"
    assert annotations["deployment.kubernetes.io/revision-history"] == "1"


def test_keeps_as_many_old_sets_as_it_may(apps: Apps) -> None:
    apps.create(deployment(replicas=1, revisionHistoryLimit=2))
    apps.complete("web", 1)
    for version in "2345":
        apps.patch("deployments", "web", image(version))
        apps.until("deployments", "web", lambda d, v=int(version): revision(d) == v)
        apps.complete("web", 1)
    eventually(lambda: [revision(one) for one in apps.sets()] == [3, 4, 5])


def test_misses_its_deadline_and_recovers(apps: Apps) -> None:
    apps.create(deployment(replicas=2, progressDeadlineSeconds=2))
    apps.complete("web", 2)
    apps.player.play(new_not_ready)
    apps.patch("deployments", "web", image("2"))
    late = apps.until(
        "deployments", "web", lambda d: condition(d, "Progressing")[0] == "False", seconds=60
    )
    assert condition(late, "Progressing") == ("False", "ProgressDeadlineExceeded")
    assert condition(late, "Available") == ("True", "MinimumReplicasAvailable")
    new = apps.sets()[-1]["metadata"]["name"]
    [said] = [c for c in late["status"]["conditions"] if c["type"] == "Progressing"]
    assert said["message"] == f'ReplicaSet "{new}" has timed out progressing.'
    apps.player.play("ready")
    done = apps.complete("web", 2)
    done = apps.until("deployments", "web", lambda d: condition(d, "Progressing")[0] == "True")
    assert condition(done, "Progressing") == ("True", "NewReplicaSetAvailable")


def test_scales_in_proportion_amid_a_rollout(apps: Apps) -> None:
    apps.create(deployment(replicas=10, strategy=rolling(3, 2)))
    apps.complete("web", 10)
    apps.player.play(new_not_ready)
    apps.patch("deployments", "web", image("2"))
    eventually(lambda: apps.sizes() == [8, 5])
    apps.status("deployments", "web", replicas=13, updatedReplicas=5, availableReplicas=8)
    scale(apps, "web", 15)
    eventually(lambda: apps.sizes() == [11, 7])
    apps.status("deployments", "web", replicas=18, updatedReplicas=7)
    scale(apps, "web", 5)
    eventually(lambda: sum(apps.sizes()) == 8)
    apps.player.play("ready")
    apps.complete("web", 5)
    eventually(lambda: apps.sizes() == [0, 5])


def test_paused_it_scales_but_does_not_roll(apps: Apps) -> None:
    apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    apps.patch("deployments", "web", {"spec": {"paused": True}})
    apps.until("deployments", "web", lambda d: condition(d, "Progressing")[1] == "DeploymentPaused")
    apps.patch("deployments", "web", image("2"))
    scale(apps, "web", 4)
    apps.status("deployments", "web", replicas=4, availableReplicas=4)
    assert apps.sizes() == [4]
    apps.patch("deployments", "web", {"spec": {"paused": False}})
    apps.complete("web", 4)
    assert apps.sizes() == [0, 4]


def test_takes_another_name_when_its_hash_is_taken(apps: Apps) -> None:
    apps.create(deployment(replicas=1))
    apps.complete("web", 1)
    [one] = names(apps.sets())
    apps.objects.delete("apps/v1", "deployments", "web")
    eventually(lambda: not apps.sets() and not apps.pods())
    apps.create(workload("ReplicaSet", "other", replicas=0) | {"metadata": {"name": one}})
    apps.create(deployment(replicas=1))
    done = apps.complete("web", 1)
    assert done["status"]["collisionCount"] == 1
    assert len(apps.sets()) == 2


# --- belonging -----------------------------------------------------------------------------------


def delete(apps: Apps, plural: str, name: str, policy: str) -> None:
    path = apps.objects.path("apps/v1", plural, name)
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": policy}
    assert apps.objects.backend.request("DELETE", path, body).code in (200, 202)


def test_orphans_are_adopted_again(apps: Apps) -> None:
    apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    pods, sets = names(apps.pods()), names(apps.sets())
    delete(apps, "deployments", "web", "Orphan")
    eventually(lambda: apps.objects.find("apps/v1", "deployments", "web") is None)
    assert "ownerReferences" not in apps.sets()[0]["metadata"]
    second = apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    assert names(apps.sets()) == sets
    assert names(apps.pods()) == pods
    [owner] = apps.sets()[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == second["metadata"]["uid"]
    assert owner["controller"] and owner["blockOwnerDeletion"]


def test_a_set_that_no_longer_matches_is_let_go(apps: Apps) -> None:
    apps.create(deployment(replicas=1))
    apps.complete("web", 1)
    [old] = names(apps.sets())
    apps.patch("replicasets", old, {"metadata": {"labels": {"app": "gone"}}})
    eventually(lambda: "ownerReferences" not in apps.get("replicasets", old)["metadata"])
    eventually(lambda: len(apps.sets()) == 2 or len(apps.pods()) >= 1)


def test_goes_in_the_foreground_after_its_pods(apps: Apps) -> None:
    apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    apps.player.hold_deleted(True)
    delete(apps, "deployments", "web", "Foreground")
    eventually(lambda: not apps.live_pods())
    assert apps.get("deployments", "web")["metadata"]["deletionTimestamp"]
    assert len(apps.pods()) == 2
    apps.player.hold_deleted(False)
    eventually(lambda: apps.objects.find("apps/v1", "deployments", "web") is None)
    assert not apps.pods() and not apps.sets()


def test_goes_in_the_background_before_its_pods(apps: Apps) -> None:
    apps.create(deployment(replicas=2))
    apps.complete("web", 2)
    apps.player.hold_deleted(True)
    delete(apps, "deployments", "web", "Background")
    eventually(lambda: apps.objects.find("apps/v1", "deployments", "web") is None)
    eventually(lambda: not apps.sets() and not apps.live_pods())
    assert len(apps.pods()) == 2
    apps.player.hold_deleted(False)
    eventually(lambda: not apps.pods())


def test_status_writes_keep_the_revision_annotation(apps: Apps) -> None:
    """The revision is an annotation that travels with a write to the status."""
    apps.create(deployment(replicas=0))
    apps.until("deployments", "web", lambda d: revision(d) == 1)
    found = apps.get("deployments", "web")
    found["metadata"]["annotations"]["mine"] = "yes"
    path = apps.objects.path("apps/v1", "deployments", "web")
    reply = apps.objects.backend.request("PUT", f"{path}/status", found)
    assert reply.code in (200, 409)
    if reply.code == 200:
        assert reply.json()["metadata"]["annotations"]["mine"] == "yes"
