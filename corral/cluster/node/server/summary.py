"""``/stats/summary``: a reading as JSON, rates taken from the reading before it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from corral.cluster.node.access import ContainerUsage, PodUsage
from corral.cluster.node.server.readings import Reading, cpu_of
from corral.kube.types import Obj


def summary(node: str, now: Reading, before: Reading | None, *, folder: Path | None = None) -> Obj:
    """As kubelets answer; without file systems when ``folder`` is None."""
    at = stamp(now.at)
    machine = now.machine
    rate = _rate(now, before, before.machine.cpu_seconds if before else None, machine.cpu_seconds)
    of_node: Obj = {
        "nodeName": node,
        "startTime": stamp(machine.started_at),
        "cpu": {"time": at, **rate, "usageCoreNanoSeconds": _nanos(machine.cpu_seconds)},
        "memory": {
            "time": at,
            "availableBytes": machine.memory_available,
            "usageBytes": machine.memory_usage,
            "workingSetBytes": machine.memory_working_set,
            "rssBytes": machine.memory_rss,
        },
        "swap": {"time": at, "swapUsageBytes": machine.swap_usage},
    }
    if folder is not None:
        of_node["fs"] = _files(folder, at)
    old = {pod.uid: pod for pod in before.pods} if before else {}
    pods = [_pod(pod, old.get(pod.uid), now, before) for pod in now.pods]
    return {"node": of_node, "pods": pods}


def _pod(pod: PodUsage, old: PodUsage | None, now: Reading, before: Reading | None) -> Obj:
    earlier = {c.name: c for c in old.containers} if old else {}
    containers = [_container(c, earlier.get(c.name), now, before) for c in pod.containers]
    started = min((c.started_at for c in pod.containers), default=now.at)
    known = _cpu(old.containers) if old and len(earlier) == len(containers) else None
    total = _cpu(pod.containers)
    memory = sum(c.usage.memory_bytes for c in pod.containers)
    at = stamp(now.at)
    return {
        "podRef": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
        "startTime": stamp(started),
        "containers": containers,
        "cpu": {
            "time": at,
            **_rate(now, before, known, total),
            "usageCoreNanoSeconds": _nanos(total),
        },
        "memory": {"time": at, "usageBytes": memory, "workingSetBytes": memory},
    }


def _container(
    container: ContainerUsage, old: ContainerUsage | None, now: Reading, before: Reading | None
) -> Obj:
    used = cpu_of(container.usage)
    same = old is not None and old.started_at == container.started_at
    known = cpu_of(old.usage) if old is not None and same else None
    at, memory = stamp(now.at), container.usage.memory_bytes
    return {
        "name": container.name,
        "startTime": stamp(container.started_at),
        "cpu": {
            "time": at,
            **_rate(now, before, known, used),
            "usageCoreNanoSeconds": _nanos(used),
        },
        "memory": {"time": at, "usageBytes": memory, "workingSetBytes": memory},
    }


def _cpu(containers: Sequence[ContainerUsage] | Iterable[ContainerUsage]) -> float:
    return sum(cpu_of(c.usage) for c in containers)


def _rate(now: Reading, before: Reading | None, old: float | None, new: float) -> Obj:
    """Nothing when there is nothing to compare with."""
    if before is None or old is None or new < old or now.at <= before.at:
        return {}
    return {"usageNanoCores": round((new - old) / (now.at - before.at) * 1e9)}


def _files(folder: Path, at: str) -> Obj:
    total, used, free = shutil.disk_usage(folder)
    return {"time": at, "availableBytes": free, "capacityBytes": total, "usedBytes": used}


def _nanos(seconds: float) -> int:
    return round(seconds * 1e9)


def stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
