"""The Kubelet engine: what the kubelet is asked, what becomes of its file, and what goes wrong."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from corral.families.spot.backups.kubelet_engine import kubelet_url
from corral.families.spot.jobs.storage import StorageSettings, storage_for
from corral.kube.client import KubeClient
from corral.kube.resources import CLUSTERROLEBINDINGS, CLUSTERROLES, NODES, PODS
from corral.kube.types import Obj
from corral.oci import Artifacts, Reference
from corral.operator import rbac
from corral.operator.install import apply_objects
from tests.backends import Node
from tests.cluster.spot_checkpoints.kubelets import FakeKubelet, fake_kubelet
from tests.cluster.spot_checkpoints.spot_stage import SpotStage, staged
from tests.registries import RunningRegistry

pytestmark = pytest.mark.usefixtures("node")


@pytest.fixture
async def account(client: KubeClient, namespace: str) -> AsyncIterator[str]:
    """Whose tokens kubelets are shown: as an installation makes it, in the case's namespace."""
    await apply_objects(client, rbac.kubelet_access(namespace))
    yield f"{namespace}/{rbac.KUBELETS}"
    await client.delete(CLUSTERROLEBINDINGS, rbac.KUBELETS)
    await client.delete(CLUSTERROLES, rbac.KUBELETS)


@pytest.fixture
async def kubelet(tmp_path: Path, account: str) -> AsyncIterator[FakeKubelet]:
    async with fake_kubelet(tmp_path, account) as found:
        yield found


@pytest.fixture
async def stage(
    client: KubeClient, namespace: str, registry: RunningRegistry, kubelet: FakeKubelet
) -> AsyncIterator[SpotStage]:
    """An operator whose kubelets all are the one that checkpoints."""
    async with staged(
        client,
        namespace,
        registry,
        url_of=lambda node: kubelet.url,
        kubelet_ca=kubelet.ca_file,
        kubelet_account=kubelet.account,
    ) as stage:
        yield stage


async def test_a_container_becomes_an_image_that_a_runtime_restores(
    stage: SpotStage, kubelet: FakeKubelet
) -> None:
    pod = await stage.pod("one", ["sleep", "600"])
    await stage.backup("now", podName="one", imageRepo=stage.repository, timeoutSeconds=90)
    status = await stage.ended("now")
    assert status["phase"] == "Completed", status
    assert kubelet.asked == [f"/checkpoint/{stage.namespace}/one/main?timeout=90"]
    (file,) = status["checkpointFiles"]
    assert file["containerName"] == "main" and file["filePath"].endswith("-main-1.tar")
    assert os.listdir(kubelet.folder) == []  # its memory is not left lying about
    reference = Reference.parse(status["checkpointImage"])
    async with Artifacts(stage.registry.registries()) as artifacts:
        manifest = await artifacts.manifest(reference)
    assert manifest.annotations["io.kubernetes.cri-o.annotations.checkpoint.name"] == "main"
    key = "io.kubernetes.cri-o.annotations.checkpoint.rootfsImageName"
    assert manifest.annotations[key] == pod["spec"]["containers"][0]["image"]
    await stage.until(lambda: only(stage, "one"))
    job = await stage.job(engine="Kubelet")
    again = storage_for(
        job, 0, 2, settings=StorageSettings(), restore_images=[status["checkpointImage"]]
    )
    assert again.images == {"trainer": status["checkpointImage"]}


async def only(stage: SpotStage, pod: str) -> bool:
    """Whether no other pod is left."""
    found = await stage.client.list_all(PODS, stage.namespace)
    return [item["metadata"]["name"] for item in found["items"]] == [pod]


