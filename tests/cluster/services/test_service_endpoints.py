"""EndpointSlices and Endpoints of services: the same cases on every backend."""

from __future__ import annotations

import pytest

from tests.cluster.manifests import obj
from tests.cluster.objects import eventually
from tests.cluster.services.service_stage import (
    NOT_READY,
    READY,
    Stage,
    service,
    settles,
)


def test_ready_pods_are_listed_in_both_forms(stage: Stage) -> None:
    stage.objects.create("services", service() | {})
    first = stage.run("one", "10.1.0.1")
    stage.run("two", "10.1.0.2")
    settles(lambda: stage.addresses(), ({"10.1.0.1", "10.1.0.2"}, set()))
    settles(stage.conditions, {"one": READY, "two": READY})
    (found,) = stage.slices()
    assert found["addressType"] == "IPv4"
    assert found["ports"] == [{"name": "", "port": 8080, "protocol": "TCP"}]
    labels = found["metadata"]["labels"]
    assert labels["endpointslice.kubernetes.io/managed-by"] == "endpointslice-controller.k8s.io"
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Service", "web", True)
    assert "endpoints.kubernetes.io/last-change-trigger-time" in found["metadata"]["annotations"]
    one = stage.endpoints()["one"]
    assert one["addresses"] == ["10.1.0.1"]
    assert one["nodeName"] == stage.node
    meta = first["metadata"]
    assert one["targetRef"] == {
        "kind": "Pod",
        "namespace": meta["namespace"],
        "name": "one",
        "uid": meta["uid"],
    }
    endpoints = stage.objects.get("v1", "endpoints", "web")
    assert endpoints["metadata"]["labels"] == {
        "endpoints.kubernetes.io/managed-by": "endpoint-controller"
    }
    (subset,) = endpoints["subsets"]
    assert subset["ports"] == [{"port": 8080, "protocol": "TCP"}]


