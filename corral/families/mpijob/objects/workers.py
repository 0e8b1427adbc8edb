"""The workers: plain pods that wait for the launcher to start processes in them.

`WorkerBuilder` prepares what all workers share once; a pod of a thousand is then a few small dicts.
Pods share those parts: they are not to be changed.
"""

from __future__ import annotations

from corral.families.mpijob import names
from corral.families.mpijob.objects import launching
from corral.families.mpijob.objects.pods import ROLE_VARIABLE, add_env, add_ssh, prepared, variable
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from corral.kube.types import Obj

__all__ = ["WorkerBuilder", "worker_pods"]


class WorkerBuilder:
    """Makes the workers of one job."""

    def __init__(self, view: JobView, settings: ObjectSettings) -> None:
        """Raises: ValueError: the job has no workers."""
        if view.worker is None:
            raise ValueError(f"{view.namespace}/{view.name} has no workers")
        self._view = view
        self._owners = [view.owner()]
        template = prepared(view, view.worker, names.ROLE_WORKER, settings)
        self._metadata: Obj = template["metadata"]
        self._pod: Obj = template["spec"]
        self._complete(settings)

    def _complete(self, settings: ObjectSettings) -> None:
        pod, view = self._pod, self._view
        # Intel MPI and MPICH have workers call back to the launcher by its bare host name.
        search = f"{view.name}.{view.namespace}.svc.cluster.local"
        dns: Obj = pod.get("dnsConfig") or {}
        pod["dnsConfig"] = {**dns, "searches": [*(dns.get("searches") or ()), search]}
        container: Obj = pod["containers"][0]
        if not container.get("command") and not container.get("args"):
            container["command"] = list(settings.worker_command)
        add_env(pod, [variable(ROLE_VARIABLE, names.ROLE_WORKER)])
        add_ssh(pod, view)
        if launching.uses_agent(settings):
            launching.prepare_worker(pod, view)

    def pod(self, index: int) -> Obj:
        """The worker with this index."""
        view = self._view
        name = names.worker_name(view.name, index)
        label = str(index + 1 if view.launcher_is_worker else index)
        labels = {**self._metadata["labels"], names.REPLICA_INDEX_LABEL: label}
        metadata: Obj = {**self._metadata, "labels": labels}
        metadata |= {"name": name, "namespace": view.namespace, "ownerReferences": self._owners}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {**self._pod, "hostname": name},
        }


def worker_pods(view: JobView, settings: ObjectSettings) -> list[Obj]:
    """All workers of a job, by index."""
    if not view.workers:
        return []
    builder = WorkerBuilder(view, settings)
    return [builder.pod(index) for index in range(view.workers)]
