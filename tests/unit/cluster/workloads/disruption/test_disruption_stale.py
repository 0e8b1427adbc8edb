"""The disruption condition of pods that nobody deleted."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.disruption.controller import StaleDisruptions
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.kube.resources import PODS
from corral.kube.times import format_datetime
from corral.runtime import Manager, Result

Obj = dict[str, Any]
NOW = datetime(2030, 1, 1, tzinfo=UTC)


class Client(KubeClient):
    """Keeps what would be written."""

    def __init__(self) -> None:
        super().__init__(ClusterConfig(server="http://127.0.0.1:1"))
        self.patches: list[Obj] = []

    async def patch(self, *args: Any, **kwargs: Any) -> Obj:
        self.patches.append(kwargs["patch"])
        return {}


def pod(age: float, *, reason: str = "EvictionByEvictionAPI", **rest: Any) -> Obj:
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "lastTransitionTime": format_datetime(NOW - timedelta(seconds=age)),
    }
    ready = {"type": "Ready", "status": "True"}
    meta = {"namespace": "ns", "name": "p", "resourceVersion": "7", "generation": 2}
    meta |= rest.pop("metadata", {})
    status = {"phase": "Running", "conditions": [ready, condition], **rest}
    return {"metadata": meta, "status": status}


async def look(found: Obj | None) -> tuple[Result | None, list[Obj]]:
    client = Client()
    manager = Manager(client)
    stale = StaleDisruptions(manager, now=lambda: NOW)
    if found is not None:
        manager.informer(PODS).store.put(found)
    result = await stale.reconcile("ns/p")
    await client.close()
    return result, client.patches


async def test_a_stale_condition_is_taken_back() -> None:
    result, (patch,) = await look(pod(121))
    assert result is None
    assert patch["metadata"] == {"resourceVersion": "7"}
    ready, target = patch["status"]["conditions"]
    assert ready == {"type": "Ready", "status": "True"}
    assert target == {
        "type": "DisruptionTarget",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": format_datetime(NOW),
        "observedGeneration": 2,
    }


async def test_a_fresh_one_has_time() -> None:
    result, patches = await look(pod(30))
    assert result == Result(requeue_after=90)
    assert patches == []


@pytest.mark.parametrize(
    "found",
    [
        None,
        pod(500, reason="TerminationByKubelet"),
        pod(500, metadata={"deletionTimestamp": format_datetime(NOW)}),
        pod(500, phase="Failed"),
        pod(500, conditions=[]),
    ],
    ids=["gone", "kubelet", "deleting", "ended", "none"],
)
async def test_others_are_left_alone(found: Obj | None) -> None:
    assert await look(found) == (None, [])
