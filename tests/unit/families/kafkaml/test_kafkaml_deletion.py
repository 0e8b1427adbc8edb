"""Deployments that are being deleted wait for their pods, but not for ever."""

from __future__ import annotations

from typing import Any, cast

import pytest

from corral.families.kafkaml import objects
from corral.families.kafkaml.deployments.family import Deployments
from corral.families.kafkaml.deployments.topics import FINALIZER
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.runtime import Manager
from corral.runtime.family.reconciler import FamilyReconciler
from corral.runtime.keys import format_time

NOW = 1_800_000_000.0
PATIENCE = KafkaMLSettings().topics_patience


class Server:
    """Takes patches."""

    def __init__(self) -> None:
        self.patches: list[dict[str, Any]] = []

    async def patch(self, *_: Any, patch: dict[str, Any], **__: Any) -> dict[str, Any]:
        self.patches.append(patch)
        return patch


@pytest.mark.parametrize("ahead", [0.0, 730 * 86400.0], ids=["right", "two-years-ahead"])
async def test_a_pod_that_does_not_end_is_not_waited_for_for_ever(ahead: float) -> None:
    server, times = Server(), [NOW]
    manager = Manager(cast(KubeClient, server))
    family = Deployments(KafkaMLSettings(), manager.client, wall=lambda: times[-1])
    reconciler = FamilyReconciler(manager, family)
    metadata = {"name": "learn", "namespace": "team", "resourceVersion": "1", "uid": "u"}
    going = {"deletionTimestamp": format_time(NOW + ahead), "finalizers": [FINALIZER]}
    spec = {"model": "m", "topics": {"retain": False}}
    reconciler.caches.objects.replaced([{"metadata": {**metadata, **going}, "spec": spec}], "1")
    labels = {objects.DEPLOYMENT_LABEL: "learn"}
    pod = {"metadata": {**metadata, "name": "p", "labels": labels}, "status": {"phase": "Running"}}
    reconciler.caches.informer(PODS).replaced([pod], "1")
    for after in (0, PATIENCE - 1):
        times.append(NOW + after)
        assert await reconciler.reconcile("team/learn") is not None
        assert not server.patches
    times.append(NOW + PATIENCE)
    assert await reconciler.reconcile("team/learn") is None
    assert server.patches == [{"metadata": {"resourceVersion": "1", "finalizers": []}}]
