"""The hosts of a job: the hostfile, and the script that elastic programs ask for hosts.

The hostfile has every worker that is wanted, running or not, in the order of their indexes. The
script has the workers that run now, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.families.mpijob import names
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView

__all__ = ["discover_hosts", "host", "hostfile"]


def host(view: JobView, pod: str, settings: ObjectSettings) -> str:
    """The full name of a pod's host."""
    name = f"{pod}.{view.name}.{view.namespace}.svc"
    return f"{name}.{settings.cluster_domain}" if settings.cluster_domain else name


def hostfile(view: JobView, settings: ObjectSettings) -> str:
    room = f" slots={view.slots}" if view.implementation == "OpenMPI" else f":{view.slots}"
    pods = [names.launcher_name(view.name)] if view.launcher_is_worker else []
    pods += [names.worker_name(view.name, index) for index in range(view.workers)]
    return "".join(f"{host(view, pod, settings)}{room}\n" for pod in pods)


def discover_hosts(view: JobView, running: Iterable[str], settings: ObjectSettings) -> str:
    """The script, for the names of the workers that run."""
    pods = [names.launcher_name(view.name)] if view.launcher_is_worker else []
    pods += sorted(running)
    return "#!/bin/sh\n" + "".join(f"echo {host(view, pod, settings)}\n" for pod in pods)
