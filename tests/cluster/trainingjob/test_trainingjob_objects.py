"""The objects of a job on a cluster: made, kept right, found by replicas, and gone with the job."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from corral.cluster.scheduler.definitions import crds
from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.objects.resources import NameTaken, ResourceController, StillThere
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube import KubeClient
from corral.kube.connection.kubeconfig import load_config
from corral.runtime import Manager
from tests.backends import Backend, Node, add_node, own_backend, own_scope
from tests.cluster.objects import Objects, eventually
from tests.cluster.trainingjob.operating import API, PLURAL, Obj, install_definitions

FIRST = Generation(attempt=1, world=2)
NETWORKING = "networking.k8s.io/v1"
MEET = """
import os, socket
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", address[1])) as server:
        connection = server.accept()[0]
        print("met", connection.recv(100).decode())
else:
    while True:
        try:
            connection = socket.create_connection(address, timeout=1)
            break
        except OSError:
            pass
    connection.sendall(os.environ["HOSTNAME"].encode())
    print("of", os.environ["WORLD_SIZE"])
"""


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster without an operator: the cases are one themselves."""
    with own_backend(tmp_path_factory.mktemp("objects")) as backend:
        cluster = Objects(backend)
        install_definitions(cluster)
        for definition in crds():
            name = definition["metadata"]["name"]
            if not cluster.find(definition["apiVersion"], "customresourcedefinitions", name):
                cluster.create("customresourcedefinitions", definition)
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def node(backend: Backend) -> Iterator[Node]:
    node = add_node(backend, "one")
    yield node
    node.stop()


class Bench:
    """A ResourceController with live caches, and a count of what it asks for."""

    def __init__(self, client: KubeClient, manager: Manager, writes: Counter[str]) -> None:
        self.client = client
        self.caches = Caches(manager)
        self.resources = ResourceController(manager, TrainingSettings(), caches=self.caches)
        self.writes = writes

    async def settled(self, key: str) -> None:
        """Return when the caches have seen what was written for the job."""
        await until(lambda: self.is_consistent(key))

    def is_consistent(self, key: str) -> bool:
        try:
            self.caches.consistency.ensure_ready(key)
        except Exception:
            return False
        return True


@asynccontextmanager
async def benched(kubeconfig: str) -> AsyncIterator[Bench]:
    writes: Counter[str] = Counter()

    def heard(method: str, outcome: str) -> None:
        if method != "GET":
            writes[method] += 1

    async with KubeClient(load_config(kubeconfig), on_answer=heard) as client:
        manager = Manager(client)
        bench = Bench(client, manager, writes)
        running = asyncio.create_task(manager.run())
        try:
            await manager.wait_ready()
            yield bench
        finally:
            manager.stop()
            await running


@pytest.fixture
async def bench(kubeconfig: str) -> AsyncIterator[Bench]:
    async with benched(kubeconfig) as bench:
        yield bench


async def until(condition: Callable[[], Any], limit: float = 60) -> None:
    async with asyncio.timeout(limit):
        while not condition():  # noqa: ASYNC110 - what is waited for happens in a server
            await asyncio.sleep(0.02)


def make(objects: Objects, name: str = "mnist", **spec: Any) -> Obj:
    body = {"replicas": 2, "image": "busybox", "command": ["sleep", "60"], **spec}
    metadata = {"name": name}
    return objects.create(
        PLURAL, {"apiVersion": API, "kind": "TrainingJob", "metadata": metadata, "spec": body}
    )


def log(objects: Objects, pod: str) -> str:
    reply = objects.backend.request("GET", f"{objects.path('v1', 'pods', pod)}/log")
    return reply.body.decode() if reply.code == 200 else ""


async def test_a_steady_job_costs_no_request(bench: Bench, objects: Objects) -> None:
    storage = {"storage": {"pvc": {"size": "1Mi"}}}
    job = make(objects, checkpoint=storage, scheduling={"gang": True})
    key = f"{objects.namespace}/mnist"
    await bench.resources.ensure(job, FIRST)
    assert objects.names("v1", "services") == {"mnist", "mnist-master"}
    assert "mnist" in objects.names("v1", "serviceaccounts")
    assert objects.names("v1", "persistentvolumeclaims") == {"mnist-checkpoints"}
    assert objects.names(NETWORKING, "networkpolicies") == {"mnist"}
    group = objects.get("scheduling.x-k8s.io/v1alpha1", "podgroups", "mnist")
    assert group["spec"]["minMember"] == 2
    await bench.settled(key)
    await until(lambda: len(bench.caches.children) == 5)
    bench.writes.clear()
    for _ in range(3):
        await bench.resources.ensure(job, FIRST)
    assert not bench.writes
    await bench.resources.ensure(job, Generation(attempt=2, world=1))
    group = objects.get("scheduling.x-k8s.io/v1alpha1", "podgroups", "mnist")
    assert group["spec"]["minMember"] == 1


async def test_changes_follow_the_job_and_only_where_they_are(
    bench: Bench, objects: Objects
) -> None:
    job = make(objects, serviceAccount={"annotations": {"role": "a", "other": "b"}})
    key = f"{objects.namespace}/mnist"
    await bench.resources.ensure(job, FIRST)
    await bench.settled(key)
    objects.patch("v1", "serviceaccounts", "mnist", {"metadata": {"annotations": {"theirs": "c"}}})
    job["spec"]["serviceAccount"]["annotations"] = {"other": "b2"}
    bench.writes.clear()
    await bench.resources.ensure(job, FIRST)
    assert bench.writes == {"PATCH": 2}
    account = objects.get("v1", "serviceaccounts", "mnist")
    annotations = account["metadata"]["annotations"]
    assert "role" not in annotations
    assert (annotations["other"], annotations["theirs"]) == ("b2", "c")
    await bench.settled(key)
    job["spec"]["serviceAccount"]["annotations"] = {}
    bench.writes.clear()
    await bench.resources.ensure(job, FIRST)
    assert bench.writes == {"PATCH": 1}, "its fields are ours by now"
    account = objects.get("v1", "serviceaccounts", "mnist")
    assert "other" not in account["metadata"]["annotations"]


