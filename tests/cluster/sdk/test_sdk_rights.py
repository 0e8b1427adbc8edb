"""Who may not do something is told so, with who and what; both ways."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from corral.client import errors
from corral.sdk.clients import AsyncTrainingClient
from corral.sdk.connect import Connection, connect
from tests.backends import Backend
from tests.cluster.objects import Objects
from tests.cluster.sdk.conftest import WAYS, connection
from tests.cluster.sdk.sdk_programs import report_steps

Obj = dict[str, object]


def account(objects: Objects, name: str) -> str:
    """A service account without any rights; a token of it."""
    objects.create(
        "serviceaccounts",
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}},
    )
    path = f"/api/v1/namespaces/{objects.namespace}/serviceaccounts/{name}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token: str = objects.backend.request("POST", path, body).json()["status"]["token"]
    return token


def allow(objects: Objects, name: str, verbs: list[str]) -> None:
    """A role for TrainingJobs in this namespace."""
    group = "rbac.authorization.k8s.io"
    rules = [{"apiGroups": ["training.corral.dev"], "resources": ["trainingjobs"], "verbs": verbs}]
    meta = {"name": name}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules}
    objects.create("roles", role)
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": objects.namespace}],
    }
    objects.create("rolebindings", binding)


@pytest.fixture(params=WAYS)
def reached(request: pytest.FixtureRequest, backend: Backend, tmp_path: Path) -> object:
    """How somebody with a token reaches the cluster."""

    def by(token: str) -> Connection:
        if request.param == "gateway":
            return connection("gateway", request, token)
        path = tmp_path / "kubeconfig"
        path.write_text(backend.kubeconfig.read_text().replace(backend.token, token))
        return Connection(kubeconfig=path)

    return by


@pytest.fixture
async def somebody(
    reached: object, objects: Objects, namespace: str
) -> AsyncIterator[AsyncTrainingClient]:
    """May create and read TrainingJobs here, and nothing else."""
    assert callable(reached)
    token = account(objects, "somebody")
    allow(objects, "somebody", ["create", "get", "list", "watch"])
    access = connect(reached(token))
    yield AsyncTrainingClient(access=access, namespace=namespace)
    await access.close()


async def test_rights_end_where_they_end(somebody: AsyncTrainingClient, namespace: str) -> None:
    job = await somebody.train(report_steps, {"steps": 1, "words": []}, suspend=True)
    assert [found.name for found in await somebody.list_jobs()] == [job.name]
    with pytest.raises(errors.Forbidden) as caught:
        await somebody.delete_job(job)
    said = str(caught.value)
    assert f"system:serviceaccount:{namespace}:somebody" in said
    assert "delete" in said
    assert "trainingjobs.training.corral.dev" in said
    assert "kubectl auth can-i delete" in caught.value.hint
    for attempt in (
        somebody.list_jobs(namespace="default"),
        somebody.list_jobs(all_namespaces=True),
        somebody.get_job("x", namespace="kube-system"),
        somebody.get_job("x", kind="mpijobs"),
    ):
        with pytest.raises(errors.Forbidden):
            await attempt


async def test_a_token_that_is_none(reached: object, namespace: str) -> None:
    assert callable(reached)
    access = connect(reached("nobody.at.all"))
    client = AsyncTrainingClient(access=access, namespace=namespace)
    with pytest.raises(errors.Unauthorized) as caught:
        await client.list_jobs()
    assert "nobody.at.all" not in str(caught.value) + caught.value.hint
    await access.close()
