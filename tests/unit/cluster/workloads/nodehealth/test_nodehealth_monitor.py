"""The monitor pass by pass: who is marked, who is given up, and when silence says nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from corral.cluster.workloads.nodehealth.index import POD_NODE_INDEX, index_by_node
from corral.cluster.workloads.nodehealth.monitor import LEASE_NAMESPACE, Monitor
from corral.cluster.workloads.nodehealth.settings import Settings
from corral.kube.client import KubeConnectionError
from corral.kube.errors import NotFound
from corral.runtime import Store, key_of

Obj = dict[str, Any]
START = 1000.0


class World:
    """Nodes, leases and pods; writes are taken over at once."""

    def __init__(self) -> None:
        self.nodes, self.pods, self.leases = Store(), Store(), Store()
        self.pods.add_index(POD_NODE_INDEX, index_by_node)
        self.live: dict[str, Obj] = {}
        """Leases that the server has and the cache does not."""
        self.now = START
        self.reachable = True
        self.events: list[tuple[str, str]] = []
        self.reads = 0
        self.deleted: list[str] = []
        self.monitor = Monitor(
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            nodes=SimpleNamespace(store=self.nodes),  # type: ignore[arg-type]
            pods=SimpleNamespace(store=self.pods),  # type: ignore[arg-type]
            leases=SimpleNamespace(store=self.leases),  # type: ignore[arg-type]
            settings=Settings(),
            clock=lambda: self.now,
            wall=lambda: 0.0,
        )

    # --- what a client, a writer and a recorder do -----------------------------------------------

    async def get(self, resource: Any, name: str, *, namespace: str) -> Obj:
        self.reads += 1
        if not self.reachable:
            raise KubeConnectionError("no answer")
        found = self.live.get(name) or self.leases.get(f"{namespace}/{name}")
        if found is None:
            raise NotFound("none")
        return found

    async def delete(self, resource: Any, name: str, **more: Any) -> None:
        self.deleted.append(name)

    async def node_status(self, node: Obj, patch: Obj) -> Obj:
        old = {c["type"]: c for c in node["status"]["conditions"]}
        new = {c["type"]: {**old.get(c["type"], {}), **c} for c in patch["status"]["conditions"]}
        written = {**node, "status": {"conditions": list((old | new).values())}}
        self.nodes.put(written)
        return written

    async def pod_status(self, pod: Obj, patch: Obj) -> bool:
        self.pods.put({**pod, "status": patch["status"]})
        return True

    async def taints(self, node: Obj, decide: Any) -> bool:
        taints = decide(node)
        if taints is not None:
            self.nodes.put({**node, "spec": {"taints": taints}})
        return taints is not None

    def normal(self, obj: Obj, reason: str, message: str) -> None:
        self.events.append((key_of(obj), reason))

    warning = normal

    # --- the case --------------------------------------------------------------------------------

    def add(self, *names: str, ready: str = "True") -> None:
        for name in names:
            conditions = [{"type": "Ready", "status": ready, "lastHeartbeatTime": "t"}]
            meta = {"name": name, "uid": name, "resourceVersion": "1"}
            self.nodes.put({"metadata": meta, "spec": {}, "status": {"conditions": conditions}})
            self.renew(name)

    def renew(self, *names: str) -> None:
        for name in names:
            self.leases.put(
                {
                    "metadata": {
                        "name": name,
                        "namespace": LEASE_NAMESPACE,
                        "resourceVersion": f"{self.now}",
                    },
                    "spec": {"renewTime": f"{self.now}"},
                }
            )

    def post(self, name: str) -> None:
        """What a kubelet says of itself."""
        node = self.nodes.get(name)
        assert node is not None
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": f"{self.now}"}
        self.nodes.put({**node, "spec": {}, "status": {"conditions": [beat]}})

    async def passes(self, seconds: float, *alive: str) -> None:
        """Let so much time pass, five seconds a pass; the living renew their leases."""
        end = self.now + seconds
        while self.now < end:
            self.now += 5
            self.renew(*alive)
            await self.monitor.judge()

    def ready(self, name: str) -> str:
        node = self.nodes.get(name)
        assert node is not None
        return next(c["status"] for c in node["status"]["conditions"] if c["type"] == "Ready")

    def given_up(self) -> set[str]:
        return {
            node["metadata"]["name"]
            for node in self.nodes
            if any(t["effect"] == "NoExecute" for t in node["spec"].get("taints") or ())
        }


async def test_a_silent_node() -> None:
    world = World()
    world.add("a", "b")
    condition = {"type": "Ready", "status": "True"}
    meta = {"name": "p", "namespace": "ns", "uid": "p"}
    world.pods.put(
        {"metadata": meta, "spec": {"nodeName": "a"}, "status": {"conditions": [condition]}}
    )
    await world.passes(45, "b")
    assert world.ready("a") == "True" and world.given_up() == set()
    await world.passes(5, "b")
    assert (world.ready("a"), world.ready("b")) == ("Unknown", "True")
    assert world.given_up() == {"a"}
    (found,) = world.pods
    assert found["status"]["conditions"][0]["status"] == "False"
    assert world.events == [
        ("a", "RegisteredNode"), ("b", "RegisteredNode"), ("a", "NodeNotReady"),
        ("ns/p", "NodeNotReady"),
    ]  # fmt: skip
    world.nodes.remove("a")
    await world.passes(5, "b")
    assert world.events[-1] == ("a", "RemovingNode")


async def test_nobody_is_silent_while_the_server_is() -> None:
    world = World()
    world.add("a", "b")
    await world.passes(20, "a", "b")
    world.reachable = False
    await world.passes(300)
    assert world.ready("a") == world.ready("b") == "True"
    world.reachable = True
    await world.passes(35)
    assert world.ready("a") == world.ready("b") == "True"  # the whole grace, from now on
    await world.passes(15, "b")
    assert (world.ready("a"), world.ready("b")) == ("Unknown", "True")


async def test_nobody_is_silent_while_we_are_stopped() -> None:
    world = World()
    world.add("a", "b")
    await world.passes(10, "a", "b")
    world.now += 3600  # the machine slept
    await world.passes(35)
    assert world.ready("a") == world.ready("b") == "True"


async def test_a_cache_that_is_behind() -> None:
    world = World()
    world.add("a", "b")
    await world.passes(10, "b")
    for turn in range(20):
        world.live["a"] = {
            "metadata": {"name": "a", "namespace": LEASE_NAMESPACE},
            "spec": {"renewTime": f"live {turn}"},
        }
        await world.passes(10, "b")
    assert world.ready("a") == "True"


async def test_all_silent_at_once() -> None:
    world = World()
    world.add("a", "b", "c")
    await world.passes(60)
    assert [world.ready(name) for name in "abc"] == ["Unknown"] * 3
    assert world.given_up() == set()
    await world.passes(600)
    assert world.given_up() == set()
    world.post("b")
    world.renew("b")
    await world.passes(35, "b")
    assert world.given_up() == set()  # the others have their grace again
    await world.passes(30, "b")
    assert world.given_up() == {"a", "c"}


async def test_nodes_are_given_up_one_by_one() -> None:
    world = World()
    world.add("a", "b", "c", "d", "e")
    await world.passes(50, "d", "e", "c")
    assert world.given_up() == {"a"}
    await world.passes(5, "d", "e", "c")
    assert world.given_up() == {"a"}
    await world.passes(5, "d", "e", "c")
    assert world.given_up() == {"a", "b"}


async def test_known_silence_costs_nothing() -> None:
    world = World()
    world.add("a", "b")
    await world.passes(100, "b")
    before = world.reads
    await world.passes(100, "b")
    assert world.reads == before


async def test_leases_without_nodes() -> None:
    world = World()
    world.add("a")
    world.renew("stray", "late")
    await world.passes(40, "a", "late")
    assert world.deleted == []
    await world.passes(10, "a", "late")
    assert set(world.deleted) == {"stray"}