async def test_what_others_break_is_put_right(bench: Bench, objects: Objects) -> None:
    job = make(objects)
    key = f"{objects.namespace}/mnist"
    await bench.resources.ensure(job, FIRST)
    await bench.settled(key)
    before = objects.get("v1", "services", "mnist-master")
    objects.patch(NETWORKING, "networkpolicies", "mnist", {"spec": {"ingress": [{}]}})
    objects.patch("v1", "services", "mnist-master", {"spec": {"selector": {"replica-id": "7"}}})
    changed = bench.caches.children
    stores = {informer.scope.resource.plural: informer.store for informer in changed.values()}
    await until(
        lambda: (
            stores["services"].get(f"{key}-master")["spec"]["selector"]["replica-id"] == "7"
            and stores["networkpolicies"].get(key)["spec"]["ingress"] == [{}]
        )
    )
    await bench.resources.ensure(job, FIRST)
    after = objects.get("v1", "services", "mnist-master")
    assert after["spec"] == before["spec"]
    policy = objects.get(NETWORKING, "networkpolicies", "mnist")
    assert policy["spec"]["ingress"][0]["from"]
    objects.delete("v1", "services", "mnist")
    await until(lambda: stores["services"].get(key) is None)
    await bench.resources.ensure(job, FIRST)
    assert objects.get("v1", "services", "mnist")["spec"]["clusterIP"] == "None"


async def test_an_account_of_somebody_else_is_left_alone(bench: Bench, objects: Objects) -> None:
    theirs = objects.create(
        "serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "mnist"}},
    )
    with pytest.raises(NameTaken, match="ServiceAccount mnist exists already"):
        await bench.resources.ensure(make(objects), FIRST)
    found = objects.get("v1", "serviceaccounts", "mnist")
    assert found["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"]


async def test_a_pod_is_made_once_for_an_attempt(bench: Bench, objects: Objects) -> None:
    job = make(objects)
    await bench.resources.ensure(job, FIRST)
    made = await bench.resources.create_pods(job, FIRST, range(2))
    again = await bench.resources.create_pods(job, FIRST, range(2))
    by_name = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in made}
    assert by_name == {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in again}
    with pytest.raises(StillThere):
        await bench.resources.create_pods(job, Generation(attempt=2, world=2), [0])
    await bench.settled(f"{objects.namespace}/mnist")
    pods = bench.caches.pods_of(job)
    assert [pod["metadata"]["name"] for pod in pods] == ["mnist-0", "mnist-1"]
    await bench.resources.delete_pods(job, pods, grace_seconds=0)
    await until(lambda: not bench.caches.pods_of(job))
    await bench.resources.create_pods(job, Generation(attempt=2, world=2), [0])


async def test_a_restricted_namespace_takes_plain_jobs(
    bench: Bench, cluster: Objects, unique: str
) -> None:
    name = f"strict-{unique}"
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"metadata": {"name": name, "labels": labels}}
    cluster.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", **namespace})
    objects = Objects(cluster.backend, name)
    try:
        eventually(lambda: objects.find("v1", "serviceaccounts", "default"))
        await until(lambda: bench.caches.namespace_metadata(name))
        job = make(objects, checkpoint={"storage": {"pvc": {"size": "1Mi"}}})
        await bench.resources.ensure(job, FIRST)
        made = await bench.resources.create_pods(job, FIRST, range(2))
        assert len(made) == 2
        assert all(pod["spec"]["securityContext"]["runAsNonRoot"] for pod in made)
    finally:
        cluster.delete("v1", "namespaces", name)


@pytest.mark.parametrize("gang", [False, True])
async def test_replicas_find_each_other(
    bench: Bench, objects: Objects, node: Node, *, gang: bool
) -> None:
    job = make(
        objects,
        framework="pytorch",
        image="python:3.12",
        command=["python", "-c", MEET],
        scheduling={"gang": gang},
    )
    await bench.resources.ensure(job, FIRST)
    await bench.resources.create_pods(job, FIRST, range(2))

    def phases() -> list[str]:
        return [(pod.get("status") or {}).get("phase", "") for pod in bench.caches.pods_of(job)]

    await until(lambda: phases() == ["Succeeded"] * 2 or "Failed" in phases())
    said = json.dumps([log(objects, "mnist-0"), log(objects, "mnist-1")])
    assert phases() == ["Succeeded"] * 2, said
    assert "met mnist-1" in said
    assert "of 2" in said


async def test_everything_goes_with_the_job(bench: Bench, objects: Objects) -> None:
    job = make(objects, scheduling={"gang": True})
    await bench.resources.ensure(job, FIRST)
    objects.delete(API, PLURAL, "mnist")
    newer = make(objects, scheduling={"gang": True})

    async def taken_over() -> bool:
        try:
            await bench.resources.ensure(newer, FIRST)
        except StillThere:
            return False
        return True

    async with asyncio.timeout(60):
        while not await taken_over():  # noqa: ASYNC110 - the garbage collector is at work
            await asyncio.sleep(0.05)
    owner = objects.get("v1", "services", "mnist")["metadata"]["ownerReferences"][0]
    assert owner["uid"] == newer["metadata"]["uid"]
