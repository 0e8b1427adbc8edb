"""PodGroups: the pods of a job are scheduled together, by Volcano or by scheduler-plugins.

A launcher that is created only when the workers are ready is not counted: a group that waits for a
pod that waits for the group would never be scheduled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from corral.families.mpijob import names
from corral.families.mpijob.settings import VOLCANO, ObjectSettings
from corral.families.mpijob.view import JobView
from corral.kube.quantity import Quantity
from corral.kube.resources import Resource
from corral.kube.types import Obj

__all__ = [
    "PLUGINS_PODGROUPS",
    "VOLCANO_PODGROUPS",
    "join_group",
    "min_member",
    "min_resources",
    "pod_group",
    "pod_groups",
]

VOLCANO_PODGROUPS: Final = Resource(
    "scheduling.volcano.sh", "v1beta1", "podgroups", True, "PodGroup"
)
PLUGINS_PODGROUPS: Final = Resource(
    "scheduling.x-k8s.io", "v1alpha1", "podgroups", True, "PodGroup"
)


def pod_groups(settings: ObjectSettings) -> Resource | None:
    """The resource that PodGroups are of; none without gangs."""
    if not settings.gang_scheduler:
        return None
    return VOLCANO_PODGROUPS if settings.gang_scheduler == VOLCANO else PLUGINS_PODGROUPS


def pod_group(
    view: JobView, settings: ObjectSettings, priorities: Mapping[str, int] | None = None
) -> Obj | None:
    """The PodGroup; none without gangs.

    ``priorities`` are the values of the cluster's PriorityClasses.
    """
    resource = pod_groups(settings)
    if resource is None:
        return None
    volcano = resource is VOLCANO_PODGROUPS
    resources = min_resources(view, priorities or {})
    spec: Obj = _volcano_spec(view) if volcano else _plugins_spec(view)
    if member := min_member(view):
        spec["minMember"] = member
    if resources is not None and (resources or volcano):
        spec["minResources"] = resources
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": view.metadata(view.name, labels={}),
        "spec": spec,
    }


def _volcano_spec(view: JobView) -> Obj:
    policy = view.scheduling_policy
    queue = policy.get("queue") or view.annotations.get(names.VOLCANO_QUEUE_ANNOTATION)
    priority = policy.get("priorityClass") or _pod_priority(view)
    spec: Obj = {"queue": queue} if queue else {}
    return {**spec, "priorityClassName": priority} if priority else spec


def _pod_priority(view: JobView) -> str:
    for replica in (view.launcher, view.worker or {}):
        pod: Obj = (replica.get("template") or {}).get("spec") or {}
        if pod.get("priorityClassName"):
            return str(pod["priorityClassName"])
    return ""


def _plugins_spec(view: JobView) -> Obj:
    return {"scheduleTimeoutSeconds": view.scheduling_policy.get("scheduleTimeoutSeconds") or 0}


def min_member(view: JobView) -> int:
    """How many pods must be schedulable at once."""
    wanted = view.scheduling_policy.get("minAvailable")
    if not view.waits_for_workers:
        return view.workers + 1 if wanted is None else int(wanted)
    return view.workers if wanted is None else min(int(wanted), view.workers)


# --- what must be free ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Members:
    """The pods of one role that count."""

    pod: Obj
    count: int
    priority: int


def min_resources(view: JobView, priorities: Mapping[str, int]) -> Obj | None:
    """What the members of the group need together; none where nothing is asked for."""
    given = view.scheduling_policy.get("minResources")
    if given is not None:
        return dict(given)
    member = min_member(view)
    if member == 0:
        return None
    totals: dict[str, Quantity] = {}
    for members in _counted(view, priorities, member):
        _add(totals, members)
    return {name: str(amount) for name, amount in totals.items()}


def _counted(view: JobView, priorities: Mapping[str, int], member: int) -> list[_Members]:
    """The pods that are among the first ``member`` by priority; at a tie the launcher is first."""
    launcher = _members(view.launcher, priorities)
    if view.worker is None:
        return [launcher]
    worker = _members(view.worker, priorities)
    if view.waits_for_workers:
        return [replace(worker, count=member)]
    if launcher.count + worker.count <= member:
        return [launcher, worker]
    if worker.priority > launcher.priority:
        return [replace(launcher, count=min(launcher.count, member - 1)), worker]
    return [launcher, replace(worker, count=member - 1)]


def _members(replica: Obj, priorities: Mapping[str, int]) -> _Members:
    pod: Obj = replica["template"]["spec"]
    priority = priorities.get(pod.get("priorityClassName") or "", 0)
    return _Members(pod, int(replica["replicas"]), priority)


def _add(totals: dict[str, Quantity], members: _Members) -> None:
    for container in members.pod["containers"]:
        resources: Obj = container.get("resources") or {}
        needed = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, text in needed.items():
            one = Quantity.parse(str(text))
            amount = Quantity(one.mantissa * members.count, one.exponent, one.format)
            totals[name] = totals[name] + amount if name in totals else amount


# --- the pods ------------------------------------------------------------------------------------


def join_group(template: Obj, view: JobView, settings: ObjectSettings) -> None:
    """Have the pods of a template scheduled with the group; in place."""
    if not settings.gang_scheduler:
        return
    template["spec"]["schedulerName"] = settings.gang_scheduler
    metadata: Obj = template["metadata"]
    if settings.gang_scheduler == VOLCANO:
        metadata.setdefault("annotations", {})[names.VOLCANO_GROUP_ANNOTATION] = view.name
    else:
        metadata["labels"][names.PLUGINS_GROUP_LABEL] = view.name
