"""Settings of a process, and where its Service leads."""

from __future__ import annotations

import pytest

from corral.operator.endpoint import slice_of
from corral.operator.manifests import install_objects, local_objects
from corral.operator.settings import ProcessSettings, own_identity
from corral.operator.tls import served_hosts


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (ProcessSettings(), "https://corral-operator-reports.corral-system.svc:8443"),
        (ProcessSettings(namespace="x"), "https://corral-operator-reports.x.svc:8443"),
        (ProcessSettings(report_url="https://10.0.0.1:99/"), "https://10.0.0.1:99"),
        (ProcessSettings(report_port=None, report_url="https://10.0.0.1:99"), None),
    ],
)
def test_where_pods_report_to(settings: ProcessSettings, expected: str | None) -> None:
    assert settings.reports_to == expected


def test_the_certificate_is_for_whatever_pods_are_told() -> None:
    settings = ProcessSettings(
        namespace="x", report_url="https://[fd00::2]:9444", webhook_url_host="127.0.0.1"
    )
    hosts = served_hosts(settings)
    assert "corral-operator-webhooks.x.svc" in hosts
    assert "corral-operator-reports.x.svc" in hosts
    assert {"fd00::2", "127.0.0.1"} <= set(hosts)
    assert "" not in served_hosts(ProcessSettings())


def test_no_two_processes_are_called_the_same() -> None:
    assert own_identity() != own_identity()


@pytest.mark.parametrize(("address", "family"), [("10.1.2.3", "IPv4"), ("fd00::7", "IPv6")])
def test_the_slice_belongs_to_the_service(address: str, family: str) -> None:
    endpoints = slice_of("corral-system", address, 9444)
    assert endpoints["addressType"] == family
    name = endpoints["metadata"]["labels"]["kubernetes.io/service-name"]
    for objects, selects in ((install_objects(), True), (local_objects("someone"), False)):
        service = next(o for o in objects if o["metadata"]["name"] == name)
        assert ("selector" in service["spec"]) is selects
        assert endpoints["ports"][0]["name"] == service["spec"]["ports"][0]["name"]
    assert endpoints["endpoints"] == [{"addresses": [address], "conditions": {"ready": True}}]
