"""The Python API for people and notebooks: train, follow and explain jobs wherever they run.

Start with `TrainingClient` and `MPIJobClient` (`sync`) or their async twins (`clients`); both stand
on an `Access` of `corral.client`: a cluster or a gateway. `shipping` brings code to pods; errors
are in `errors`. The names below are also those of the package `corral`, loaded when they are first
used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.sdk.clients import AsyncMPIJobClient, AsyncTrainingClient
    from corral.sdk.errors import CannotShip, JobFailed, NoCluster
    from corral.sdk.explained import Explained
    from corral.sdk.local import LocalCluster
    from corral.sdk.mpijobs import MPIJob
    from corral.sdk.resources import ResourceSpec
    from corral.sdk.sync import MPIJobClient, TrainingClient
    from corral.sdk.views import Event, Events, Job, Jobs, LogLine, Progress

_HOMES = {
    "clients": "AsyncMPIJobClient AsyncTrainingClient",
    "errors": "CannotShip JobFailed NoCluster",
    "explained": "Explained",
    "local": "LocalCluster",
    "mpijobs": "MPIJob",
    "resources": "ResourceSpec",
    "sync": "MPIJobClient TrainingClient",
    "views": "Event Events Job Jobs LogLine Progress",
}

__all__ = [
    "AsyncMPIJobClient",
    "AsyncTrainingClient",
    "CannotShip",
    "Event",
    "Events",
    "Explained",
    "Job",
    "JobFailed",
    "Jobs",
    "LocalCluster",
    "LogLine",
    "MPIJob",
    "MPIJobClient",
    "NoCluster",
    "Progress",
    "ResourceSpec",
    "TrainingClient",
]

__getattr__ = lazily(__name__, _HOMES)
