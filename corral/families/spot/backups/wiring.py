"""How the controllers of backups are added to a manager."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from corral.api.spot.kinds import JOB_LABEL
from corral.egress.policy import EgressPolicy
from corral.families.spot.backups.controller import BackupController, BackupSettings
from corral.families.spot.backups.engines import ApplicationEngine, Engine, Outcome, Run, Tell
from corral.families.spot.backups.images import Images
from corral.families.spot.backups.kubelet_engine import (
    KubeletEngine,
    Kubelets,
    KubeletSettings,
    kubelet_url,
)
from corral.families.spot.backups.snapshots import SnapshotController, index_by_job
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import Manager, mapped

__all__ = ["register"]

_WORKERS: Final = 4


class _Directories:
    """The Directory engine, loaded when it is first needed: an operator starts sooner."""

    def __init__(self, client: KubeClient, images: Images) -> None:
        self._client = client
        self._images = images

    async def save(self, run: Run, tell: Tell) -> Outcome:
        from corral.families.spot.backups.directory_engine import DirectoryEngine

        return await DirectoryEngine(self._client, self._images).save(run, tell)


def register(
    manager: Manager,
    *,
    registry_map: Sequence[str] = (),
    token: Callable[[], str] | None = None,
    kubelets: KubeletSettings | None = None,
    url_of: Callable[[Obj], str] = kubelet_url,
    egress: EgressPolicy | None = None,
    settings: BackupSettings | None = None,
    wall: Callable[[], float] = time.time,
) -> BackupController:
    """Add them.

    Args:
        manager: the manager.
        registry_map: ``NAME=URL`` of registries, as they are reached from here.
        token: who we are to the cluster's own registry.
        kubelets: how kubelets are reached.
        url_of: where the kubelet of a node serves.
        egress: which registries are called beside those of the map; None: public ones.
        settings: of the backups.
        wall: the time.
    """
    kubelets = kubelets or KubeletSettings()
    images = Images(manager.client, registry_map=registry_map, token=token, egress=egress)
    pods = manager.informer(PODS, label_selector=JOB_LABEL)
    engines: dict[str, Engine] = {
        "Application": ApplicationEngine(manager.client, pods),
        "Directory": _Directories(manager.client, images),
        "Kubelet": KubeletEngine(
            manager.client,
            Kubelets(
                manager.client, ca_file=kubelets.ca_file, account=kubelets.account, url_of=url_of
            ),
            images,
            settings=kubelets,
        ),
    }
    backups = BackupController(manager, engines, images, settings=settings, wall=wall)
    queue = manager.controller("checkpoint-backup", backups.reconcile, workers=_WORKERS)
    queue.watch(backups.backups)
    backups.again = queue.queue.add
    manager.add_task("runs of backups", backups.run)
    snapshots = SnapshotController(manager, wall=wall)
    by_job = manager.controller("spot-snapshots", snapshots.reconcile, workers=_WORKERS)
    by_job.watch(snapshots.jobs)
    by_job.watch(snapshots.backups, mapped(index_by_job))
    by_job.watch(snapshots.pods, mapped(index_by_job))
    return backups
