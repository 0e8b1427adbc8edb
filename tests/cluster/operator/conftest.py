"""A cluster of its own, with a node that runs pods, and the operator's rights in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.kube import KubeClient
from corral.operator import rbac
from corral.operator.install import apply_objects, wait_served
from corral.operator.manifests import InstallSettings, install_objects
from corral.operator.settings import NAMESPACE
from tests.backends import Backend, Node, add_node, own_backend, own_scope

INSTALLED = (
    "CustomResourceDefinition",
    "Namespace",
    "ServiceAccount",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
)
"""Kinds of an installation that an operator outside of the cluster needs as well."""


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """A cluster of its own: its operator looks after the whole of it."""
    with own_backend(tmp_path_factory.mktemp("operator")) as backend:
        yield backend


@pytest.fixture(scope=own_scope)
def kubeconfig(backend: Backend) -> str:
    """Of this cluster, not of the one that other cases share."""
    return str(backend.kubeconfig)


@pytest.fixture(scope=own_scope)
def node(backend: Backend) -> Iterator[Node]:
    """Its pods share the machine's network."""
    node = add_node(backend, "plain", isolation="plain")
    yield node
    node.stop()


async def set_up(kubeconfig: str) -> None:
    """What an installation brings, but for the pods and who asks them."""
    objects = [obj for obj in install_objects(InstallSettings()) if obj["kind"] in INSTALLED]
    names = [
        obj["metadata"]["name"] for obj in objects if obj["kind"] == "CustomResourceDefinition"
    ]
    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        await apply_objects(client, objects)
        await wait_served(client, names, within=30)


@pytest.fixture
async def rights(kubeconfig: str) -> None:
    await set_up(kubeconfig)


@pytest.fixture
def operator_config(rights: None, backend: Backend, kubeconfig: str, tmp_path: Path) -> Path:
    """A kubeconfig with a token of the operator's ServiceAccount, and no other rights."""
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{rbac.NAME}/token"
    reply = backend.request("POST", path, {"spec": {"expirationSeconds": 3600}})
    assert reply.code == 201, reply.body
    config = json.loads(Path(kubeconfig).read_text())
    config["users"][0]["user"] = {"token": reply.json()["status"]["token"]}
    own = tmp_path / "operator.kubeconfig"
    own.write_text(json.dumps(config))
    return own
