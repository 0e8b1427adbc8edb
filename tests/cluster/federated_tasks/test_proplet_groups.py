"""PropletGroups: discovery, loads, every algorithm, limits, and proplets that are lost."""

from __future__ import annotations

import pytest

from tests.backends import Backend, add_node
from tests.cluster.federated_tasks.tasking import API, Obj, Tasks, condition
from tests.cluster.objects import Objects, eventually


@pytest.fixture
def edge(tasks: Tasks, unique: str) -> dict[str, str]:
    """Labels that only the proplets of the case have."""
    return {"proplet-type": f"edge-{unique}"}


def two_proplets(tasks: Tasks, edge: dict[str, str], group: str, **scheduling: object) -> list[str]:
    """A group of two proplets that are alive."""
    ids = [f"{group}-a", f"{group}-b"]
    for id, node in zip(ids, ("one", "two"), strict=True):
        tasks.proplet(id, node, edge)
    tasks.group(group, edge, **scheduling)
    tasks.group_status(group, lambda status: status.get("availableProplets") == 2)
    return ids


def test_pods_are_proplets(tasks: Tasks, edge: dict[str, str]) -> None:
    ids = two_proplets(tasks, edge, "devices")
    status = tasks.group_status("devices", lambda status: status.get("totalProplets") == 2)
    shown = {proplet["id"]: proplet for proplet in status["proplets"]}
    assert sorted(shown) == ids
    first = shown[ids[0]]
    assert (first["alive"], first["taskCount"], first["kind"]) == (True, 0, "Pod")
    assert (first["nodeName"], first["namespace"]) == ("one", tasks.objects.namespace)
    assert condition(status, "Ready")["status"] == "True"


def test_nodes_are_proplets_where_no_pods_are(tasks: Tasks, edge: dict[str, str]) -> None:
    key, value = next(iter(edge.items()))
    cluster_path = "/api/v1/nodes/two"
    labels = {"metadata": {"labels": {key: value}}}
    kind = "application/merge-patch+json"
    backend = tasks.objects.backend
    assert backend.request("PATCH", cluster_path, labels, content_type=kind).code == 200
    try:
        tasks.group("gpu-proplets", edge)
        status = tasks.group_status(
            "gpu-proplets", lambda status: status.get("availableProplets") == 1
        )
        (proplet,) = status["proplets"]
        assert (proplet["id"], proplet["kind"], proplet["nodeName"]) == ("two", "Node", "two")
        tasks.process("there", "true", propletGroupRef={"name": "gpu-proplets"})
        assert tasks.phase("there", "Completed")["propletId"] == "two"
    finally:
        gone = {"metadata": {"labels": {key: None}}}
        backend.request("PATCH", cluster_path, gone, content_type=kind)


def test_a_limit_holds_and_a_place_that_becomes_free_is_used(
    tasks: Tasks, edge: dict[str, str]
) -> None:
    ids = two_proplets(tasks, edge, "few", maxTasksPerProplet=1)
    reference = {"name": "few"}
    for name in ("t1", "t2"):
        tasks.process(name, "sleep 3600", propletGroupRef=reference)
    places = {tasks.phase(name, "Running")["propletId"] for name in ("t1", "t2")}
    assert places == set(ids)
    tasks.process("t3", "true", propletGroupRef=reference)
    status = tasks.wait("t3", lambda status: condition(status, "Ready"))
    assert status["phase"] == "Pending"
    assert condition(status, "Ready")["reason"] == "PropletsFull"
    busy = tasks.group_status(
        "few", lambda status: [p["taskCount"] for p in status["proplets"]] == [1, 1]
    )
    assert busy["availableProplets"] == 2
    freed = tasks.status("t1")["propletId"]
    tasks.objects.delete(API, "wasmtasks", "t1")
    assert tasks.phase("t3", "Completed")["propletId"] == freed
    tasks.group_status(
        "few", lambda status: sorted(p["taskCount"] for p in status["proplets"]) == [0, 1]
    )


def test_round_robin_rotates(tasks: Tasks, edge: dict[str, str]) -> None:
    ids = two_proplets(tasks, edge, "rotating", algorithm="round-robin")
    found = []
    for number in range(4):
        tasks.process(f"turn-{number}", "true", propletGroupRef={"name": "rotating"})
        found.append(tasks.phase(f"turn-{number}", "Completed")["propletId"])
    assert found == [*ids, *ids]


