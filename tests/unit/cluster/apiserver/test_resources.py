"""The catalog of resources."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.resources import Catalog, ResourceInfo, builtin, version_rank


def widget(version: str = "v1", plural: str = "widgets") -> ResourceInfo:
    return ResourceInfo(
        "example.test", version, plural, plural[:-1], plural[:-1].title(), True, custom=True
    )


def test_builtin_table_is_consistent() -> None:
    infos = list(builtin())
    keys = [(i.group, i.version, i.plural) for i in infos]
    assert len(set(keys)) == len(keys)
    for info in infos:
        assert info.kind[0].isupper() and info.plural == info.plural.lower()
        assert info.list_kind == f"{info.kind}List"
        assert set(info.verbs) and all(sub.verbs for sub in info.subresources.values())
    kinds = [(i.group, i.version, i.kind) for i in infos]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize(
    ("group", "version", "plural", "kind", "namespaced", "short", "subresources"),
    [
        ("", "v1", "pods", "Pod", True, ("po",), {"attach", "binding", "ephemeralcontainers", "eviction", "exec", "log", "portforward", "proxy", "resize", "status"}),  # noqa: E501
        ("", "v1", "namespaces", "Namespace", False, ("ns",), {"finalize", "status"}),
        ("apps", "v1", "deployments", "Deployment", True, ("deploy",), {"scale", "status"}),
        ("batch", "v1", "jobs", "Job", True, (), {"status"}),
        ("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",), {"token"}),
        ("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", False, ("csr",), {"approval", "status"}),  # noqa: E501
    ],
)  # fmt: skip
def test_builtin_resources(
    group: str, version: str, plural: str, kind: str, namespaced: bool,
    short: tuple[str, ...], subresources: set[str],
) -> None:  # fmt: skip
    info = Catalog().find(group, version, plural)
    assert info is not None
    assert (info.kind, info.namespaced, info.short_names) == (kind, namespaced, short)
    assert set(info.subresources) == subresources


def test_subresources_speak_kinds_of_other_groups() -> None:
    catalog = Catalog()
    deployments, pods = catalog.find("apps", "v1", "deployments"), catalog.find("", "v1", "pods")
    assert deployments is not None and pods is not None
    scale, eviction = deployments.subresources["scale"], pods.subresources["eviction"]
    assert (scale.group, scale.version, scale.kind) == ("autoscaling", "v1", "Scale")
    assert (eviction.group, eviction.version, eviction.kind) == ("policy", "v1", "Eviction")


def test_names_of_a_resource() -> None:
    catalog = Catalog()
    pods, deployments = catalog.find("", "v1", "pods"), catalog.find("apps", "v1", "deployments")
    assert pods is not None and deployments is not None
    assert (pods.api_version, pods.qualified, pods.table) == ("v1", "pods", "/pods")
    assert deployments.api_version == "apps/v1" and deployments.qualified == "deployments.apps"
    assert deployments.table == "apps/deployments"


def test_both_kinds_of_event_are_one_store() -> None:
    catalog = Catalog()
    old, new = catalog.find("", "v1", "events"), catalog.find("events.k8s.io", "v1", "events")
    assert old is not None and new is not None and old.table == new.table == "/events"


def test_both_versions_of_autoscalers_are_one_store() -> None:
    catalog = Catalog()
    one = catalog.find("autoscaling", "v1", "horizontalpodautoscalers")
    two = catalog.find("autoscaling", "v2", "horizontalpodautoscalers")
    assert one is not None and two is not None and one.table == two.table
    assert catalog.groups()["autoscaling"] == ["v2", "v1"]


def test_custom_resources_come_and_go() -> None:
    catalog = Catalog()
    before = catalog.generation
    for info in (widget("v1beta1"), widget("v1"), widget("v1", "gadgets")):
        catalog.add(info)
    assert catalog.generation > before
    assert catalog.groups()["example.test"] == ["v1", "v1beta1"]
    assert [r.plural for r in catalog.resources("example.test", "v1")] == ["gadgets", "widgets"]
    assert catalog.by_kind("example.test", "", "Widget") is not None
    assert catalog.by_kind("example.test", "v9", "Widget") is None
    changed = catalog.generation
    catalog.remove("example.test", "widgets")
    assert catalog.generation > changed
    assert catalog.groups()["example.test"] == ["v1"]
    assert catalog.find("example.test", "v1", "widgets") is None
    catalog.remove("example.test", "gadgets")
    assert "example.test" not in catalog.groups()
    assert all(info.group != "example.test" for info in catalog)


def test_versions_are_ranked_as_kubernetes_does() -> None:
    """The order of the documentation's own example."""
    ranked = [
        "v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1",
        "foo10",
    ]  # fmt: skip
    shuffled = [*ranked[5:], *ranked[:5]]
    assert sorted(shuffled, key=version_rank) == ranked
