"""Services and pods find each other by index, and only changes that matter wake a service."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from corral.cluster.workloads.endpoints.selection import Selection, endpoints_changed
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.resources import PODS, SERVICES
from corral.runtime import Change, Informer, Scope

Obj = dict[str, Any]


def informer(resource: Any) -> Informer:
    return Informer(KubeClient(ClusterConfig(server="http://127.0.0.1:1")), Scope(resource))


def pod(name: str, namespace: str = "ns", **labels: str) -> Obj:
    meta = {"namespace": namespace, "name": name, "labels": labels}
    return {"metadata": meta, "spec": {"nodeName": "n"}, "status": {"podIP": "10.0.0.1"}}


def service(name: str, selector: dict[str, str] | None, **spec: Any) -> Obj:
    body = {**spec, **({"selector": selector} if selector is not None else {})}
    return {"metadata": {"namespace": "ns", "name": name}, "spec": body}


@pytest.fixture
async def world() -> tuple[Selection, Informer, Informer]:
    services, pods = informer(SERVICES), informer(PODS)
    return Selection(services, pods), services, pods


World = tuple[Selection, Informer, Informer]


async def test_candidates_come_from_the_rarest_label(world: World) -> None:
    selection, _, pods = world
    for number in range(5):
        pods.store.put(pod(f"p{number}", app="web", tier="a" if number == 3 else "b"))
    pods.store.put(pod("elsewhere", namespace="other", app="web", tier="a"))
    found = selection.candidates(service("s", {"app": "web", "tier": "a"}))
    assert [one["metadata"]["name"] for one in found] == ["p3"]
    assert selection.candidates(service("s", {"app": "web", "tier": "none"})) == []
    assert selection.candidates(service("s", None)) == []
    assert selection.candidates(service("s", {"app": "web"}, type="ExternalName")) == []


async def test_services_of_a_pod_have_all_of_their_labels_on_it(world: World) -> None:
    selection, services, _ = world
    for name, selector in (
        ("one", {"app": "web"}),
        ("both", {"app": "web", "tier": "a"}),
        ("more", {"app": "web", "zone": "z"}),
        ("none", None),
        ("empty", {}),
    ):
        services.store.put(service(name, selector))
    assert set(selection.services_of(pod("p", app="web", tier="a"))) == {"ns/one", "ns/both"}
    assert set(selection.services_of(pod("p", namespace="other", app="web"))) == set()


async def test_old_and_new_services_are_affected_by_a_label(world: World) -> None:
    selection, services, _ = world
    services.store.put(service("a", {"app": "a"}))
    services.store.put(service("b", {"app": "b"}))
    change = Change("updated", pod("p", app="a"), pod("p", app="b"))
    assert selection.affected_by(change) == {"ns/a", "ns/b"}
    same = Change("updated", pod("p", app="a"), pod("p", app="a"))
    assert selection.affected_by(same) == set()
    assert selection.affected_by(Change("deleted", pod("p", app="a"), None)) == {"ns/a"}


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        (("metadata", "labels", "app"), "b", True),
        (("metadata", "deletionTimestamp"), "2030-01-01T00:00:00Z", True),
        (("metadata", "annotations"), {"a": "b"}, False),
        (("metadata", "resourceVersion"), "9", False),
        (("spec", "hostname"), "h", True),
        (("spec", "nodeName"), "m", True),
        (("status", "podIP"), "10.0.0.2", True),
        (("status", "phase"), "Succeeded", True),
        (("status", "phase"), "Running", False),
        (("status", "conditions"), [{"type": "Ready", "status": "True"}], True),
        (("status", "conditions"), [{"type": "Initialized", "status": "True"}], False),
        (("status", "containerStatuses"), [{"name": "c", "restartCount": 3}], False),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else None,
)
def test_which_changes_of_a_pod_matter(path: tuple[str, ...], value: Any, expected: bool) -> None:
    old = pod("p", app="a")
    new = copy.deepcopy(old)
    target = new
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    assert endpoints_changed(old, new) is expected