def test_data_is_a_reason(tasks: Tasks, edge: dict[str, str]) -> None:
    ids = two_proplets(tasks, edge, "near", algorithm="data-locality")
    annotations = {"propeller.absmach.io/datasets": "mnist, digits"}
    tasks.objects.patch("v1", "pods", ids[1], {"metadata": {"annotations": annotations}})
    tasks.process(
        "close", "true", propletGroupRef={"name": "near"}, placement={"datasets": ["digits"]}
    )
    assert tasks.phase("close", "Completed")["propletId"] == ids[1]


def test_no_proplet_no_task_and_the_reason(tasks: Tasks, edge: dict[str, str]) -> None:
    tasks.group("empty", edge)
    tasks.process("waits", "true", propletGroupRef={"name": "empty"})
    tasks.process("nowhere", "true", propletGroupRef={"name": "none"})
    tasks.process("named", "true", propletId="nobody")
    for name, reason in (
        ("waits", "NoProplets"),
        ("nowhere", "GroupNotFound"),
        ("named", "PropletNotFound"),
    ):
        status = tasks.wait(name, lambda status: condition(status, "Ready"))
        assert (status["phase"], condition(status, "Ready")["reason"]) == ("Pending", reason)
        assert "propletId" not in status
        assert tasks.objects.find("batch/v1", "jobs", f"{name}-job") is None
    assert "nobody" in condition(tasks.status("named"), "Ready")["message"]
    tasks.proplet("late-proplet", "one", edge)
    assert tasks.phase("waits", "Completed")["propletId"] == "late-proplet"


def test_a_proplet_that_stops_loses_its_tasks_to_another(
    tasks: Tasks, edge: dict[str, str]
) -> None:
    ids = two_proplets(tasks, edge, "frail")
    tasks.process("moves", "sleep 3600", propletGroupRef={"name": "frail"})
    first = tasks.phase("moves", "Running")
    tasks.objects.delete("v1", "pods", first["propletId"])
    status = tasks.wait(
        "moves", lambda status: status.get("reschedules") == 1 and status["phase"] == "Running"
    )
    assert {first["propletId"], status["propletId"]} == set(ids)
    (pod,) = eventually(lambda: _one(tasks, "moves"), seconds=60)
    assert pod["spec"]["nodeName"] == status["nodeName"] != first["nodeName"]
    assert "PropletLost" in tasks.events("moves")


def _one(tasks: Tasks, name: str) -> list[Obj]:
    found = tasks.pods(name)
    return found if len(found) == 1 else []


@pytest.mark.soak
def test_a_node_that_stops_answering_loses_its_tasks_to_another(
    tasks: Tasks, edge: dict[str, str], backend: Backend
) -> None:
    """Until a node counts as lost, its heartbeats are waited for."""
    third = add_node(backend, "three", isolation="plain")
    try:
        for node in ("one", "three"):
            Objects(backend).patch("v1", "nodes", node, {"metadata": {"labels": edge}})
        tasks.group("nodes", edge, algorithm="affinity")
        tasks.group_status("nodes", lambda status: status.get("availableProplets") == 2)
        liked = {"preferred": [{"matchLabels": {"kubernetes.io/hostname": "three"}}]}
        tasks.process("moves", "sleep 3600", propletGroupRef={"name": "nodes"}, placement=liked)
        assert tasks.phase("moves", "Running")["nodeName"] == "three"
        third.kill()
        status = tasks.wait(
            "moves",
            lambda status: status.get("reschedules") == 1 and status["phase"] == "Running",
            seconds=150,
        )
        assert status["nodeName"] == "one"
        down = tasks.group_status("nodes", lambda status: status["availableProplets"] == 1)
        (dead,) = [proplet for proplet in down["proplets"] if not proplet["alive"]]
        assert dead["id"] == "three" and "not ready" in dead["message"]
    finally:
        key = next(iter(edge))
        Objects(backend).patch("v1", "nodes", "one", {"metadata": {"labels": {key: None}}})
        third.start()
        third.stop()
        Objects(backend).delete("v1", "nodes", "three")
