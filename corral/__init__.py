"""Corral: one Kubernetes-native platform for every way people train models together.

The Python API is here too, loaded when it is first used: see `corral.sdk`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from corral.sdk import (
        AsyncMPIJobClient,
        AsyncTrainingClient,
        CannotShip,
        Job,
        JobFailed,
        LocalCluster,
        MPIJob,
        MPIJobClient,
        NoCluster,
        ResourceSpec,
        TrainingClient,
    )

__version__ = "0.1.0"
__all__ = [
    "AsyncMPIJobClient",
    "AsyncTrainingClient",
    "CannotShip",
    "Job",
    "JobFailed",
    "LocalCluster",
    "MPIJob",
    "MPIJobClient",
    "NoCluster",
    "ResourceSpec",
    "TrainingClient",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("corral.sdk"), name)
    globals()[name] = value
    return value
