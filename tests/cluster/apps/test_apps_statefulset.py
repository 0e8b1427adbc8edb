"""Stateful sets at work: names, order, claims and updates, on every backend."""

from __future__ import annotations

from typing import Any

from tests.cluster.apps.builders import Apps, image, names, template, workload
from tests.cluster.objects import Obj, eventually


def stateful(replicas: int = 3, *, claims: bool = False, **spec: Any) -> Obj:
    body = workload(
        "StatefulSet", "db", template("db"), replicas=replicas, serviceName="db", **spec
    )
    if claims:
        body["spec"]["volumeClaimTemplates"] = [
            {
                "metadata": {"name": "data"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "none",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            }
        ]
    return body


def rolling(**options: Any) -> Obj:
    return {"type": "RollingUpdate", "rollingUpdate": options}


def ready(apps: Apps, replicas: int, **counts: int) -> Obj:
    return apps.status("statefulsets", "db", replicas=replicas, readyReplicas=replicas,
                       availableReplicas=replicas, **counts)  # fmt: skip


def updated(apps: Apps, replicas: int) -> Obj:
    """Wait for the end of an update."""
    return apps.until(
        "statefulsets",
        "db",
        lambda s: (
            s["status"].get("currentRevision") == s["status"].get("updateRevision")
            and s["status"].get("observedGeneration") == s["metadata"]["generation"]
            and s["status"].get("readyReplicas", 0) == replicas
            and s["status"].get("updatedReplicas", 0) == replicas
        ),
    )


def only(*ordinals: int) -> Any:
    """A rule under which these become ready and others wait."""
    return lambda pod: "ready" if ordinal(pod) in ordinals else "pending"


def ordinal(pod: Obj) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def story(apps: Apps) -> list[str]:
    """Pods as they came and went."""
    signs = {"ADDED": "+", "DELETED": "-"}
    return [f"{signs[kind]}{ordinal(pod)}" for kind, pod in apps.player.seen if kind in signs]


def versions(apps: Apps) -> list[str]:
    found = sorted(apps.live_pods(), key=ordinal)
    return [pod["spec"]["containers"][0]["image"].rpartition(":")[2] for pod in found]


# --- order ---------------------------------------------------------------------------------------


def test_starts_in_order_and_ends_in_reverse(apps: Apps) -> None:
    apps.create(stateful(3))
    done = ready(apps, 3, currentReplicas=3, updatedReplicas=3)
    assert done["status"]["currentRevision"] == done["status"]["updateRevision"]
    assert done["status"]["collisionCount"] == 0
    apps.patch("statefulsets", "db", {"spec": {"replicas": 0}}, subresource="scale")
    apps.status("statefulsets", "db", replicas=0)
    eventually(lambda: story(apps) == ["+0", "+1", "+2", "-2", "-1", "-0"])
    said = [
        *(("SuccessfulCreate", f"Create Pod db-{n} in StatefulSet db successful") for n in "012"),
        *(("SuccessfulDelete", f"Delete Pod db-{n} in StatefulSet db successful") for n in "210"),
    ]
    eventually(lambda: [event[1:] for event in apps.events("StatefulSet", "db")] == said)


def test_pods_have_names_labels_and_hosts_of_their_own(apps: Apps) -> None:
    apps.create(stateful(2))
    done = ready(apps, 2)
    for number, pod in enumerate(apps.pods()):
        assert pod["metadata"]["labels"] == {
            "app": "db",
            "apps.kubernetes.io/pod-index": str(number),
            "controller-revision-hash": done["status"]["updateRevision"],
            "statefulset.kubernetes.io/pod-name": f"db-{number}",
        }
        assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == (f"db-{number}", "db")


def test_the_next_waits_until_one_is_ready(apps: Apps) -> None:
    apps.player.play(only(0))
    apps.create(stateful(3))
    apps.status("statefulsets", "db", replicas=2, readyReplicas=1)
    assert names(apps.pods()) == ["db-0", "db-1"]
    apps.player.play(only(0, 1))
    apps.status("statefulsets", "db", replicas=3, readyReplicas=2)
    apps.player.play("ready")
    ready(apps, 3)


def test_parallel_pods_wait_for_nobody(apps: Apps) -> None:
    apps.player.play("pending")
    apps.create(stateful(4, podManagementPolicy="Parallel"))
    apps.status("statefulsets", "db", replicas=4, readyReplicas=0)
    apps.player.play("ready")
    ready(apps, 4)
    apps.player.hold_deleted(True)
    apps.patch("statefulsets", "db", {"spec": {"replicas": 1}})
    eventually(lambda: names(apps.live_pods()) == ["db-0"])
    apps.player.hold_deleted(False)
    ready(apps, 1)


def test_numbers_may_begin_elsewhere(apps: Apps) -> None:
    apps.create(stateful(2, ordinals={"start": 5}))
    ready(apps, 2)
    assert names(apps.pods()) == ["db-5", "db-6"]
    apps.patch("statefulsets", "db", {"spec": {"ordinals": {"start": 4}}})
    eventually(lambda: names(apps.pods()) == ["db-4", "db-5"])
    ready(apps, 2)


def test_min_ready_seconds_hold_the_next_back(apps: Apps) -> None:
    apps.create(stateful(2, minReadySeconds=2))
    early = apps.status("statefulsets", "db", replicas=1, readyReplicas=1)
    assert early["status"].get("availableReplicas", 0) == 0
    ready(apps, 2)


# --- trouble -------------------------------------------------------------------------------------


def test_ended_pods_are_made_anew(apps: Apps) -> None:
    apps.create(stateful(2))
    ready(apps, 2)
    first = apps.get("pods", "db-0")["metadata"]["uid"]
    apps.player.play(lambda pod: "failed" if pod["metadata"]["uid"] == first else "ready")
    eventually(lambda: (apps.objects.find("v1", "pods", "db-0") or {"metadata": {"uid": first}})
               ["metadata"]["uid"] != first)  # fmt: skip
    ready(apps, 2)
    reasons = [event[1] for event in apps.events("StatefulSet", "db")]
    assert "RecreatingFailedPod" not in reasons
    assert reasons.count("SuccessfulDelete") == 1


def test_a_broken_update_goes_on_once_the_template_is_mended(apps: Apps) -> None:
    """The set waits for the broken pod; deleted by hand it comes back with the good template."""
    apps.create(stateful(2))
    ready(apps, 2)

    def broken(pod: Obj) -> str:
        bad = pod["spec"]["containers"][0]["image"].endswith(":bad")
        return "running" if bad else "ready"

    apps.player.play(broken)
    apps.patch("statefulsets", "db", image("bad"))
    eventually(lambda: versions(apps) == ["1", "bad"])
    apps.patch("statefulsets", "db", image("3"))
    apps.status("statefulsets", "db", readyReplicas=1, updatedReplicas=0)
    assert versions(apps) == ["1", "bad"]
    apps.objects.delete("v1", "pods", "db-1")
    updated(apps, 2)
    assert versions(apps) == ["3", "3"]


def test_orphans_are_adopted_again(apps: Apps) -> None:
    apps.create(stateful(2))
    ready(apps, 2)
    uids = [pod["metadata"]["uid"] for pod in apps.pods()]
    path = apps.objects.path("apps/v1", "statefulsets", "db")
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Orphan"}
    apps.objects.backend.request("DELETE", path, body)
    eventually(lambda: apps.objects.find("apps/v1", "statefulsets", "db") is None)
    second = apps.create(stateful(2))
    ready(apps, 2)
    assert [pod["metadata"]["uid"] for pod in apps.pods()] == uids
    owners = {pod["metadata"]["ownerReferences"][0]["uid"] for pod in apps.pods()}
    assert owners == {second["metadata"]["uid"]}
    [revision] = apps.items("controllerrevisions")
    assert revision["metadata"]["ownerReferences"][0]["uid"] == second["metadata"]["uid"]


# --- updates -------------------------------------------------------------------------------------


def test_rolls_from_the_last_to_the_first(apps: Apps) -> None:
    apps.create(stateful(3))
    before = ready(apps, 3)["status"]["currentRevision"]
    apps.patch("statefulsets", "db", image("2"))
    done = updated(apps, 3)
    assert done["status"]["currentRevision"] != before
    assert story(apps)[3:] == ["-2", "+2", "-1", "+1", "-0", "+0"]
    numbers = [one["revision"] for one in apps.items("controllerrevisions")]
    assert sorted(numbers) == [1, 2]


def test_the_partition_keeps_the_first_ones_old(apps: Apps) -> None:
    apps.create(stateful(4, updateStrategy=rolling(partition=2)))
    ready(apps, 4)
    apps.patch("statefulsets", "db", image("2"))
    found = apps.status("statefulsets", "db", updatedReplicas=2, readyReplicas=4)
    assert versions(apps) == ["1", "1", "2", "2"]
    assert found["status"]["currentReplicas"] == 2
    apps.objects.delete("v1", "pods", "db-0")
    eventually(lambda: len(apps.live_pods()) == 4 and versions(apps) == ["1", "1", "2", "2"])
    apps.patch("statefulsets", "db", {"spec": {"updateStrategy": rolling(partition=0)}})
    updated(apps, 4)
    assert versions(apps) == ["2"] * 4


def test_several_may_be_unavailable(apps: Apps) -> None:
    strategy = rolling(maxUnavailable=2)
    apps.create(stateful(4, podManagementPolicy="Parallel", updateStrategy=strategy))
    ready(apps, 4)
    apps.player.hold_deleted(True)
    apps.patch("statefulsets", "db", image("2"))
    eventually(lambda: names(apps.live_pods()) == ["db-0", "db-1"])
    apps.player.hold_deleted(False)
    updated(apps, 4)


def test_on_delete_waits_for_a_hand(apps: Apps) -> None:
    apps.create(stateful(2, updateStrategy={"type": "OnDelete"}))
    ready(apps, 2)
    apps.patch("statefulsets", "db", image("2"))
    apps.status("statefulsets", "db", readyReplicas=2, updatedReplicas=0)
    assert versions(apps) == ["1", "1"]
    apps.objects.delete("v1", "pods", "db-1")
    apps.status("statefulsets", "db", readyReplicas=2, updatedReplicas=1)
    assert versions(apps) == ["1", "2"]


def test_an_old_template_takes_up_its_revision(apps: Apps) -> None:
    apps.create(stateful(1, revisionHistoryLimit=1))
    first = ready(apps, 1)["status"]["currentRevision"]
    apps.patch("statefulsets", "db", image("2"))
    updated(apps, 1)
    apps.patch("statefulsets", "db", image("1"))
    assert updated(apps, 1)["status"]["currentRevision"] == first
    for version in "34":
        apps.patch("statefulsets", "db", image(version))
        updated(apps, 1)
    eventually(lambda: len(apps.items("controllerrevisions")) == 2)


# --- claims --------------------------------------------------------------------------------------


def claims(apps: Apps) -> list[str]:
    return sorted(names(apps.items("persistentvolumeclaims")))


def owners(apps: Apps, name: str) -> list[str]:
    found = apps.objects.get("v1", "persistentvolumeclaims", name)["metadata"]
    return [reference["kind"] for reference in found.get("ownerReferences") or ()]


def test_every_replica_has_claims_that_stay(apps: Apps) -> None:
    apps.create(stateful(2, claims=True))
    ready(apps, 2)
    assert claims(apps) == ["data-db-0", "data-db-1"]
    found = apps.objects.get("v1", "persistentvolumeclaims", "data-db-0")
    assert found["metadata"]["labels"] == {"app": "db"}
    volumes = {v["name"]: v for v in apps.get("pods", "db-0")["spec"]["volumes"]}
    assert volumes["data"]["persistentVolumeClaim"]["claimName"] == "data-db-0"
    apps.patch("statefulsets", "db", {"spec": {"replicas": 1}})
    ready(apps, 1)
    apps.objects.delete("apps/v1", "statefulsets", "db")
    eventually(lambda: not apps.pods())
    assert claims(apps) == ["data-db-0", "data-db-1"]
    messages = [event[2] for event in apps.events("StatefulSet", "db")]
    assert messages[:2] == [
        "Create Claim data-db-0 Pod db-0 in StatefulSet db success",
        "Create Pod db-0 in StatefulSet db successful",
    ]


def unprotect(apps: Apps) -> None:
    """No volume binder works here: claims in deletion would wait for their protection."""
    for claim in apps.items("persistentvolumeclaims"):
        if claim["metadata"].get("deletionTimestamp") and claim["metadata"].get("finalizers"):
            name = claim["metadata"]["name"]
            patch = {"metadata": {"finalizers": None}}
            path = apps.objects.path("v1", "persistentvolumeclaims", name)
            apps.objects.backend.request(
                "PATCH", path, patch, content_type="application/merge-patch+json"
            )


def test_claims_go_with_what_the_policy_says(apps: Apps) -> None:
    policy = {"whenScaled": "Delete", "whenDeleted": "Delete"}
    apps.create(stateful(2, claims=True, persistentVolumeClaimRetentionPolicy=policy))
    ready(apps, 2)
    eventually(lambda: owners(apps, "data-db-0") == owners(apps, "data-db-1") == ["StatefulSet"])
    apps.patch("statefulsets", "db", {"spec": {"replicas": 1}})

    def gone(left: list[str]) -> bool:
        unprotect(apps)
        return claims(apps) == left

    eventually(lambda: gone(["data-db-0"]))
    ready(apps, 1)
    apps.objects.delete("apps/v1", "statefulsets", "db")
    eventually(lambda: gone([]))


def test_the_policy_may_change(apps: Apps) -> None:
    apps.create(stateful(1, claims=True))
    ready(apps, 1)
    assert owners(apps, "data-db-0") == []
    policy = {"whenScaled": "Retain", "whenDeleted": "Delete"}
    apps.patch("statefulsets", "db", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
    eventually(lambda: owners(apps, "data-db-0") == ["StatefulSet"])
    policy = {"whenScaled": "Retain", "whenDeleted": "Retain"}
    apps.patch("statefulsets", "db", {"spec": {"persistentVolumeClaimRetentionPolicy": policy}})
    eventually(lambda: owners(apps, "data-db-0") == [])
