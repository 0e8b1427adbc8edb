"""The workload controllers in one process: what kube-controller-manager is to a real cluster.

Each is a module with ``register(manager)``; they share informers, and know each other only through
the API.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Final

from corral.runtime import Manager

__all__ = ["CONTROLLERS", "UnknownController", "register"]

_HOME: Final = "corral.cluster.workloads"
CONTROLLERS: Final = {
    "claims": f"{_HOME}.claims.controller",
    "cronjob": f"{_HOME}.cronjob.controller",
    "daemonset": f"{_HOME}.daemonset.controller",
    "deployment": f"{_HOME}.deployment.controller",
    "disruption": f"{_HOME}.disruption.controller",
    "endpoints": f"{_HOME}.endpoints.controller",
    "horizontalpodautoscaler": f"{_HOME}.autoscaling.controller",
    "job": f"{_HOME}.job.controller",
    "nodes": f"{_HOME}.nodehealth.controller",
    "podgc": f"{_HOME}.podgc.controller",
    "replicaset": f"{_HOME}.deployment.replicaset_controller",
    "statefulset": f"{_HOME}.statefulset.controller",
    "ttl": f"{_HOME}.job.ttl_controller",
}
"""Name → module."""


class UnknownController(Exception):
    """No controller has this name."""


def register(manager: Manager, names: Iterable[str] = CONTROLLERS) -> None:
    """Add controllers to a manager. Raises UnknownController."""
    for name in names:
        if name not in CONTROLLERS:
            known = ", ".join(sorted(CONTROLLERS))
            raise UnknownController(f"no controller is called {name!r}; there are {known}")
        import_module(CONTROLLERS[name]).register(manager)
