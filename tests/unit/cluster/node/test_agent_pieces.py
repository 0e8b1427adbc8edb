"""The pure parts of the agent."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.node.container.identity import identity_of, not_honoured
from corral.cluster.node.pod.adoption import reported
from corral.cluster.node.pod.events import field_path, stop_words
from corral.cluster.node.pod.fit import Room, check
from corral.cluster.node.pod.status_writer import status_patch
from corral.cluster.node.pod.transitions import Exited, Started
from corral.cluster.node.volumes.references import Reference, claims_of, references_of, tokens_of
from corral.cluster.node.volumes.sources import ConfigError

ALLOCATABLE = {"cpu": "2", "memory": "1Gi", "pods": "2", "nvidia.com/gpu": "1"}


def pod(uid: str = "u", *, requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    main = {"name": "main", "resources": {"requests": requests or {}}}
    return {
        "metadata": {"name": uid, "namespace": "ns", "uid": uid},
        "spec": {"containers": [main]} | spec,
    }


# -- what fits -------------------------------------------------------------------------------------


def refusal(room: Room, wanted: dict[str, Any]) -> str:
    found = check(wanted, node="n", labels={"zone": "a"}, room=room)
    return found.reason if found is not None else ""


def test_room_is_counted() -> None:
    room = Room(ALLOCATABLE)
    assert refusal(room, pod(requests={"cpu": "2"})) == ""
    room.take(pod("a", requests={"cpu": "1500m", "nvidia.com/gpu": "1"}))
    found = check(pod("b", requests={"cpu": "1"}), node="n", labels={}, room=room)
    assert found is not None and found.waits
    words = "Node didn't have enough resource: cpu, requested: 1000, used: 1500, capacity: 2000"
    assert (found.reason, found.message) == ("OutOfcpu", words)
    assert refusal(room, pod(requests={"nvidia.com/gpu": "1"})) == "OutOfnvidia.com/gpu"
    assert refusal(room, pod(requests={"example.com/of-the-cluster": "9"})) == ""
    room.take(pod("b"))
    assert refusal(room, pod("c")) == "OutOfpods"
    room.give_back("a")
    room.give_back("a")
    assert refusal(room, pod("c", requests={"cpu": "2"})) == ""
    impossible = check(pod(requests={"memory": "2Gi"}), node="n", labels={}, room=room)
    assert impossible is not None and not impossible.waits


def test_other_reasons_not_to_run_here() -> None:
    room = Room(ALLOCATABLE)
    assert refusal(room, pod(os={"name": "windows"})) == "PodOSNotSupported"
    assert refusal(room, pod(nodeSelector={"zone": "a"})) == ""
    assert refusal(room, pod(nodeSelector={"zone": "b"})) == "NodeAffinity"
    port = {"ports": [{"containerPort": 1, "hostPort": 80}]}
    room.take(pod("a", containers=[{"name": "main"} | port]))
    assert refusal(room, pod(containers=[{"name": "main"} | port])) == "NodePorts"


# -- what a pod refers to --------------------------------------------------------------------------


def test_references_claims_and_tokens() -> None:
    token = {"path": "token", "audience": "x"}
    sources = [
        {"configMap": {"name": "c2"}},
        {"secret": {"name": "s2"}},
        {"serviceAccountToken": token},
    ]
    wanted = pod(
        volumes=[
            {"name": "a", "configMap": {"name": "c1"}},
            {"name": "b", "secret": {"secretName": "s1"}},
            {"name": "c", "projected": {"sources": sources}},
            {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
            {"name": "e", "ephemeral": {}},
        ],
        initContainers=[{"name": "i", "envFrom": [{"configMapRef": {"name": "c3"}}]}],
        containers=[
            {
                "name": "main",
                "envFrom": [{"secretRef": {"name": "s3"}}],
                "env": [
                    {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c4", "key": "k"}}},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s4", "key": "k"}}},
                    {"name": "C", "value": "plain"},
                ],
            }
        ],
    )
    maps = {Reference("ConfigMap", f"c{i}") for i in range(1, 5)}
    assert references_of(wanted) == maps | {Reference("Secret", f"s{i}") for i in range(1, 5)}
    assert claims_of(wanted) == {"d": "claim", "e": "u-e"}
    assert tokens_of(wanted) == [token]


# -- as whom ---------------------------------------------------------------------------------------


def test_identities() -> None:
    wanted = pod(securityContext={"runAsUser": 7, "fsGroup": 9, "supplementalGroups": [8, 9]})
    found = identity_of(wanted, {"name": "main"}, own_uid=0, may_change=True)
    assert (found.uid, found.groups) == (7, (9, 8))
    own = {"name": "main", "securityContext": {"runAsUser": 5, "runAsGroup": 6}}
    found = identity_of(wanted, own, own_uid=0, may_change=True)
    assert (found.uid, found.gid) == (5, 6)
    assert identity_of(pod(), {"name": "main"}, own_uid=0, may_change=True).uid is None
    assert identity_of(wanted, own, own_uid=1000, may_change=False).uid is None
    strict = pod(securityContext={"runAsNonRoot": True})
    assert identity_of(strict, {"name": "main"}, own_uid=1000, may_change=False).uid is None
    with pytest.raises(ConfigError, match="will run as root"):
        identity_of(strict, {"name": "main"}, own_uid=0, may_change=True)


def test_what_is_not_honoured_is_said() -> None:
    assert not_honoured(pod(), may_change=True, own_uid=0) == []
    wanted = pod(shareProcessNamespace=True, securityContext={"runAsUser": 7})
    assert len(not_honoured(wanted, may_change=True, own_uid=0)) == 1
    assert len(not_honoured(wanted, may_change=False, own_uid=1000)) == 2
    grouped = pod(securityContext={"supplementalGroups": [5]})
    assert not_honoured(grouped, may_change=True, own_uid=1) == []
    (words,) = not_honoured(grouped, may_change=True, own_uid=1, has_groups=False)
    assert words.startswith("supplementalGroups")


# -- what is written -------------------------------------------------------------------------------


def test_only_what_changed_is_written() -> None:
    old = {
        "phase": "Pending",
        "podIPs": [{"ip": "10.0.0.1"}],
        "conditions": [
            {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
            {"type": "Other", "status": "True"},
            {"type": "PodScheduled", "status": "True"},
        ],
    }
    assert status_patch(old, old) == {}
    new = {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.2"}],
        "conditions": [
            {"type": "Ready", "status": "True"},
            {"type": "Other", "status": "False"},
            {"type": "PodScheduled", "status": "True"},
        ],
    }
    assert status_patch(old, new) == {
        "phase": "Running",
        "podIPs": [{"ip": "10.0.0.2"}, {"$patch": "replace"}],
        "conditions": [{"type": "Ready", "status": "True", "reason": None}],
    }
    assert status_patch({"reason": "Evicted"}, {}) == {"reason": None}


# -- what is said ----------------------------------------------------------------------------------


def test_events_name_the_container() -> None:
    wanted = pod(initContainers=[{"name": "init"}])
    assert field_path(wanted, "main") == "spec.containers{main}"
    assert field_path(wanted, "init") == "spec.initContainers{init}"
    assert field_path(wanted, "none") == ""


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("deleted", "Stopping container main"),
        ("liveness probe failed", "Container main failed liveness probe, will be restarted"),
        ("FailedPostStartHook", "FailedPostStartHook"),
    ],
)
def test_why_a_container_is_stopped(why: str, words: str) -> None:
    assert stop_words({"name": "main"}, why, init=False) == words


# -- what only the API remembers -------------------------------------------------------------------


def test_a_container_that_only_the_api_knows_is_lost() -> None:
    status = {
        "name": "main",
        "restartCount": 2,
        "containerID": "corral://u.main.2",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    known = pod()
    known["status"] = {"containerStatuses": [status]}
    began, ended = reported(known, {})["main"]
    assert isinstance(began, Started) and began.attempt == 2 and began.id == "u.main.2"
    assert isinstance(ended, Exited) and ended.lost and ended.exit_code == 137
    kept: list[Any] = [began]
    assert reported(known, {"main": kept}) == {"main": kept}
    status["state"] = {"waiting": {"reason": "ContainerCreating"}}
    assert reported(known, {}) == {}
