"""Modules and proplets of one namespace against another: what a pod may not have, no node gives."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from corral.cluster.node.network.names.hosts import HostsFile, header
from corral.cluster.node.network.names.updates import NamesWriter
from corral.cluster.node.network.names.visible import is_visible, named_by
from corral.cluster.node.network.services.directory import Record
from corral.cluster.node.pulling.cache import Pulled
from corral.cluster.node.pulling.errors import PullError
from corral.cluster.node.pulling.puller import MAX_MODULE, MOST_EACH, Puller
from corral.cluster.node.volumes.tokens import PodTokens
from corral.kube import KubeClient
from corral.oci import OWN, Artifacts, Layer, Reference
from tests.backends import Backend
from tests.cluster.objects import Objects
from tests.cluster.registry.test_registry_access import OwnClient
from tests.registries import RunningRegistry, running_registry
from tests.security.outsiders import outsider
from tests.unit.families.federated.test_proplet_pools import Cluster

WASM = b"\0asm\1\0\0\0"


@pytest.fixture
def registry(backend: Backend, tmp_path: Path) -> Iterator[RunningRegistry]:
    access = partial(OwnClient, backend.kubeconfig, anonymous_read=False)
    with running_registry(tmp_path / "registry", access=access) as one:
        yield one


@pytest.fixture
def other(backend: Backend, unique: str) -> Objects:
    """Another tenant's namespace."""
    name = f"b-{unique}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    assert backend.request("POST", "/api/v1/namespaces", body).code == 201
    return Objects(backend, name)


class Node:
    """The puller of a node, with the rights of a node's agent."""

    def __init__(self, folder: Path, registry: RunningRegistry, client: KubeClient) -> None:
        self._client = client
        self._turns = asyncio.Semaphore(4)
        self.puller = Puller(
            folder, {OWN: registry.url}, token=self._token, mapped=lambda name: False
        )

    async def _token(self, pod: dict[str, Any]) -> str:
        return await PodTokens(self._client, pod, turns=self._turns).for_pulling()

    async def ensure(self, pod: dict[str, Any]) -> Pulled:
        class NoSecrets:
            def secret(self, name: str) -> None:
                return None

            def config_map(self, name: str) -> None:
                return None

        container = pod["spec"]["containers"][0]
        found = await self.puller.ensure(container, pod, NoSecrets(), say=lambda *words: None)
        assert found is not None
        return found


