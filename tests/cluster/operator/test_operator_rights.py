"""The operator works with exactly the rights of its roles: none is missing, none is left over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.api.mpi.kinds import MPIJOBS
from corral.api.training.kinds import CHECKPOINTS, TRAININGJOBS
from corral.kube import KubeClient, load_kubeconfig
from corral.kube.errors import ApiError, NotFound
from corral.kube.resources import (
    CUSTOMRESOURCEDEFINITIONS,
    EVENTS,
    LEASES,
    MUTATINGWEBHOOKCONFIGURATIONS,
    PERSISTENTVOLUMES,
    PODS,
    SECRETS,
    SERVICES,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    Resource,
)
from corral.operator import rbac
from corral.operator.manifests import cluster_rules
from corral.operator.process import all_hooks
from corral.operator.settings import LEASE, NAMESPACE, SECRET, ProcessSettings
from corral.runtime.webhooks import by_url, webhook_configurations
from tests.backends import Node
from tests.backends.base import free_port
from tests.cluster.operator import federated, kafkaml, spot
from tests.cluster.operator.federated import run_federated
from tests.cluster.operator.kafkaml import run_kafkaml
from tests.cluster.operator.operators import beside, job, operating
from tests.cluster.operator.rights import RecordingClient, Right, given
from tests.cluster.operator.spot import run_spot
from tests.registries import running_registry

Obj = dict[str, Any]

UNSEEN = {
    Right("training.corral.dev", "trainingjobs/finalizers", "update"): (
        "asked for by the admission plugin that guards blockOwnerDeletion"
    ),
    Right("", "pods", "get"): "when a pod is there that the cache does not know yet",
    Right("training.corral.dev", "trainingjobs", "get"): "when the cache is behind a pod's report",
    Right("training.corral.dev", "checkpoints", "get"): "when the cache is behind a pod's report",
    Right("training.corral.dev", "trainingjobs", "patch"): (
        "the plan of a checkpoint of many replicas is an annotation"
    ),
    Right("kubeflow.org", "mpijobs/finalizers", "update"): (
        "asked for by the admission plugin that guards blockOwnerDeletion"
    ),
    Right("", "secrets", "patch"): "when somebody took the keys out of a job's Secret",
    Right("batch", "jobs/status", "patch"): "when a launcher that had begun is resumed",
    Right("scheduling.k8s.io", "priorityclasses", "watch"): "where gangs are scheduled",
}
"""Rights that these jobs need not show, and why they are given."""
CHILDREN = {
    ("", "services"),
    ("", "serviceaccounts"),
    ("", "configmaps"),
    ("batch", "jobs"),
    ("", "persistentvolumeclaims"),
    ("networking.k8s.io", "networkpolicies"),
    ("scheduling.volcano.sh", "podgroups"),
    ("scheduling.x-k8s.io", "podgroups"),
}
"""What jobs have beside pods is got when a cache is behind, patched when somebody changes it, and
deleted when a spec says so; PodGroups are of one kind in a cluster."""
OF_CHILDREN = {"get", "list", "watch", "create", "patch", "delete"}


def is_rare(right: Right) -> bool:
    of_child = (right.group, right.resource) in CHILDREN and right.verb in OF_CHILDREN
    unseen = UNSEEN | federated.UNSEEN | kafkaml.UNSEEN | spot.UNSEEN
    return of_child or right in unseen


async def until(check: Callable[[], Any], seconds: float = 60) -> Any:
    """The first true answer of a coroutine function."""
    async with asyncio.timeout(seconds):
        while not (answer := await check()):  # noqa: ASYNC110 (a server's state, seen from outside)
            await asyncio.sleep(0.02)
        return answer


async def phase(client: KubeClient, name: str, namespace: str) -> str:
    found = await client.get(TRAININGJOBS, name, namespace=namespace)
    return str((found.get("status") or {}).get("phase"))


async def webhooks_installed(client: KubeClient, port: int) -> None:
    """As in an installation: written by somebody else, the authority filled in by the operator."""
    for config in webhook_configurations(
        all_hooks(),
        by_url(f"https://127.0.0.1:{port}"),
        name=rbac.CONFIGURATIONS,
        inject=SECRET,
    ):
        resource = await client.resource_for(config["apiVersion"], config["kind"])
        await client.apply(resource, config, field_manager="corral-install")


async def webhooks_removed(client: KubeClient) -> None:
    for resource in (MUTATINGWEBHOOKCONFIGURATIONS, VALIDATINGWEBHOOKCONFIGURATIONS):
        try:
            await client.delete(resource, rbac.CONFIGURATIONS)
        except NotFound:
            continue


TRAINS = """
import corral.inpod as corral

