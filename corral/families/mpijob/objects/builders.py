"""Everything that is made for an MPIJob: the Service, the ConfigMap, and the list of all of it.

Pure: a job, the settings and what is known in; objects out. Each has the job as its controller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from corral.families.mpijob import names
from corral.families.mpijob.objects import launching
from corral.families.mpijob.objects.hostfile import discover_hosts, hostfile
from corral.families.mpijob.objects.launcher import launcher_job
from corral.families.mpijob.objects.networkpolicy import network_policy
from corral.families.mpijob.objects.podgroup import pod_group
from corral.families.mpijob.objects.ssh import KeyPair, ssh_secret
from corral.families.mpijob.objects.workers import worker_pods
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj

__all__ = ["Children", "children", "config_map", "service", "service_agrees"]


def service(view: JobView) -> Obj:
    """The headless Service that gives launcher and workers their names."""
    spec: Obj = {"clusterIP": "None", "selector": names.selector_labels(view.name)}
    if view.launcher_is_worker:
        # The launcher is a host of the job before it can be ready.
        spec["publishNotReadyAddresses"] = True
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": view.metadata(view.name),
        "spec": spec,
    }


def service_agrees(found: Obj, wanted: Obj) -> bool:
    """Whether a Service still selects the pods as it should."""
    ours, theirs = wanted["spec"], found.get("spec") or {}
    return ours["selector"] == theirs.get("selector") and bool(
        ours.get("publishNotReadyAddresses")
    ) == bool(theirs.get("publishNotReadyAddresses"))


def config_map(view: JobView, running: Iterable[str], settings: ObjectSettings) -> Obj:
    """The hosts, for the names of the workers that run."""
    data = {
        names.HOSTFILE: hostfile(view, settings),
        names.DISCOVER_HOSTS: discover_hosts(view, running, settings),
    }
    if launching.uses_agent(settings):
        data[launching.AGENT] = launching.agent_script()
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": view.metadata(names.config_map_name(view.name)),
        "data": data,
    }


@dataclass(frozen=True, slots=True)
class Children:
    """All that belongs to a job that is not suspended."""

    service: Obj
    config_map: Obj
    secret: Obj
    launcher: Obj
    workers: list[Obj]
    pod_group: Obj | None = None
    network_policy: Obj | None = None

    def all(self) -> list[Obj]:
        """In the order in which they are made."""
        first = [self.service, self.config_map, self.secret]
        optional = [obj for obj in (self.network_policy, self.pod_group) if obj is not None]
        return [*first, *optional, *self.workers, self.launcher]


def children(
    job: Obj,
    settings: ObjectSettings,
    keys: KeyPair,
    *,
    running: Iterable[str] = (),
    priorities: Mapping[str, int] | None = None,
) -> Children:
    """Everything for a job, which is valid."""
    view = JobView.of(job)
    return Children(
        service=service(view),
        config_map=config_map(view, running, settings),
        secret=ssh_secret(view, keys),
        launcher=launcher_job(view, settings),
        workers=worker_pods(view, settings),
        pod_group=pod_group(view, settings, priorities),
        network_policy=network_policy(view),
    )
