"""The Endpoints object."""

from __future__ import annotations

from typing import Any

from corral.cluster.workloads.endpoints import endpoints_object
from corral.kube.types import Obj

LABELS = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}


def service(**spec: Any) -> Obj:
    return {"metadata": {"name": "web", "namespace": "ns"},
            "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "ports": [{"port": 80}],
                     **spec}}  # fmt: skip


def pod(name: str, *, ready: bool = True, deleting: bool = False, ip: str = "", **spec: Any) -> Obj:
    meta: Obj = {"name": name, "namespace": "ns", "uid": name}
    if deleting:
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    return {"metadata": meta, "spec": {"nodeName": "n", **spec},
            "status": {"phase": "Running", "podIP": ip or f"10.1.0.{len(name)}",
                       "conditions": [{"type": "Ready", "status": str(ready)}]}}  # fmt: skip


def address(name: str) -> Obj:
    target = {"kind": "Pod", "namespace": "ns", "name": name, "uid": name}
    return {"ip": f"10.1.0.{len(name)}", "targetRef": target, "nodeName": "n"}


def test_an_empty_object() -> None:
    found = endpoints_object(service(), [], None)
    assert found == {"apiVersion": "v1", "kind": "Endpoints",
                     "metadata": {"name": "web", "namespace": "ns", "labels": LABELS}}  # fmt: skip
    assert endpoints_object(service(), [], found) is None


def test_ready_and_not_ready() -> None:
    pods = [pod("a"), pod("bb", ready=False), pod("ccc", deleting=True)]
    found = endpoints_object(service(), pods, None, trigger_time="t")
    assert found is not None
    assert found["subsets"] == [{
        "addresses": [address("a")], "notReadyAddresses": [address("bb")],
        "ports": [{"port": 80, "protocol": "TCP"}]}]  # fmt: skip
    key = "endpoints.kubernetes.io/last-change-trigger-time"
    assert found["metadata"]["annotations"] == {key: "t"}
    assert endpoints_object(service(), pods, found) is None
    shown = endpoints_object(service(publishNotReadyAddresses=True), pods, found)
    assert shown is not None and len(shown["subsets"][0]["addresses"]) == 3
    assert "annotations" not in shown["metadata"]


def test_ports_of_the_same_pods_share_a_subset() -> None:
    ports = [{"name": "a", "port": 1}, {"name": "b", "port": 2},
             {"name": "c", "port": 3, "targetPort": "x"}]  # fmt: skip
    named = pod("bb", containers=[{"ports": [{"name": "x", "containerPort": 9}]}])
    found = endpoints_object(service(ports=ports), [pod("a"), named], None)
    assert found is not None
    shape = [([p["port"] for p in s["ports"]], len(s["addresses"])) for s in found["subsets"]]
    assert shape == [([1, 2], 2), ([9], 1)]


def test_headless_without_ports() -> None:
    one = pod("a", hostname="a", subdomain="web")
    found = endpoints_object(service(clusterIP="None", ports=[]), [one], None)
    assert found is not None
    assert found["subsets"] == [{"addresses": [{**address("a"), "hostname": "a"}]}]
    assert found["metadata"]["labels"] == {**LABELS, "service.kubernetes.io/headless": ""}


def test_a_thousand_addresses_at_most() -> None:
    pods = [pod(f"p{i}", ip=f"10.1.{i // 200}.{i % 200 + 1}", ready=i > 10) for i in range(1005)]
    found = endpoints_object(service(), pods, None)
    assert found is not None
    (subset,) = found["subsets"]
    assert (len(subset["addresses"]), len(subset["notReadyAddresses"])) == (994, 6)
    assert found["metadata"]["annotations"] == {
        "endpoints.kubernetes.io/over-capacity": "truncated"
    }
