"""Which pods stand behind which service, and which names lead where."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.node.network.entries import PodEntry, ServiceEntry, compact_pod
from corral.cluster.node.network.services.directory import Directory, Record
from corral.cluster.node.network.services.targets import Target, Targets
from corral.kube.types import Obj


def pod(name: str, address: str = "10.88.0.2", *, ready: bool = True, **more: Any) -> Obj:
    meta = {"name": name, "namespace": "ns", "uid": name, "labels": {"app": "web", "x": name}}
    spec = {"containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]}
    status = {
        "phase": "Running", "podIP": address,
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }  # fmt: skip
    return {
        "metadata": meta | more.pop("metadata", {}),
        "spec": spec | more.pop("spec", {}),
        "status": status | more.pop("status", {}),
    }


def service(name: str, **spec: Any) -> ServiceEntry:
    full = {"clusterIP": "10.96.0.5", "selector": {"app": "web"}, "ports": [{"port": 80}], **spec}
    return ServiceEntry.of({"metadata": {"name": name, "namespace": "ns"}, "spec": full})


class Listener:
    """A directory, and what it said."""

    def __init__(self) -> None:
        self.names: set[Record] = set()
        self.changed: list[str] = []
        self.directory = Directory(
            on_names=self._names, on_service=self.changed.append, api=Target("api", 6443)
        )

    def _names(self, gone: frozenset[Record], new: frozenset[Record]) -> None:
        assert gone <= self.names and not (new & self.names) and not (gone & new)
        self.names = (self.names - gone) | new
        assert gone or new

    def pod(self, name: str, obj: Obj | None) -> None:
        entry = PodEntry.of(compact_pod(obj)) if obj is not None else None
        if obj is not None:
            assert entry == PodEntry.of(obj)
        self.directory.set_pod(f"ns/{name}", entry)
        assert self.names == set(self.directory.records())

    def service(self, name: str, entry: ServiceEntry | None) -> None:
        self.directory.set_service(f"ns/{name}", entry)
        assert self.names == set(self.directory.records())

    def targets(self, name: str) -> list[Target]:
        state = self.directory.service(f"ns/{name}")
        assert state is not None
        return sorted(target for each in state.targets.values() for target in each.all())


@pytest.fixture
def cluster() -> Listener:
    return Listener()


def test_pods_before_and_after_their_service(cluster: Listener) -> None:
    cluster.pod("a", pod("a"))
    cluster.service("web", service("web", ports=[{"port": 80, "targetPort": "http"}]))
    assert cluster.targets("web") == [("10.88.0.2", 8080)]
    cluster.changed.clear()
    cluster.pod("b", pod("b", "10.88.0.3"))
    assert len(cluster.targets("web")) == 2 and cluster.changed == []
    cluster.pod("a", None)
    cluster.pod("b", pod("b", "10.88.0.3", ready=False))
    assert cluster.targets("web") == [] and cluster.changed == ["ns/web"]
    assert cluster.names == {Record("ns", "web", "10.96.0.5")}
    cluster.service("web", None)
    assert cluster.names == set() and cluster.changed == ["ns/web", "ns/web"]


@pytest.mark.parametrize(
    ("change", "left"),
    [
        ({"ready": False}, 0), ({"metadata": {"labels": {"app": "other"}}}, 0),
        ({"status": {"phase": "Succeeded"}}, 0), ({"address": ""}, 0),
        ({"address": "10.88.0.9"}, 1), ({"metadata": {"deletionTimestamp": "now"}}, 0),
        ({"address": "fd00::1"}, 0), ({"spec": {"nodeName": "n"}}, 1),
    ],
)  # fmt: skip
def test_what_makes_a_pod_go(cluster: Listener, change: dict[str, Any], left: int) -> None:
    cluster.service("head", service("head", clusterIP="None"))
    cluster.pod("a", pod("a"))
    assert cluster.names == {Record("ns", "head", "10.88.0.2")}
    cluster.pod("a", pod("a", **change))
    assert len(cluster.names) == left
    cluster.pod("a", pod("a"))
    assert len(cluster.names) == 1


def test_a_pod_that_ends_serves_while_there_is_no_other(cluster: Listener) -> None:
    cluster.service("web", service("web"))
    cluster.pod("a", pod("a", metadata={"deletionTimestamp": "now"}))
    assert cluster.targets("web") == [("10.88.0.2", 80)]
    cluster.pod("b", pod("b", "10.88.0.3"))
    assert cluster.targets("web") == [("10.88.0.3", 80)]


def test_host_names(cluster: Listener) -> None:
    cluster.service("head", service("head", clusterIP="None", publishNotReadyAddresses=True))
    cluster.pod("a", pod("a", ready=False, spec={"hostname": "a-0", "subdomain": "head"}))
    cluster.pod("b", pod("b", "10.88.0.3", spec={"hostname": "b-0", "subdomain": "other"}))
    assert cluster.names == {
        Record("ns", "head", "10.88.0.2"), Record("ns", "a-0.head", "10.88.0.2"),
        Record("ns", "head", "10.88.0.3"),
    }  # fmt: skip


def test_a_changed_service(cluster: Listener) -> None:
    cluster.pod("a", pod("a"))
    cluster.service("web", service("web"))
    cluster.service("web", service("web", selector={"x": "nobody"}))
    assert cluster.targets("web") == []
    cluster.pod("a", pod("a", metadata={"labels": {"x": "nobody"}}))
    assert cluster.targets("web") == [("10.88.0.2", 80)]
    cluster.changed.clear()
    cluster.service("web", service("web", selector={"x": "nobody"}))
    assert cluster.changed == []


def test_named_ports_that_a_pod_does_not_have(cluster: Listener) -> None:
    cluster.service("web", service("web", ports=[{"port": 80, "targetPort": "grpc"}]))
    cluster.pod("a", pod("a"))
    assert cluster.targets("web") == []


def test_other_names_for_services(cluster: Listener) -> None:
    name = "head.ns.svc.cluster.local"
    alias = service("alias", type="ExternalName", externalName=name, selector=None, clusterIP="")
    cluster.service("alias", alias)
    far = service("far", type="ExternalName", externalName="example.com", selector=None)
    cluster.service("far", far)
    assert cluster.names == set()
    cluster.service("head", service("head", clusterIP="None"))
    cluster.pod("a", pod("a"))
    assert Record("ns", "alias", "10.88.0.2") in cluster.names
    cluster.pod("a", None)
    assert cluster.names == set()


def test_slices(cluster: Listener) -> None:
    piece: Obj = {
        "metadata": {"namespace": "ns", "labels": {"kubernetes.io/service-name": "ext"}},
        "endpoints": [
            {"addresses": ["10.1.1.1"]},
            {"addresses": ["10.1.1.2"], "conditions": {"ready": False}},
        ],
        "ports": [{"name": "p", "port": 99}],
    }
    cluster.directory.set_slice("ns/s", None, piece)
    cluster.service("ext", service("ext", selector=None, ports=[{"name": "p", "port": 80}]))
    assert cluster.targets("ext") == [("10.1.1.1", 99)]
    cluster.directory.set_slice("ns/s", piece, None)
    assert cluster.targets("ext") == []
    cluster.service("bare", service("bare", selector=None, clusterIP="None"))
    bare = {
        **piece,
        "metadata": {"namespace": "ns", "labels": {"kubernetes.io/service-name": "bare"}},
    }
    cluster.directory.set_slice("ns/t", None, bare)
    assert Record("ns", "bare", "10.1.1.1") in cluster.names


def test_the_api_server(cluster: Listener) -> None:
    entry = ServiceEntry.of(
        {
            "metadata": {"name": "kubernetes", "namespace": "default"},
            "spec": {"clusterIP": "10.96.0.1", "ports": [{"port": 443, "targetPort": 6443}]},
        }
    )
    cluster.directory.set_service("default/kubernetes", entry)
    state = cluster.directory.service("default/kubernetes")
    assert state is not None and [t.all() for t in state.targets.values()] == [[("api", 6443)]]


# -- choosing --------------------------------------------------------------------------------------


def test_targets() -> None:
    targets = Targets()
    a, b, c = (Target(name, 1) for name in "abc")
    for target in (a, b, c):
        targets.put(target.address, (target,))
    assert {targets.pick() for _ in range(200)} == {a, b, c}
    assert {targets.pick(failed=frozenset({a, b})) for _ in range(50)} == {c}
    assert targets.pick(failed=frozenset({a, b, c})) in (a, b, c)
    targets.put("a", ())
    targets.put("b", (), ending=True)
    assert targets.all() == [c] and a not in targets
    targets.put("c", (c,), ending=True)
    assert targets.pick() == c
    targets.put("c", ())
    assert not targets and targets.pick() is None


def test_affinity() -> None:
    now = [0.0]
    targets = Targets(affinity=10.0, clock=lambda: now[0])
    for n in range(50):
        targets.put(n, (Target(str(n), 1),))
    first = targets.pick("me")
    assert first is not None
    now[0] = 9.0
    assert {targets.pick("me") for _ in range(20)} == {first}
    targets.put(int(first.address), ())
    assert targets.pick("me") != first
