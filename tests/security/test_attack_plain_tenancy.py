"""A cluster that cannot keep pods apart takes no second tenant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.backends.base import Backend
from tests.e2e.clusters import Up, corral

GROUP = "rbac.authorization.k8s.io"
LIGHT = ("--no-operator", "--no-gateway", "--no-registry", "--no-broker")
NAMED = f"/apis/{GROUP}/v1/namespaces/default/rolebindings"
WIDE = f"/apis/{GROUP}/v1/clusterrolebindings"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    cluster = Up(tmp_path_factory.mktemp("plain"), "--isolation", "plain", *LIGHT)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.mark.attack(
    "plain mode",
    "is started where pods cannot be kept apart, by somebody who does not know",
    "`corral up` says what pods can read, and that nobody else is given rights",
)
def test_the_owner_is_told(plain: Up) -> None:
    said = plain.log.read_text()
    assert "pods are not kept apart (corral-1: mode plain)" in said
    assert "nobody else can be given rights here" in said


def test_the_owner_is_told_by_a_detached_cluster(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    options = ("--isolation", "plain", "--share-without-isolation", *LIGHT)
    said = corral("up", "--detach", "--data-dir", data, "--port", "0", *options)
    try:
        assert said.stdout.startswith(f"corral is ready: KUBECONFIG={data}/kubeconfig")
        assert "pods are not kept apart" in said.stderr
        assert "everybody who is given rights here" in said.stderr
    finally:
        corral("down", "--data-dir", data)


def bind(backend: Backend, path: str, name: str, *subjects: tuple[str, str]) -> tuple[int, str]:
    listed: list[dict[str, Any]] = []
    for kind, subject in subjects:
        if kind == "ServiceAccount":
            listed.append({"kind": kind, "name": subject, "namespace": "default"})
        else:
            listed.append({"kind": kind, "name": subject, "apiGroup": GROUP})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "view"},
        "subjects": listed,
    }
    reply = backend.request("POST", path, binding)
    return reply.code, reply.body.decode()


@pytest.mark.attack(
    "plain mode", "is given rights in a cluster without isolation", "the binding is refused"
)
@pytest.mark.parametrize("path", [NAMED, WIDE])
@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        ("User", "mallory"),
        ("Group", "students"),
        ("Group", "system:authenticated"),
        ("User", "system:anonymous"),
    ],
)
def test_people_cannot_be_bound(plain: Up, path: str, kind: str, subject: str) -> None:
    code, text = bind(plain, path, "second", (kind, subject))
    assert code == 403
    assert subject in text
    assert "--share-without-isolation" in text


@pytest.mark.attack(
    "plain mode", "is added to a binding that is there", "the change is refused as well"
)
def test_people_cannot_be_added(plain: Up) -> None:
    assert bind(plain, NAMED, "growing", ("ServiceAccount", "default"))[0] == 201
    more = {"subjects": [{"kind": "User", "name": "mallory", "apiGroup": GROUP}]}
    path, media = f"{NAMED}/growing", "application/merge-patch+json"
    assert plain.request("PATCH", path, more, content_type=media).code == 403


def test_programs_can_be_bound(plain: Up) -> None:
    assert bind(plain, NAMED, "program", ("ServiceAccount", "default"))[0] == 201
    assert bind(plain, WIDE, "part", ("User", "corral:operator"))[0] == 201


def test_the_owner_can_be_told_to_share(tmp_path: Any) -> None:
    options = ("--isolation", "plain", "--share-without-isolation", *LIGHT)
    cluster = Up(tmp_path, *options)
    try:
        cluster.start()
        assert bind(cluster, NAMED, "second", ("User", "mallory"))[0] == 201
    finally:
        cluster.stop()


@pytest.mark.attack(
    "plain mode",
    "has rights from a time when pods were kept apart, and waits for the cluster to be started "
    "where they are not",
    "`corral up` does not start, and names who has rights",
)
def test_people_who_are_there_already(tmp_path: Path) -> None:
    cluster = Up(tmp_path, "--isolation", "plain", "--share-without-isolation", *LIGHT)
    try:
        cluster.start()
        assert bind(cluster, NAMED, "second", ("User", "mallory"))[0] == 201
    finally:
        cluster.stop()
    data = str(cluster.data)
    options = ("--data-dir", data, "--port", "0", "--isolation", "plain", *LIGHT)
    try:
        refused = corral("up", "--detach", *options, code=1)
    finally:
        corral("down", "--data-dir", data)
    assert "User mallory" in refused.stderr
    assert "--share-without-isolation" in refused.stderr