def save(folder):
    (folder / "weights").write_text("1")

corral.restore()
for step in range(1, 4):
    corral.report(step=step, total=3, loss=1 / step)
    corral.maybe_checkpoint(save, step=step, metrics={"loss": 1 / step}, force=True)
corral.flush()
"""


async def test_jobs_run_with_the_rights_of_the_roles(
    kubeconfig: str, operator_config: Path, node: Node, namespace: str, tmp_path: Path
) -> None:
    port = free_port()
    with running_registry(tmp_path / "registry") as registry:
        where = {"registry": registry.base, "registry_map": registry.pairs()}
        settings = beside(webhook_port=port, leader_elect=True, **where)
        await shown(kubeconfig, operator_config, namespace, tmp_path, settings, port)


async def shown(
    kubeconfig: str,
    operator_config: Path,
    namespace: str,
    volume: Path,
    settings: ProcessSettings,
    port: int,
) -> None:
    """The rights of the roles are those that are used."""
    config = load_kubeconfig([operator_config]).resolve()
    await forgotten(kubeconfig)
    # what was reached by another name before: the certificate is made anew
    async with RecordingClient(config) as earlier:
        async with operating(earlier, beside(report_url="https://other:1")):
            pass
    own = RecordingClient(config)
    async with KubeClient.from_kubeconfig(kubeconfig) as admin, own as client:
        await webhooks_installed(admin, port)
        try:
            async with operating(client, settings):
                await until(lambda: trusted(admin))
                await run_federated(admin, namespace)
                await run_kafkaml(admin, namespace)
                await run_spot(admin, namespace)
                await run_jobs(admin, namespace, volume)
        finally:
            await webhooks_removed(admin)
    assert earlier.refused + client.refused == []
    allowed = given(cluster_rules()) | given(rbac.namespace_rules())
    used = earlier.used | client.used
    assert used <= allowed
    assert sorted(right for right in allowed - used if not is_rare(right)) == []


async def forgotten(kubeconfig: str) -> None:
    """As if no operator had been here before."""
    async with KubeClient.from_kubeconfig(kubeconfig) as admin:
        for resource, name in ((SECRETS, SECRET), (LEASES, LEASE)):
            try:
                await admin.delete(resource, name, namespace=NAMESPACE)
            except NotFound:
                continue


async def trusted(admin: KubeClient) -> bool:
    for resource in (MUTATINGWEBHOOKCONFIGURATIONS, VALIDATINGWEBHOOKCONFIGURATIONS):
        found = await admin.get(resource, rbac.CONFIGURATIONS)
        if not all(hook["clientConfig"].get("caBundle") for hook in found["webhooks"]):
            return False
    return True


async def run_jobs(admin: KubeClient, namespace: str, volume: Path) -> None:
    """One that reports and checkpoints, one that fails, one that is deleted when it is over."""

    async def create(obj: Obj) -> None:
        await admin.create(TRAININGJOBS, obj, namespace=namespace)

    await admin.create(PERSISTENTVOLUMES, folder(namespace, "trains-checkpoints", volume))
    kept = {"storage": {"pvc": {"size": "1Mi"}}, "retention": {"keepLast": 1}}
    await create(job("trains", ["python", "-c", TRAINS], checkpoint=kept))
    await create(
        job(
            "fails",
            ["sh", "-c", "echo gone wrong; exit 3"],
            replicas=1,
            runPolicy={"backoffLimit": 1},
        )
    )
    await create(job("short", runPolicy={"ttlSecondsAfterFinished": 0}))
    await admin.create(SECRETS, keys("keys", namespace))
    s3 = {"bucket": "b", "endpoint": "https://127.0.0.1:9", "secretRef": {"name": "keys"}}
    await create(job("stores", checkpoint={"storage": {"s3": s3}}))
    await admin.create(MPIJOBS, mpijob("launches"), namespace=namespace)
    await until(lambda: ended(admin, "trains", namespace, "Succeeded"))
    await until(lambda: gone(admin, "launches", namespace, MPIJOBS))
    await until(lambda: ended(admin, "fails", namespace, "Failed"))
    await until(lambda: gone(admin, "short", namespace))
    await until(lambda: kept_one(admin, namespace))
    found = await admin.get(TRAININGJOBS, "trains", namespace=namespace)
    assert found["status"]["progress"]["percent"] == 100
    failure = (await admin.get(TRAININGJOBS, "fails", namespace=namespace))["status"]["failure"]
    assert failure["exitCode"] == 3
    assert "gone wrong" in failure["logTail"]
    events = await admin.list_all(EVENTS, namespace)
    assert any(e["involvedObject"]["kind"] == "TrainingJob" for e in events["items"])


def mpijob(name: str) -> Obj:
    """Its launcher fails once; it goes when it is over."""

    def replica(script: str, **more: Any) -> Obj:
        container = {"name": "mpi", "image": "busybox", "command": ["sh", "-c", script]}
        pod = {"terminationGracePeriodSeconds": 1, "containers": [container]}
        return {"template": {"spec": pod}, **more}

    specs = {
        "Launcher": replica("echo gone wrong; exit 3", restartPolicy="Never"),
        "Worker": replica("sleep 1000", replicas=1),
    }
    policy = {"ttlSecondsAfterFinished": 0, "backoffLimit": 0, "cleanPodPolicy": "All"}
    return {"metadata": {"name": name}, "spec": {"runPolicy": policy, "mpiReplicaSpecs": specs}}


async def kept_one(admin: KubeClient, namespace: str) -> bool:
    found = await admin.list_all(CHECKPOINTS, namespace)
    return [c["spec"]["step"] for c in found["items"]] == [3]


def folder(namespace: str, claim: str, path: Path) -> Obj:
    """A volume for one claim; these clusters make none by themselves."""
    return {
        "metadata": {"name": f"{namespace}-{claim}"},
        "spec": {
            "capacity": {"storage": "1Mi"},
            "accessModes": ["ReadWriteMany"],
            "hostPath": {"path": str(path / "volume"), "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": namespace, "name": claim},
            "persistentVolumeReclaimPolicy": "Retain",
        },
    }


def keys(name: str, namespace: str) -> Obj:
    data = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    return {"metadata": {"name": name, "namespace": namespace}, "stringData": data}


async def ended(admin: KubeClient, name: str, namespace: str, wanted: str) -> bool:
    return await phase(admin, name, namespace) == wanted


async def gone(
    admin: KubeClient, name: str, namespace: str, resource: Resource = TRAININGJOBS
) -> bool:
    try:
        await admin.get(resource, name, namespace=namespace)
    except NotFound:
        return True
    return False


@pytest.mark.parametrize(
    ("resource", "verb"),
    [(SECRETS, "list"), (PODS, "exec"), (SERVICES, "proxy"), (CUSTOMRESOURCEDEFINITIONS, "patch")],
)
async def test_what_it_may_not_do(
    operator_config: Path, namespace: str, resource: Any, verb: str
) -> None:
    """A few things that a stolen token must not be good for."""
    async with KubeClient(load_kubeconfig([operator_config]).resolve()) as client:
        with pytest.raises(ApiError) as refusal:
            if verb == "list":
                await client.list_all(resource, namespace)
            elif verb == "patch":
                name = TRAININGJOBS.qualified
                await client.patch(resource, name, patch={"metadata": {"labels": {"a": "b"}}})
            else:
                path = f"/api/v1/namespaces/{namespace}/{resource.plural}/any/{verb}"
                await client.request("POST", path)
        assert refusal.value.code == 403