def test_readiness_comes_and_goes(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1", ready=False)
    settles(stage.conditions, {"one": NOT_READY})
    settles(stage.addresses, (set(), {"10.1.0.1"}))
    stage.say("one")
    settles(stage.conditions, {"one": READY})
    settles(stage.addresses, ({"10.1.0.1"}, set()))
    stage.say("one", ready=False)
    settles(stage.conditions, {"one": NOT_READY})


def test_a_pod_that_is_ending_serves_but_is_not_ready(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1")
    settles(stage.conditions, {"one": READY})
    stage.objects.delete("v1", "pods", "one")
    settles(stage.conditions, {"one": (False, True, True)})
    settles(stage.addresses, (set(), set()))
    stage.kill("one")
    settles(stage.conditions, {})


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_not_listed(stage: Stage, phase: str) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1")
    settles(stage.conditions, {"one": READY})
    stage.say("one", ready=False, phase=phase)
    settles(stage.conditions, {})
    settles(stage.addresses, (set(), set()))


def test_pods_without_address_wait(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "")
    stage.run("two", "10.1.0.2")
    settles(stage.conditions, {"two": READY})


def test_not_ready_addresses_are_published_on_demand(stage: Stage) -> None:
    stage.objects.create("services", service(clusterIP="None", publishNotReadyAddresses=True))
    stage.run("one", "10.1.0.1", ready=False)
    settles(stage.conditions, {"one": (True, False, False)})
    settles(stage.addresses, ({"10.1.0.1"}, set()))
    (found,) = stage.slices()
    assert found["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_headless_names_its_pods(stage: Stage) -> None:
    stage.objects.create("services", service("db", clusterIP="None", ports=[]))
    stage.run("db-0", "10.1.0.1", hostname="db-0", subdomain="db")
    stage.run("db-1", "10.1.0.2", hostname="db-1", subdomain="elsewhere")
    settles(lambda: stage.conditions("db"), {"db-0": READY, "db-1": READY})
    found = stage.endpoints("db")
    assert found["db-0"]["hostname"] == "db-0"
    assert "hostname" not in found["db-1"]
    (one,) = stage.slices("db")
    assert not one.get("ports")
    settles(lambda: stage.addresses("db"), ({"10.1.0.1", "10.1.0.2"}, set()))


def test_named_ports_may_differ_between_pods(stage: Stage) -> None:
    ports = [{"name": "http", "port": 80, "targetPort": "web"}]
    stage.objects.create("services", service(ports=ports))
    for name, ip, number in (("one", "10.1.0.1", 8080), ("two", "10.1.0.2", 9090)):
        stage.run(name, ip, ports=[{"name": "web", "containerPort": number}])
    settles(stage.conditions, {"one": READY, "two": READY})
    found = {one["endpoints"][0]["targetRef"]["name"]: one["ports"][0] for one in stage.slices()}
    assert {name: port["port"] for name, port in found.items()} == {"one": 8080, "two": 9090}
    assert {port["name"] for port in found.values()} == {"http"}


def test_labels_and_selectors_may_change(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1")
    stage.run("two", "10.1.0.2", labels={"app": "other"})
    settles(stage.conditions, {"one": READY})
    stage.objects.patch("v1", "pods", "two", {"metadata": {"labels": {"app": "web"}}})
    settles(stage.conditions, {"one": READY, "two": READY})
    stage.objects.patch("v1", "pods", "one", {"metadata": {"labels": {"app": "other"}}})
    settles(stage.conditions, {"two": READY})
    stage.objects.patch("v1", "services", "web", {"spec": {"selector": {"app": "other"}}})
    settles(stage.conditions, {"one": READY})
    settles(stage.addresses, ({"10.1.0.1"}, set()))


def test_ports_may_change(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1")
    settles(stage.conditions, {"one": READY})
    ports = [{"name": "a", "port": 80, "targetPort": 81, "protocol": "TCP"}]
    stage.objects.patch("v1", "services", "web", {"spec": {"ports": ports}})
    settles(
        lambda: [one.get("ports") for one in stage.slices()],
        [[{"name": "a", "port": 81, "protocol": "TCP"}]],
    )
    settles(stage.conditions, {"one": READY})


def test_endpoints_go_with_their_service(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1")
    settles(stage.addresses, ({"10.1.0.1"}, set()))
    stage.objects.delete("v1", "services", "web")
    settles(stage.slices, [])
    eventually(lambda: stage.objects.find("v1", "endpoints", "web") is None)


def test_a_service_without_pods_has_an_empty_slice(stage: Stage) -> None:
    stage.objects.create("services", service())
    settles(lambda: [one.get("endpoints") or [] for one in stage.slices()], [[]])
    eventually(lambda: stage.objects.find("v1", "endpoints", "web"))
    assert "subsets" not in stage.objects.get("v1", "endpoints", "web")


def test_the_zone_of_the_node_is_told(stage: Stage) -> None:
    zone = {"topology.kubernetes.io/zone": "z1"}
    name = stage.add_node(f"{stage.node}-z", **zone)
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1", node=name)
    settles(stage.conditions, {"one": READY})
    assert stage.endpoints()["one"]["zone"] == "z1"


def test_what_others_do_to_slices_is_undone(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1")
    settles(stage.conditions, {"one": READY})
    (found,) = stage.slices()
    name = found["metadata"]["name"]
    stage.objects.patch("discovery.k8s.io/v1", "endpointslices", name, {"endpoints": []})
    settles(stage.conditions, {"one": READY})
    stage.objects.delete("discovery.k8s.io/v1", "endpointslices", name)
    eventually(lambda: stage.slices() and stage.slices()[0]["metadata"]["name"] != name)
    settles(stage.conditions, {"one": READY})
    stage.objects.delete("v1", "endpoints", "web")
    settles(stage.addresses, ({"10.1.0.1"}, set()))


def test_many_pods_fill_slices_of_a_hundred(stage: Stage) -> None:
    for number in range(105):
        stage.run(f"p{number}", f"10.1.1.{number + 1}")
    stage.objects.create("services", service())
    settles(lambda: len(stage.conditions()), 105)
    assert sorted(len(one["endpoints"]) for one in stage.slices()) == [5, 100]
    settles(lambda: len(stage.addresses()[0]), 105)
    for number in range(105):
        stage.kill(f"p{number}")
    settles(stage.conditions, {})
    settles(lambda: len(stage.slices()), 1)


def test_services_without_selector_are_left_alone(stage: Stage) -> None:
    stage.objects.create("services", service("plain", selector=None))
    external = {"type": "ExternalName", "externalName": "example.test", "ports": []}
    stage.objects.create("services", service("out", **external))
    stage.objects.create("services", service("last"))
    settles(lambda: len(stage.slices("last")), 1)
    for name in ("plain", "out"):
        assert stage.slices(name) == []
        assert stage.objects.find("v1", "endpoints", name) is None


def by_hand(*addresses: str, **rest: object) -> dict[str, object]:
    subset = {
        "addresses": [{"ip": ip} for ip in addresses],
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    }
    return obj("v1", "Endpoints", "plain", subsets=[subset], **rest)


def test_endpoints_by_hand_are_mirrored(stage: Stage) -> None:
    stage.objects.create("endpoints", by_hand("192.0.2.7", "2001:db8::7", labels={"team": "a"}))
    stage.objects.create("services", service("plain", selector=None))
    settles(lambda: set(stage.endpoints("plain")), {"192.0.2.7", "2001:db8::7"})
    found = {one["addressType"]: one for one in stage.slices("plain")}
    assert set(found) == {"IPv4", "IPv6"}
    labels = found["IPv4"]["metadata"]["labels"]
    assert labels["team"] == "a"
    assert labels["endpointslice.kubernetes.io/managed-by"] == (
        "endpointslicemirroring-controller.k8s.io"
    )
    assert found["IPv4"]["metadata"]["ownerReferences"][0]["kind"] == "Endpoints"
    assert found["IPv4"]["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    subset = {"notReadyAddresses": [{"ip": "192.0.2.8"}], "ports": [{"port": 1}]}
    stage.objects.patch("v1", "endpoints", "plain", {"subsets": [subset]})
    settles(lambda: set(stage.endpoints("plain")), {"192.0.2.8"})
    assert stage.endpoints("plain")["192.0.2.8"]["conditions"] == {"ready": False}
    stage.objects.delete("v1", "endpoints", "plain")
    settles(lambda: stage.slices("plain"), [])


def test_some_endpoints_are_not_mirrored(stage: Stage) -> None:
    skip = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    stage.objects.create("services", service("plain", selector=None))
    stage.objects.create("endpoints", by_hand("192.0.2.7", labels=skip))
    stage.objects.create("services", service("last"))
    settles(lambda: len(stage.slices("last")), 1)
    assert stage.slices("plain") == []


def test_trigger_time_follows_readiness(stage: Stage) -> None:
    stage.objects.create("services", service())
    stage.run("one", "10.1.0.1", ready=False)
    settles(stage.conditions, {"one": NOT_READY})
    stage.say("one", since="2090-01-01T00:00:00Z")
    settles(stage.conditions, {"one": READY})
    note = "endpoints.kubernetes.io/last-change-trigger-time"
    assert stage.slices()[0]["metadata"]["annotations"][note] == "2090-01-01T00:00:00Z"
    settles(stage.addresses, ({"10.1.0.1"}, set()))
    endpoints = stage.objects.get("v1", "endpoints", "web")
    assert endpoints["metadata"]["annotations"][note] == "2090-01-01T00:00:00Z"