async def test_both_shapes_and_several_containers(stage: SpotStage, kubelet: FakeKubelet) -> None:
    sidecar = {"name": "beside", "image": "python", "command": ["sleep", "600"]}
    main = {"name": "main", "image": "python", "command": ["sleep", "600"]}
    await stage.pod("two", ["sleep", "600"], containers=[main, sidecar])
    images = [f"{stage.repository}:{name}" for name in ("main", "beside")]
    host, _, path = stage.repository.partition("/")
    await stage.backup(
        "nested",
        schedule="immediately",
        podRef={"name": "two", "namespace": stage.namespace},
        resourceRef={"apiVersion": "v1", "kind": "Pod", "name": "two"},
        registry={"url": host, "repository": path},
        containers=[
            {"name": "main", "image": images[0]},
            {"name": "beside", "image": images[1]},
        ],
    )
    status = await stage.ended("nested")
    assert status["phase"] == "Completed", status
    built = [item["imageName"].partition("@")[0] for item in status["builtImages"]]
    assert built == images
    assert status["checkpointImage"] == status["builtImages"][0]["imageName"]
    assert len(kubelet.asked) == 2


async def test_without_a_registry_it_stays_on_the_node(
    stage: SpotStage, kubelet: FakeKubelet
) -> None:
    await stage.pod("one", ["sleep", "600"])
    await stage.backup("now", podName="one")
    status = await stage.ended("now")
    assert status["phase"] == "Completed" and "stays on the node" in status["message"]
    assert "checkpointImage" not in status
    (file,) = status["checkpointFiles"]
    assert os.listdir(kubelet.folder) == [os.path.basename(file["filePath"])]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, "404 page not found", "feature gate ContainerCheckpoint"),
        (500, "checkpointing failed (rpc error: Unimplemented)", "CRIU is needed"),
        (403, "Forbidden", "nodes/checkpoint"),
        (418, "teapot", "answers 418"),
        (200, "{}", "does not say which file"),
        (200, '{"items": ["relative.tar"]}', "does not say which file"),
    ],
)
async def test_what_the_kubelet_refuses(
    stage: SpotStage, kubelet: FakeKubelet, status: int, body: str, said: str
) -> None:
    kubelet.status, kubelet.body = status, body
    await stage.pod("one", ["sleep", "600"])
    await stage.backup("now", podName="one", imageRepo=stage.repository)
    found = await stage.ended("now")
    assert found["phase"] == "Failed" and said in found["message"], found
    assert body not in found["message"]


async def test_a_kubelet_that_hangs_holds_up_nothing(
    stage: SpotStage, kubelet: FakeKubelet
) -> None:
    kubelet.hangs = True
    await stage.pod("one", ["sleep", "600"])
    await stage.backup("stuck", podName="one", timeoutSeconds=2)
    status = await stage.ended("stuck")
    assert status["phase"] == "Failed" and "longer than 2 s" in status["message"]
    kubelet.hangs = False
    await stage.backup("next", podName="one")
    assert (await stage.ended("next"))["phase"] == "Completed"


async def test_a_kubelet_that_is_not_known_is_told_nothing(
    client: KubeClient, namespace: str, registry: RunningRegistry, kubelet: FakeKubelet
) -> None:
    def url_of(node: Obj) -> str:
        return kubelet.url

    account = kubelet.account
    async with staged(client, namespace, registry, url_of=url_of, kubelet_account=account) as stage:
        await stage.pod("one", ["sleep", "600"])
        await stage.backup("now", podName="one")
        status = await stage.ended("now")
    assert status["phase"] == "Failed" and "--kubelet-ca" in status["message"]
    assert kubelet.asked == []


async def test_process_nodes_say_that_they_cannot(
    client: KubeClient,
    namespace: str,
    registry: RunningRegistry,
    node: Node,
    account: str,
    tmp_path: Path,
) -> None:
    found = await client.get(NODES, node.name)
    where = urlsplit(kubelet_url(found))
    shown = await asyncio.to_thread(
        ssl.get_server_certificate, (str(where.hostname), int(where.port or 0))
    )
    known = tmp_path / "node.crt"
    await asyncio.to_thread(known.write_text, shown)
    async with staged(
        client, namespace, registry, kubelet_ca=str(known), kubelet_account=account
    ) as stage:
        await stage.pod("one", ["sleep", "600"])
        await stage.backup("now", podName="one")
        status = await stage.ended("now")
    assert status["phase"] == "Failed"
    assert "processes of process nodes cannot be checkpointed" in status["message"], status
