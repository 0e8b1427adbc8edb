"""What shows the operator's rights to tasks, groups and federated learning."""

from __future__ import annotations

import asyncio
from typing import Any

from corral.api.propeller.kinds import (
    FEDERATEDJOBS,
    GROUP,
    MODELCHECKPOINTS,
    PROPLETGROUPS,
    WASMTASKS,
)
from corral.kube import KubeClient
from tests.cluster.operator.rights import Right

Obj = dict[str, Any]
PROPLET = "plain"
"""The node of these cases is a proplet."""
ENVELOPE = '{"num_samples": 2, "update_b64": "WzEsMl0=", "format": "json-f64"}'
UNSEEN = {
    **{
        Right(GROUP, f"{plural}/finalizers", "update"): (
            "asked for by the admission plugin that guards blockOwnerDeletion"
        )
        for plural in ("federatedjobs", "trainingrounds", "wasmtasks")
    },
    Right(GROUP, "wasmtasks", "get"): "when a task is there that the cache does not know yet",
    Right(GROUP, "wasmtasks", "delete"): "when a round is over before all have answered",
    Right(GROUP, "trainingrounds", "get"): "when a round is there that the cache does not know",
    Right(GROUP, "modelcheckpoints", "get"): "when a model is recorded already",
    Right(GROUP, "modelcheckpoints", "patch"): "when a round is aggregated again",
    Right("apps", "deployments", "get"): "when the name of a daemon is taken",
}
"""Rights that these objects need not show, and why they are given."""


async def run_federated(admin: KubeClient, namespace: str) -> None:
    """A task with a module, a daemon that is cancelled, and a job of one round."""
    group = {"selector": {"matchLabels": {"a": "b"}}, "scheduling": {"algorithm": "random"}}
    await admin.create(PROPLETGROUPS, _named("group", group), namespace=namespace)
    await admin.create(WASMTASKS, _named("module", {"file": "AGFzbQ=="}), namespace=namespace)
    profile = {"enabled": True, "interval": 1}
    sleeps: Obj = {"imageUrl": "busybox", "cliArgs": ["sleep", "3600"]}
    daemon = {**sleeps, "daemon": True, "monitoringProfile": profile}
    await admin.create(WASMTASKS, _named("daemon", daemon), namespace=namespace)
    await admin.create(WASMTASKS, _named("sleeps", sleeps), namespace=namespace)
    await admin.create(FEDERATEDJOBS, _named("learns", _job()), namespace=namespace)
    for name in ("daemon", "sleeps"):
        await until_status(admin, name, namespace, "phase", "Running")
    await until_status(admin, "daemon", namespace, "monitoring", None)
    cancel = {"metadata": {"annotations": {f"{GROUP}/cancelled": "enough"}}}
    for name in ("daemon", "sleeps"):
        await admin.patch(WASMTASKS, name, namespace=namespace, patch=cancel)
        await until_status(admin, name, namespace, "phase", "Failed")
    await until_status(admin, "learns", namespace, "phase", "Completed", FEDERATEDJOBS)
    found = await admin.list_all(MODELCHECKPOINTS, namespace)
    assert len(found["items"]) == 1


def _named(name: str, spec: Obj) -> Obj:
    return {"metadata": {"name": name}, "spec": spec}


def _job() -> Obj:
    script = f"echo '{ENVELOPE}' > $FL_DIR/result.json"
    return {
        "experimentId": "e",
        "modelRef": "none",
        "taskWasmImage": "busybox",
        "participants": [{"propletId": PROPLET}],
        "kOfN": 1,
        "timeoutSeconds": 60,
        "rounds": {"total": 1},
        "aggregator": {"algorithm": "fedavg"},
        "template": {"cliArgs": ["sh", "-c", script]},
    }


async def until_status(
    admin: KubeClient, name: str, namespace: str, key: str, wanted: Any, resource: Any = WASMTASKS
) -> None:
    """Wait until a field of a status has a value, or any."""
    status: Obj = {}
    try:
        async with asyncio.timeout(60):
            while True:
                found = await admin.get(resource, name, namespace=namespace)
                status = found.get("status") or {}
                value = status.get(key)
                if value == wanted or (wanted is None and value):
                    return
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError((name, status)) from None
