"""Who may do what in a registry, by the tokens and rights of a cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from corral.cluster.registry.access import ClusterAccess
from corral.kube import KubeClient
from corral.oci import OWN, Artifacts, Denied, Layer, Reference
from corral.oci.own import AUDIENCE
from tests.backends import Backend
from tests.cluster.binaries import built_client
from tests.cluster.objects import Objects, eventually
from tests.registries import RunningRegistry, running_registry

READ = {"apiGroups": ["registry.corral.dev"], "resources": ["repositories"], "verbs": ["get"]}


class OwnClient(ClusterAccess):
    """With a client of its own, which ends with it."""

    def __init__(self, kubeconfig: Path, *, anonymous_read: bool) -> None:
        self._own = KubeClient.from_kubeconfig(str(kubeconfig))
        super().__init__(self._own, anonymous_read=anonymous_read)

    async def close(self) -> None:
        await super().close()
        await self._own.close()


@pytest.fixture
def registry(backend: Backend, tmp_path: Path) -> Iterator[RunningRegistry]:
    access = partial(OwnClient, backend.kubeconfig, anonymous_read=False)
    with running_registry(tmp_path, access=access) as one:
        yield one


def token_of(objects: Objects, account: str, *, audience: str = "") -> str:
    made = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
    objects.create("serviceaccounts", made)
    path = objects.path("v1", "serviceaccounts", account)
    spec = {"audiences": [audience]} if audience else {}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    reply = objects.backend.request("POST", f"{path}/token", review)
    assert reply.code == 201, reply.body
    token: str = reply.json()["status"]["token"]
    return token


async def push(registry: RunningRegistry, repository: str, token: str) -> None:
    async with Artifacts(registry.registries(token=lambda: token)) as artifacts:
        ref = Reference.parse(f"oci://{OWN}/{repository}:v1")
        await artifacts.push(ref, [Layer("x/y", b"content")], artifact_type="x/z")


async def pull(registry: RunningRegistry, repository: str, token: str) -> None:
    async with Artifacts(registry.registries(token=lambda: token)) as artifacts:
        await artifacts.manifest(Reference.parse(f"oci://{OWN}/{repository}:v1"))


async def test_each_namespace_has_its_own_repositories(
    registry: RunningRegistry, objects: Objects, backend: Backend
) -> None:
    mine, other = f"{objects.namespace}/job/models", "kube-public/job/models"
    account = token_of(objects, "trainer")
    await push(registry, mine, backend.token)
    await pull(registry, mine, account)
    await push(registry, mine, token_of(objects, "courier", audience=AUDIENCE))
    with pytest.raises(Denied, match="may not create"):
        await push(registry, mine, account)
    await push(registry, other, backend.token)
    for work in (push, pull):
        with pytest.raises(Denied, match="may not"):
            await work(registry, other, account)
    with pytest.raises(Denied, match="does not know this token"):
        await pull(registry, mine, "nonsense")
    with pytest.raises(Denied, match="show a token"):
        await pull(registry, mine, "")


async def test_a_role_lets_others_read(
    registry: RunningRegistry, objects: Objects, backend: Backend
) -> None:
    account = token_of(objects, "reader")
    await push(registry, "kube-public/shared", backend.token)
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-public"
    name = f"read-{objects.namespace}"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [READ],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": objects.namespace}],
    }
    for kind, body in (("roles", role), ("rolebindings", binding)):
        reply = backend.request("POST", f"{rbac}/{kind}", body)
        assert reply.code == 201, reply.body

    def may_read() -> bool:
        """A right is not known to all parts of an API server at once."""
        try:
            asyncio.run(pull(registry, "kube-public/shared", account))
        except Denied:
            return False
        return True

    try:
        await asyncio.to_thread(eventually, may_read, seconds=30)
        with pytest.raises(Denied, match="may not create"):
            await push(registry, "kube-public/shared", account)
    finally:
        for kind in ("rolebindings", "roles"):
            backend.request("DELETE", f"{rbac}/{kind}/{name}")


async def test_callers_on_the_machine_may_read_where_that_is_wanted(
    backend: Backend, tmp_path: Path
) -> None:
    access = partial(OwnClient, backend.kubeconfig, anonymous_read=True)
    with running_registry(tmp_path, access=access) as registry:
        await push(registry, "kube-public/shared", backend.token)
        async with Artifacts(registry.registries()) as artifacts:
            ref = Reference.parse(f"oci://{OWN}/kube-public/shared:v1")
            await artifacts.manifest(ref)
            with pytest.raises(Denied, match="show a token"):
                await artifacts.push(ref, [], artifact_type="x/z", annotations={"a": "b"})
            with pytest.raises(Denied):
                await artifacts.delete(ref)


async def test_crane_logs_in_with_a_token(
    registry: RunningRegistry,
    objects: Objects,
    backend: Backend,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    crane = built_client("crane")
    account = token_of(objects, "person")
    repository = f"{objects.namespace}/job/models"
    await push(registry, repository, backend.token)
    env = {**os.environ, "DOCKER_CONFIG": str(tmp_path_factory.mktemp("home"))}

    async def run(*words: str) -> tuple[int, str]:
        process = await asyncio.create_subprocess_exec(
            crane, *words, env=env, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await asyncio.wait_for(process.communicate(), 60)
        return process.returncode or 0, said.decode()

    code, said = await run("ls", f"{registry.host}/{repository}")
    assert code and "UNAUTHORIZED" in said
    code, said = await run("auth", "login", "-u", "any", "-p", account, registry.host)
    assert code == 0, said
    assert await run("ls", f"{registry.host}/{repository}") == (0, "v1\n")
    code, said = await run("ls", f"{registry.host}/kube-public/secret")
    assert code and "DENIED" in said
