"""Addresses and node ports of services, at the edges of their ranges."""

from __future__ import annotations

import random
from typing import Any

import pytest

from corral.cluster.apiserver.builtin.strategy.allocation import (
    ServiceNetwork,
    Taken,
    allocate_create,
    allocate_update,
    claims,
)
from corral.kube.errors import ApiError, InternalError, Invalid


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s"}, "spec": {"type": "ClusterIP", **spec}}


def network(**settings: Any) -> ServiceNetwork:
    return ServiceNetwork(rng=random.Random(7), **settings)


def test_upper_band_is_used_first() -> None:
    obj = service()
    allocate_create(obj, Taken(), network(cidr="10.0.0.0/24"))
    last = int(obj["spec"]["clusterIP"].rpartition(".")[2])
    assert 16 <= last <= 254
    assert obj["spec"]["clusterIPs"] == [obj["spec"]["clusterIP"]]
    assert obj["spec"]["ipFamilies"] == ["IPv4"]
    assert obj["spec"]["ipFamilyPolicy"] == "SingleStack"


def test_every_address_but_the_edges_is_given_once() -> None:
    taken = Taken()
    for _ in range(14):
        obj = service()
        allocate_create(obj, taken, network(cidr="10.0.0.0/28"))
        assert obj["spec"]["clusterIP"] not in taken.addresses
        taken.addresses |= claims(obj)[0]
    assert taken.addresses == {f"10.0.0.{n}" for n in range(1, 15)}
    with pytest.raises(InternalError, match="range is full"):
        allocate_create(service(), taken, network(cidr="10.0.0.0/28"))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"clusterIP": "10.0.0.5"},
            'Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.0.0.5"]: '
            "failed to allocate IP 10.0.0.5: provided IP is already allocated",
        ),
        (
            {"clusterIP": "10.9.0.5"},
            'Service "s" is invalid: spec.clusterIPs: Invalid value: ["10.9.0.5"]: '
            "failed to allocate IP 10.9.0.5: the provided IP (10.9.0.5) is not in the valid range."
            " The range of valid IPs is 10.0.0.0/24",
        ),
        (
            {"clusterIP": "x"},
            'Service "s" is invalid: spec.clusterIPs[0]: Invalid value: "x": '
            "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)",
        ),
        (
            {"ipFamilyPolicy": "RequireDualStack"},
            'Service "s" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": '
            "this cluster is not configured for dual-stack services",
        ),
        (
            {"ipFamilies": ["IPv6"]},
            'Service "s" is invalid: spec.ipFamilies[0]: Invalid value: "IPv6": '
            "not configured on this cluster",
        ),
        (
            {"clusterIP": "2001:db8::1"},
            'Service "s" is invalid: spec.clusterIPs[0]: Invalid value: ["2001:db8::1"]: '
            "IPv6 is not configured on this cluster",
        ),
        (
            {"ipFamilyPolicy": "SingleStack", "ipFamilies": ["IPv4", "IPv6"]},
            'Service "s" is invalid: spec.ipFamilyPolicy: Invalid value: "SingleStack": must be '
            "'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 30005}]},
            'Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 30005: '
            "provided port is already allocated",
        ),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]},
            'Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is '
            "not in the valid range. The range of valid ports is 30000-32767",
        ),
    ],
    ids=[
        "taken", "outside", "no-address", "dual", "family", "v6", "two", "port-taken", "low-port",
    ],
)  # fmt: skip
def test_refusals(spec: dict[str, Any], message: str) -> None:
    taken = Taken({"10.0.0.5"}, {30005})
    with pytest.raises(Invalid) as caught:
        allocate_create(service(**spec), taken, network(cidr="10.0.0.0/24"))
    assert caught.value.message == message


def test_protocols_share_a_node_port_of_one_port() -> None:
    ports = [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}, {"port": 80}]
    obj = service(type="NodePort", ports=ports)
    allocate_create(obj, Taken(), network())
    first, second, third = (port["nodePort"] for port in obj["spec"]["ports"])
    assert first == second != third
    assert all(30085 <= port <= 32767 for port in (first, third))


def test_ports_run_out() -> None:
    small = network(first_port=30000, last_port=30001)
    with pytest.raises(InternalError, match="failed to allocate a nodePort: range is full"):
        allocate_create(
            service(type="NodePort", ports=[{"port": 1}]), Taken(set(), {30000, 30001}), small
        )


def test_health_check_port_that_is_taken() -> None:
    obj = service(type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=30005)
    with pytest.raises(ApiError, match="failed to allocate requested HealthCheck NodePort 30005"):
        allocate_create(obj, Taken(set(), {30005}), network())


def test_claims_of_a_service() -> None:
    obj = service(
        clusterIPs=["10.0.0.1"], ports=[{"nodePort": 30001}, {"port": 2}], healthCheckNodePort=30002
    )
    assert claims(obj) == ({"10.0.0.1"}, {30001, 30002})
    assert claims(service(clusterIPs=["None"])) == (set(), set())


def test_cleared_address_of_the_list_follows() -> None:
    old = service(clusterIP="10.0.0.1", clusterIPs=["10.0.0.1"], ipFamilyPolicy="SingleStack")
    new = service(clusterIP="10.0.0.9", clusterIPs=["10.0.0.1"])
    allocate_update(new, old, Taken({"10.0.0.1"}), network(cidr="10.0.0.0/24"))
    assert new["spec"]["clusterIPs"] == ["10.0.0.9"]


def test_same_node_port_twice_is_refused_on_update() -> None:
    old = service(type="NodePort", ports=[{"port": 1, "protocol": "TCP", "nodePort": 30001}])
    ports = [{"name": n, "port": 1, "protocol": "TCP", "nodePort": 30001} for n in "ab"]
    with pytest.raises(InternalError, match="duplicate nodePort"):
        allocate_update(service(type="NodePort", ports=ports), old, Taken(), network())
