"""What the recorded rows do not reach: lists as a whole, odd objects, the definitions' words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.apiserver.schema import definitions
from corral.cluster.apiserver.tables import table_for
from corral.cluster.apiserver.tables.cells import age, labels, selector, shortened
from corral.cluster.apiserver.tables.columns import printed_kinds
from corral.cluster.apiserver.tables.table import _ROWS

NOW = datetime(2026, 1, 31, 12, 0, 0, tzinfo=UTC)


def stamp(**ago: float) -> str:
    return (NOW - timedelta(**ago)).strftime("%Y-%m-%dT%H:%M:%SZ")


def cells(group: str, kind: str, obj: dict[str, Any], version: str = "v1") -> list[Any]:
    obj.setdefault("metadata", {}).setdefault("name", "x")
    return table_for(group, version, kind).row(obj, NOW)


@pytest.mark.parametrize(
    ("ago", "shown"),
    [
        ({"seconds": -5}, "<invalid>"),
        ({"seconds": -1}, "0s"),
        ({"seconds": 0}, "0s"),
        ({"seconds": 119}, "119s"),
        ({"seconds": 120}, "2m"),
        ({"minutes": 9, "seconds": 59}, "9m59s"),
        ({"minutes": 10, "seconds": 30}, "10m"),
        ({"minutes": 179}, "179m"),
        ({"hours": 3}, "3h"),
        ({"hours": 7, "minutes": 59}, "7h59m"),
        ({"hours": 8, "minutes": 59}, "8h"),
        ({"hours": 47}, "47h"),
        ({"days": 2}, "2d"),
        ({"days": 7, "hours": 23}, "7d23h"),
        ({"days": 8, "hours": 5}, "8d"),
        ({"days": 729}, "729d"),
        ({"days": 730}, "2y"),
        ({"days": 731}, "2y1d"),
        ({"days": 365 * 8 + 100}, "8y"),
    ],
)
def test_age(ago: dict[str, float], shown: str) -> None:
    assert age(stamp(**ago), NOW) == shown


@pytest.mark.parametrize("missing", [None, "", "0001-01-01T00:00:00Z"])
def test_age_of_a_moment_that_never_was(missing: str | None) -> None:
    assert age(missing, NOW) == "<unknown>"


def test_age_of_a_moment_in_microseconds() -> None:
    assert age("2026-01-31T11:58:59.500000Z", NOW) == "60s"


def test_labels_are_sorted_as_text() -> None:
    assert labels({"a": "2", "b": "1", "a-b": "3"}) == "a-b=3,a=2,b=1"
    assert labels({}) == labels(None) == "<none>"


def test_selector_is_sorted_by_key() -> None:
    found = {
        "matchLabels": {"b": "1"},
        "matchExpressions": [
            {"key": "c", "operator": "NotIn", "values": ["z", "y"]},
            {"key": "a", "operator": "DoesNotExist"},
        ],
    }
    assert selector(found) == "!a,b=1,c notin (y,z)"
    assert selector({}) == selector(None) == ""


def test_shortened() -> None:
    assert shortened(["a", "b", "c"]) == "a,b,c"
    assert shortened("abcde") == "a,b,c + 2 more..."
    assert shortened([]) == "<unset>"


def test_every_printed_kind_has_a_row() -> None:
    assert set(printed_kinds()) == set(_ROWS)


@pytest.mark.parametrize(("group", "kind"), printed_kinds())
def test_the_barest_object_is_printed(group: str, kind: str) -> None:
    row = cells(group, kind, {})
    table = table_for(group, "v1", kind)
    extra = 1 if kind == "IPAddress" else 0
    assert len(row) == len(table.columns) + extra


def test_unknown_kinds_show_name_and_creation() -> None:
    table = table_for("example.com", "v1", "Widget")
    assert [(c["name"], c["type"], c["format"]) for c in table.columns] == [
        ("Name", "string", "name"),
        ("Created At", "date", ""),
    ]
    made = {"metadata": {"name": "w", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    assert table.row(made, NOW) == ["w", "2026-01-01T00:00:00Z"]
    assert table.row({"metadata": {"name": "w"}}, NOW) == ["w", "0001-01-01T00:00:00Z"]


def test_tables_are_made_once() -> None:
    assert table_for("", "v1", "Pod") is table_for("", "v1", "Pod")


def test_columns_carry_the_words_of_their_field() -> None:
    found = {c["name"]: c["description"] for c in table_for("", "v1", "Pod").columns}
    fields = definitions()["io.k8s.api.core.v1.PodStatus"]["properties"]
    assert found["IP"] == fields["podIP"]["description"] != ""
    assert found["Name"].startswith("Name must be unique within a namespace.")
    assert found["Ready"] == ""


def storage_class(name: str, made: str, default: str = "true") -> dict[str, Any]:
    key = "storageclass.kubernetes.io/is-default-class"
    annotations = {key: default}
    meta = {"name": name, "creationTimestamp": made, "annotations": annotations}
    return {"metadata": meta, "provisioner": "p"}


@pytest.mark.parametrize(
    ("classes", "marked"),
    [
        pytest.param([("a", 9, "false"), ("b", 1, "no")], None, id="none"),
        pytest.param([("a", 9, "true"), ("b", 1, "false")], "a", id="one"),
        pytest.param([("a", 9, "true"), ("b", 1, "true")], "b", id="newest"),
        pytest.param([("b", 1, "true"), ("a", 1, "true")], "a", id="same age, first by name"),
    ],
)
def test_lists_mark_the_default_storage_class(
    classes: list[tuple[str, int, str]], marked: str | None
) -> None:
    objs = [storage_class(name, stamp(days=days), default) for name, days, default in classes]
    rows = table_for("storage.k8s.io", "v1", "StorageClass").rows(objs, NOW)
    assert [row[0] for row in rows if row[0].endswith(" (default)")] == (
        [f"{marked} (default)"] if marked else []
    )


def test_a_storage_class_alone_is_not_marked() -> None:
    row = cells("storage.k8s.io", "StorageClass", storage_class("a", stamp(days=1)))
    assert row == ["a", "p", "Delete", "Immediate", False, "24h"]


def test_the_default_ingress_class_is_marked() -> None:
    key = "ingressclass.kubernetes.io/is-default-class"
    obj = {"metadata": {"name": "n", "annotations": {key: "true"}}, "spec": {"controller": "c"}}
    assert cells("networking.k8s.io", "IngressClass", obj)[0] == "n (default)"


@pytest.mark.parametrize(
    ("parent", "shown"),
    [
        (None, "<none>"),
        ({"resource": "services", "namespace": "ns", "name": "s"}, "services/ns/s"),
        ({"group": "Example.com", "resource": "Things", "name": "t"}, "things.example.com/t"),
    ],
)
def test_ip_address_parent(parent: dict[str, str] | None, shown: str) -> None:
    obj = {"spec": {"parentRef": parent} if parent else {}}
    assert cells("networking.k8s.io", "IPAddress", obj)[1] == shown


def test_csr_with_a_certificate_is_issued() -> None:
    status = {"conditions": [{"type": "Approved", "status": "True"}], "certificate": "eA=="}
    row = cells("certificates.k8s.io", "CertificateSigningRequest", {"status": status})
    assert row[-1] == "Approved,Issued"


@pytest.mark.parametrize(
    ("hosts", "shown"),
    [
        (["a", "b", "c"], "a,b,c"),
        (["a", "", "b", "c", ""], "a,b,c + 2 more..."),
        (["", "", "", ""], "*"),
    ],
)
def test_ingress_hosts(hosts: list[str], shown: str) -> None:
    obj = {"spec": {"rules": [{"host": host} if host else {} for host in hosts]}}
    assert cells("networking.k8s.io", "Ingress", obj)[2] == shown


def test_autoscaler_of_an_unknown_metric_type() -> None:
    obj = {"spec": {"metrics": [{"type": "Odd"}]}}
    assert cells("autoscaling", "HorizontalPodAutoscaler", obj, "v2")[2] == "<unknown type>"


def test_autoscaler_without_any_target() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {}}}
    obj = {"spec": {"metrics": [metric]}}
    row = cells("autoscaling", "HorizontalPodAutoscaler", obj, "v2")
    assert row[2] == "cpu: <unknown>/<auto>"


def test_first_version_prints_the_stored_order_when_given_it() -> None:
    def metric(name: str) -> dict[str, Any]:
        target = {"type": "Utilization", "averageUtilization": 50}
        return {"type": "Resource", "resource": {"name": name, "target": target}}

    stored = {
        "apiVersion": "autoscaling/v2",
        "spec": {"metrics": [metric("cpu"), metric("memory")]},
    }
    row = cells("autoscaling", "HorizontalPodAutoscaler", stored, "v1")
    assert row[2] == "cpu: <unknown>/50%, memory: <unknown>/50%"


def test_pod_metrics_are_summed() -> None:
    usage = [{"cpu": "250m", "memory": "64Mi"}, {"cpu": "1", "memory": "960Mi"}]
    obj = {"containers": [{"usage": u} for u in usage], "window": "15s"}
    row = cells("metrics.k8s.io", "PodMetrics", obj, "v1beta1")
    assert row == ["x", "1250m", "1Gi", "15s"]


def test_node_metrics() -> None:
    obj = {"usage": {"cpu": "3", "memory": "2Gi"}, "window": "20.5s"}
    row = cells("metrics.k8s.io", "NodeMetrics", obj, "v1beta1")
    assert row == ["x", "3", "2Gi", "20.5s"]
