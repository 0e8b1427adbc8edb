"""``corral up`` serves a registry, for those with a token of the cluster."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.kube import KubeClient
from corral.kube.resources import ENDPOINTSLICES, NAMESPACES, SERVICES
from corral.oci import OWN, Artifacts, Denied, Layer, Reference, Registries, endpoints
from tests.cluster.objects import eventually
from tests.e2e.clusters import Up, corral

RBAC = "rbac.authorization.k8s.io"
REF = Reference.parse(f"oci://{OWN}/default/job/models:round-1")


@pytest.fixture
def up(tmp_path: Path) -> Iterator[Up]:
    cluster = Up(tmp_path / "c", "--registry-map", "registry.example.com")
    cluster.start()
    yield cluster
    cluster.stop()


def facts(up: Up) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((up.data / "registry.json").read_text())
    return found


def client(up: Up, token: str = "admin-token") -> Artifacts:
    url = facts(up)["url"]
    pairs = [f"{OWN}={url}", f"registry.example.com={url}"]
    return Artifacts(Registries(endpoints(pairs, token=(lambda: token) if token else None)))


async def push(up: Up, ref: Reference, content: bytes, token: str = "admin-token") -> Reference:
    async with client(up, token) as artifacts:
        layers = [Layer("application/octet-stream", content)]
        return (await artifacts.push(ref, layers, artifact_type="x/y")).reference


async def pull(up: Up, ref: Reference, token: str = "admin-token") -> bytes:
    async with client(up, token) as artifacts:
        manifest = await artifacts.manifest(ref)
        return await artifacts.read(ref, manifest.layers[0], limit=1 << 20)


async def token_of(up: Up, account: str) -> str:
    async with KubeClient.from_kubeconfig(str(up.kubeconfig)) as kube:
        path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = json.loads(await kube.request("POST", path, body=review))
        token: str = answer["status"]["token"]
        return token


async def let_edit(up: Up, namespace: str, *, account: str) -> None:
    """Kubernetes' own role, in a new namespace."""
    binding = {
        "metadata": {"name": "friends"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": "default"}],
    }
    async with KubeClient.from_kubeconfig(str(up.kubeconfig)) as kube:
        await kube.create(NAMESPACES, {"metadata": {"name": namespace}})
        path = f"/apis/{RBAC}/v1/namespaces/{namespace}/rolebindings"
        await kube.request("POST", path, body=binding)


async def test_models_are_kept_for_those_who_may(up: Up) -> None:
    assert facts(up)["name"] == OWN
    ref = await push(up, REF, b"weights")
    assert await pull(up, ref) == b"weights"
    account = await token_of(up, "default")
    assert await pull(up, ref, account) == b"weights", "its own namespace"
    with pytest.raises(Denied, match="may not create"):
        await push(up, REF.with_tag("mine"), b"update", account)
    elsewhere = Reference.parse(f"oci://{OWN}/other/job/models:round-1")
    await push(up, elsewhere, b"secret")
    for token, words in ((account, "may not"), ("nobody-knows-it", "does not know"), ("", "show")):
        with pytest.raises(Denied, match=words):
            await pull(up, elsewhere, token)
    with pytest.raises(Denied):
        await push(up, elsewhere, b"mine", account)
    await let_edit(up, "shared", account="default")
    shared = Reference.parse(f"oci://{OWN}/shared/wasm/client:v1")
    await push(up, shared, b"module", account)
    mapped = Reference.parse("oci://registry.example.com/default/job/models:round-1")
    assert await pull(up, mapped) == b"weights"


PUSH = """
import asyncio, json, os
from pathlib import Path
from corral.oci import Artifacts, Layer, Reference, Registries, endpoints

async def work():
    token = Path(os.environ["CORRAL_REGISTRY_TOKEN"]).read_text
    pairs = [f"{name}={url}" for name, url in json.loads(os.environ["CORRAL_REGISTRIES"]).items()]
    async with Artifacts(Registries(endpoints(pairs, token=token))) as artifacts:
        ref = Reference.parse("oci://registry.corral.local/default/job/updates:from-a-pod")
        await artifacts.push(ref, [Layer("x/y", b"update")], artifact_type="x/z")

asyncio.run(work())
"""


async def test_a_pod_pushes_with_a_token_for_the_registry(up: Up) -> None:
    from corral.cluster.registry.local import POD_URL

    container = {
        "name": "main",
        "image": "corral:latest",
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-c", PUSH],
        "env": [
            {"name": "CORRAL_REGISTRIES", "value": json.dumps({OWN: POD_URL})},
            {"name": "CORRAL_REGISTRY_TOKEN", "value": "/var/run/secrets/corral/token"},
        ],
        "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/corral"}],
    }
    source = {"path": "token", "audience": "registry.corral.dev"}
    token = {"name": "token", "projected": {"sources": [{"serviceAccountToken": source}]}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "pusher"},
        "spec": {"restartPolicy": "Never", "containers": [container], "volumes": [token]},
    }
    path = "/api/v1/namespaces/default/pods"
    reply = up.request("POST", path, pod)
    assert reply.code == 201, reply.body

    def over() -> bool:
        phase = up.request("GET", f"{path}/pusher").json()["status"].get("phase")
        assert phase != "Failed", up.request("GET", f"{path}/pusher/log").body.decode()
        return bool(phase == "Succeeded")

    await asyncio.to_thread(eventually, over, seconds=60)
    ref = Reference.parse(f"oci://{OWN}/default/job/updates:from-a-pod")
    assert await pull(up, ref) == b"update"


async def test_it_comes_back_with_what_it_has(up: Up) -> None:
    ref = await push(up, REF, b"weights")
    killed = up.parts()["registry"]
    os.kill(killed, signal.SIGKILL)
    await asyncio.to_thread(
        eventually, lambda: up.parts().get("registry", killed) != killed, seconds=60
    )
    assert await pull(up, ref) == b"weights"
    before = facts(up)
    up.stop()
    up.start()
    assert facts(up) == before
    assert await pull(up, ref) == b"weights"
    async with KubeClient.from_kubeconfig(str(up.kubeconfig)) as kube:
        await kube.get(SERVICES, "corral-registry", namespace="corral-system")
        leads = await kube.get(ENDPOINTSLICES, "corral-registry", namespace="corral-system")
    assert leads["ports"][0]["port"] == before["ports"][0]


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    from corral.runtime.serving.listening import Listen, bind

    with bind(Listen()) as taken:
        port = str(taken.getsockname()[1])
        done = corral(
            "up", "--data-dir", str(tmp_path), "--port", "0", "--registry-port", port, code=1
        )
    assert "--registry-port" in done.stderr