class Slow(Puller):
    """Registries that hardly answer, and large modules: what is pulled is what pods ask for."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, {}, token=None, mapped=lambda name: False)
        self.over = asyncio.Event()

    async def _pull(self, wanted: Any) -> Pulled:
        if "slow" in wanted.reference.repository:
            await self.over.wait()
        namespace = wanted.pod["metadata"]["namespace"]
        self._check_share(namespace)
        self._charge(namespace, MAX_MODULE)
        return Pulled(str(wanted.reference), "0" * 64, MAX_MODULE, "m.wasm")

    def ask(self, namespace: str, image: str) -> asyncio.Task[Pulled | None]:
        return ask(self, namespace, image)


def ask(puller: Puller, namespace: str, image: str) -> asyncio.Task[Pulled | None]:
    """Pull for a pod."""
    container = {"name": "main", "image": image}
    pod = {
        "metadata": {"namespace": namespace, "name": "p", "uid": f"{namespace}/{image}"},
        "spec": {"runtimeClassName": "wasm", "containers": [container]},
    }
    none: Any = SimpleNamespace(secret=lambda name: None)
    return asyncio.ensure_future(puller.ensure(container, pod, none, say=lambda *words: None))


@pytest.mark.attack(
    "modules",
    "Has pods pull from registries of its own that hardly answer, others' modules among them",
    "They wait for each other, and nobody else does",
)
async def test_slow_registries(tmp_path: Path) -> None:
    puller = Slow(tmp_path)
    waiting = [puller.ask("a", f"evil.example.com/slow-{n}:1") for n in range(20)]
    await asyncio.sleep(0.1)
    waiting.append(puller.ask("a", "good.example.com/theirs:1"))
    await asyncio.sleep(0.1)
    found = await asyncio.wait_for(puller.ask("b", "good.example.com/theirs:1"), 5)
    assert found is not None
    assert not any(task.done() for task in waiting)
    puller.over.set()
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.attack(
    "modules",
    "Fills the disk of a node with modules, faster than they may be removed",
    "A namespace has a share in ten minutes; others pull on",
)
async def test_modules_that_fill_the_disk(tmp_path: Path) -> None:
    puller = Slow(tmp_path)
    for number in range(MOST_EACH // MAX_MODULE):
        assert await puller.ask("a", f"evil.example.com/m-{number}:1") is not None
    with pytest.raises(PullError, match="of modules for namespace a"):
        await puller.ask("a", "evil.example.com/more:1")
    assert await puller.ask("b", "good.example.com/theirs:1") is not None


@pytest.mark.attack(
    "modules",
    "Has a node call services of the machine: by an image's name, or where its registry points",
    "They are refused, nothing is called; an administrator may allow a registry",
)
@pytest.mark.parametrize("way", ["name", "redirect", "realm"])
async def test_images_of_the_machines_services(tmp_path: Path, way: str) -> None:
    with outsider() as inner, outsider("127.0.0.2") as registry:
        if way == "redirect":
            registry.status, registry.headers = 307, {"Location": f"{inner.url}/blob"}
        else:
            challenge = f'Bearer realm="{inner.url}/token",service="x"'
            registry.status, registry.headers = 401, {"WWW-Authenticate": challenge}
        known = {"theirs.example.com": registry.url}
        puller = Puller(tmp_path, known, token=None, mapped=lambda name: False)
        image = f"{inner.place if way == 'name' else 'theirs.example.com'}/a/b:1"
        with pytest.raises(PullError, match="--allow-endpoint"):
            await ask(puller, "a", image)
        assert bool(registry.requests) == (way != "name")
        assert inner.connections == []
        puller = Puller(
            tmp_path, known, token=None, mapped=lambda name: False, allowed=[inner.place]
        )
        with pytest.raises(PullError):
            await ask(puller, "a", image)
        assert inner.connections


def make_pod(objects: Objects, name: str, image: str, policy: str) -> dict[str, Any]:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "runner"}}
    if objects.find("v1", "serviceaccounts", "runner") is None:
        objects.create("serviceaccounts", account)
    container = {"name": "main", "image": image, "imagePullPolicy": policy}
    made = objects.create(
        "pods",
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "serviceAccountName": "runner",
                "automountServiceAccountToken": False,
                "containers": [container],
            },
        },
    )
    made["spec"]["runtimeClassName"] = "wasm"
    return made


async def push(registry: RunningRegistry, backend: Backend, repository: str) -> str:
    async with Artifacts(registry.registries(token=lambda: backend.token)) as artifacts:
        pushed = await artifacts.push(
            Reference.parse(f"oci://{OWN}/{repository}:v1"),
            [Layer("application/wasm", WASM)],
            artifact_type="application/vnd.wasm.config.v1+json",
        )
        return pushed.digest


@pytest.mark.attack(
    "modules",
    "Runs a pod with another namespace's module",
    "The registry refuses the pod's account",
)
@pytest.mark.parametrize("policy", ["IfNotPresent", "Always"])
@pytest.mark.route("registry")
async def test_a_module_of_another_namespace(
    backend: Backend,
    objects: Objects,
    other: Objects,
    registry: RunningRegistry,
    tmp_path: Path,
    policy: str,
) -> None:
    image = f"{OWN}/{other.namespace}/secret/model:v1"
    await push(registry, backend, f"{other.namespace}/secret/model")
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        node = Node(tmp_path / "node", registry, client)
        with pytest.raises(PullError, match="may not get the repository"):
            await node.ensure(make_pod(objects, "thief", image, policy))
        assert await node.ensure(make_pod(other, "owner", image, policy))


@pytest.mark.attack(
    "modules", "Names a module that the node has cached for another", "The cache gives it to nobody"
)
@pytest.mark.parametrize("policy", ["IfNotPresent", "Never"])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.route("compiled modules")
async def test_a_module_from_the_cache(
    backend: Backend,
    objects: Objects,
    other: Objects,
    registry: RunningRegistry,
    tmp_path: Path,
    policy: str,
    fixed: bool,
) -> None:
    repository = f"{other.namespace}/secret/model"
    digest = await push(registry, backend, repository)
    image = f"{OWN}/{repository}@{digest}" if fixed else f"{OWN}/{repository}:v1"
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        node = Node(tmp_path / "node", registry, client)
        await node.ensure(make_pod(other, "owner", image, "IfNotPresent"))
        with pytest.raises(PullError, match=r"may not get|pull policy of Never"):
            await node.ensure(make_pod(objects, "thief", image, policy))
        again = make_pod(other, "again", image, "Never")
        assert await node.ensure(again), "its own namespace still has it"


@pytest.mark.attack("modules", "Pulls with a node's own credentials", "A node has no rights there")
async def test_nodes_have_no_rights_of_their_own() -> None:
    from corral.cluster.node.server.identity import User
    from corral.cluster.registry.access import Action, Caller, may_by_name

    node = Caller(User("system:node:n1", "", ("system:nodes", "system:authenticated"), ()))
    for action in Action:
        assert not may_by_name(node, action, "b/secret/model")


# --- proplets ------------------------------------------------------------------------------------


@pytest.fixture
def two() -> Cluster:
    """Two namespaces whose pods have the same labels."""
    cluster = Cluster()
    cluster.node("n1")
    cluster.proplet("mine", "n1")
    labels = {"type": "edge", "proplet-id": "theirs"}
    pod = {
        "metadata": {"name": "theirs", "namespace": "b", "labels": labels},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }
    cluster.edge.store.put(pod)
    cluster.pools.labelled.store.put(pod)
    return cluster


@pytest.mark.attack(
    "modules", "Lists others' pods by a PropletGroup's labels", "Only its own namespace's are found"
)
@pytest.mark.route("statuses")
def test_a_group_finds_its_own_pods(two: Cluster) -> None:
    from corral.api.propeller.kinds import PropletGroup

    spec = PropletGroup.read(two.group()).spec
    assert [found.id for found in two.pools.of_group(spec, "ns")] == ["mine"]
    assert [found.id for found in two.pools.of_nobody("ns")] == ["mine"]
    assert two.pools.find("theirs", "ns") is None
    assert two.pools.find("theirs", "b") is not None


@pytest.mark.attack(
    "modules", "Fills others' proplets with tasks of the same id", "Loads count by namespace"
)
@pytest.mark.route("statuses")
def test_loads_are_of_a_namespace(two: Cluster) -> None:
    two.group(limit=1)
    for number in range(3):
        foreign = two.task(f"t{number}", {"phase": "Running", "propletId": "mine"})
        two.pools.tasks.store.remove(f"ns/t{number}")
        foreign["metadata"]["namespace"] = "b"
        two.pools.tasks.store.put(foreign)
    assert two.pools.loads("ns") == {}
    assert two.choose(two.task("own")) == "mine"


@pytest.mark.attack(
    "modules",
    "Makes thousands of PropletGroups, and changes a pod of theirs all the time",
    "A group is read when it changes, and not with each pod: the operator has time for others",
)
@pytest.mark.route("statuses")
def test_groups_are_read_when_they_change(two: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    from corral.api.propeller.kinds import PropletGroup

    group, read = two.group(), PropletGroup.read
    reads: list[Any] = []
    monkeypatch.setattr(PropletGroup, "read", lambda obj: reads.append(obj) or read(obj))
    pod = two.pools.labelled.store.get("ns/mine")
    assert pod is not None
    for _ in range(50):
        assert two.pools.groups_with(pod) == ["ns/g"]
    assert len(reads) == 1
    changed = json.loads(json.dumps(group))
    changed["spec"]["selector"]["matchLabels"] = {"type": "other"}
    two.pools.groups.store.put(changed)
    assert two.pools.groups_with(pod) == []
    assert len(reads) == 2


# --- names ---------------------------------------------------------------------------------------

RECORDS = [
    Record("a", "web", "10.1.0.1"),
    Record("b", "secret-project", "10.1.0.2"),
    Record("b", "db", "10.1.0.3"),
    Record("b", "db-0.db", "10.1.0.4"),
    Record("c", "db", "10.1.0.5"),
    Record("default", "kubernetes", "10.1.0.6"),
    Record("default", "billing", "10.1.0.7"),
    Record("corral-system", "corral-registry", "10.1.0.8"),
]
OWN_NAMES = {"web", "kubernetes.default", "corral-registry.corral-system"}


def hosts(tmp_path: Path, pod: dict[str, Any], namespace: str = "a") -> set[str]:
    file = HostsFile(
        tmp_path / "hosts", header("10.8.0.2", "me"), named=named_by(pod, "cluster.local")
    )
    NamesWriter(lambda: frozenset(RECORDS), domain="cluster.local").add(namespace, "uid", file)
    return set((tmp_path / "hosts").read_text().split())


def pod_of(**container: Any) -> dict[str, Any]:
    return {"metadata": {}, "spec": {"containers": [{"name": "c", **container}]}}


@pytest.mark.attack("names", "Reads its hosts file for others' services", "They are not in it")
@pytest.mark.route("names")
def test_the_hosts_file_lists_no_strangers(tmp_path: Path) -> None:
    found = hosts(tmp_path, pod_of(command=["sleep", "1"]))
    assert found >= OWN_NAMES
    assert not [name for name in found if "secret" in name or "billing" in name or ".b" in name]


@pytest.mark.attack("names", "Names a namespace or a suffix to see it all", "It must know the name")
@pytest.mark.parametrize(
    "word", ["b", ".b", "*.b", "x.b", "b.svc", "svc.cluster.local", "ct.b", ""]
)
@pytest.mark.route("names")
def test_a_namespace_is_no_name(tmp_path: Path, word: str) -> None:
    pod = pod_of(args=[word], env=[{"name": "X", "value": word}])
    pod["metadata"]["annotations"] = {"corral.dev/resolve": word}
    pod["spec"]["dnsConfig"] = {"searches": [f"{word}.svc.cluster.local"]}
    assert not [name for name in hosts(tmp_path, pod) if "secret" in name or name == "db.b"]


@pytest.mark.attack(
    "names",
    "Names hundreds of services in each of its pods, to have the node compare all with all",
    "A record is looked up among the names, however many there are",
)
def test_many_names_of_a_pod() -> None:
    class Asked(frozenset[str]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError("every name was looked at")

    many = Asked([*(f"x{number}.y" for number in range(256)), "db.b"])
    found = {
        f"{record.name}.{record.namespace}"
        for record in RECORDS
        if is_visible(record, namespace="a", named=many)
    }
    assert found == {"web.a", "db.b", "db-0.db.b", *OWN_NAMES} - {"web"}


@pytest.mark.parametrize(
    "container",
    [
        {"args": ["http://db.b.svc:80/x"]},
        {"command": ["ping", "db.b"]},
        {"env": [{"name": "DB", "value": json.dumps({"host": "db.b.svc.cluster.local."})}]},
    ],
)
def test_a_name_that_is_known_resolves(tmp_path: Path, container: dict[str, Any]) -> None:
    found = hosts(tmp_path, pod_of(**container))
    assert {"db.b", "db.b.svc", "db-0.db.b"} <= found
    assert not {"db.c", "secret-project.b"} & found
