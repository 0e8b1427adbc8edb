"""EndpointSlices of hand-written Endpoints."""

from __future__ import annotations

from typing import Any

from corral.cluster.workloads.endpoints.mirroring import MIRROR, plan_mirror

Obj = dict[str, Any]


def endpoints(*subsets: Obj, **meta: Any) -> Obj:
    base = {"namespace": "ns", "name": "db", "uid": "u1"}
    return {"metadata": {**base, **meta}, "subsets": list(subsets)}


def subset(*ips: str, port: int = 80, field: str = "addresses") -> Obj:
    return {field: [{"ip": ip} for ip in ips], "ports": [{"port": port}]}


def stored(one: Obj, number: int = 1) -> Obj:
    meta = {k: v for k, v in one["metadata"].items() if k != "generateName"}
    return {
        **one,
        "metadata": {**meta, "name": f"db-{number}", "uid": f"s{number}", "resourceVersion": "1"},
    }


def test_a_slice_for_each_family() -> None:
    annotations = {
        "endpoints.kubernetes.io/last-change-trigger-time": "now",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "team": "a",
    }
    given = endpoints(
        subset("192.0.2.1", "2001:db8::1"), labels={"x": "y"}, annotations=annotations
    )
    plan = plan_mirror(given, [])
    assert (plan.invalid, plan.skipped) == (0, 0)
    v4, v6 = plan.slices.create
    assert (v4["addressType"], v6["addressType"]) == ("IPv4", "IPv6")
    assert v4["endpoints"] == [{"addresses": ["192.0.2.1"], "conditions": {"ready": True}}]
    assert v4["ports"] == [{"name": "", "port": 80, "protocol": "TCP"}]
    assert v4["metadata"]["annotations"] == {"team": "a"}
    assert v4["metadata"]["labels"] == {
        "x": "y",
        "kubernetes.io/service-name": "db",
        "endpointslice.kubernetes.io/managed-by": MIRROR,
    }


def test_nothing_to_do_when_nothing_changed() -> None:
    given = endpoints(subset("192.0.2.1"))
    first = plan_mirror(given, []).slices.create[0]
    plan = plan_mirror(given, [stored(first)]).slices
    assert (plan.create, plan.update, plan.delete) == ([], [], [])


def test_a_changed_address_is_an_update() -> None:
    first = stored(plan_mirror(endpoints(subset("192.0.2.1")), []).slices.create[0])
    given = endpoints(subset("192.0.2.2", field="notReadyAddresses"))
    plan = plan_mirror(given, [first]).slices
    (one,) = plan.update
    assert one["metadata"]["name"] == "db-1"
    assert one["metadata"]["resourceVersion"] == "1"
    assert one["endpoints"] == [{"addresses": ["192.0.2.2"], "conditions": {"ready": False}}]
    assert (plan.create, plan.delete) == ([], [])


def test_slices_of_other_ports_are_used_again() -> None:
    first = stored(plan_mirror(endpoints(subset("192.0.2.1", port=80)), []).slices.create[0])
    plan = plan_mirror(endpoints(subset("192.0.2.1", port=81)), [first]).slices
    assert [one["metadata"]["name"] for one in plan.update] == ["db-1"]
    assert plan.update[0]["ports"][0]["port"] == 81
    assert (plan.create, plan.delete) == ([], [])


def test_surplus_slices_are_deleted() -> None:
    given = endpoints(subset("192.0.2.1"))
    first = plan_mirror(given, []).slices.create[0]
    plan = plan_mirror(given, [stored(first, 1), stored(first, 2)]).slices
    assert [one["metadata"]["name"] for one in plan.delete] == ["db-2"]
    gone = plan_mirror(endpoints(), [stored(first)]).slices
    assert [one["metadata"]["name"] for one in gone.delete] == ["db-1"]


def test_nothing_new_for_endpoints_that_go() -> None:
    given = endpoints(subset("192.0.2.1"), deletionTimestamp="2030-01-01T00:00:00Z")
    assert plan_mirror(given, []).slices.create == []


def test_what_is_left_out_is_counted() -> None:
    many = [f"10.0.{n // 250}.{n % 250 + 1}" for n in range(1003)]
    plan = plan_mirror(endpoints(subset("nonsense", *many)), [])
    assert (plan.invalid, plan.skipped) == (1, 3)
    assert len(plan.slices.create[0]["endpoints"]) == 1000
