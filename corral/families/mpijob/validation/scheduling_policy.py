"""Area 6, scheduling policy: a group that can be scheduled as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.mpi.spec import SchedulingPolicy
from corral.families.mpijob.settings import VOLCANO
from corral.families.mpijob.validation.findings import (
    Findings,
    PlacedPod,
    Subject,
    advice,
    error,
    errors,
    policy,
)
from corral.families.mpijob.validation.formats import (
    amount,
    dns_subdomain,
    label_value,
    qualified_name,
)
from corral.kube.problems import (
    FieldError,
    duplicate,
    invalid_value,
    not_found_field,
    required,
)
from corral.kube.quantity import Quantity

__all__ = ["check"]

_PATH = "spec.runPolicy.schedulingPolicy"
_NEGATIVE = "must be greater than or equal to 0"


def check(subject: Subject) -> Findings:
    scheduling = subject.spec.run_policy.scheduling_policy
    if scheduling is not None:
        yield from _numbers(scheduling)
        yield from _size(subject, scheduling)
        yield from _name("queue", scheduling.queue)
        yield from _name("priorityClass", scheduling.priority_class)
        yield from _priority(subject, f"{_PATH}.priorityClass", scheduling.priority_class)
        yield from _ignored(subject, scheduling)
    for pod in subject.pods():
        yield from errors(_placement(pod))
        path = f"{pod.path}.priorityClassName"
        yield from _priority(subject, path, pod.pod.priority_class_name)
        yield from _replaced_scheduler(subject, pod)


def _placement(pod: PlacedPod) -> Iterator[FieldError]:
    """What no scheduler could follow."""
    name = pod.pod.priority_class_name
    for why in dns_subdomain(name) if name else ():
        yield invalid_value(f"{pod.path}.priorityClassName", name, why)
    for key, value in (pod.pod.node_selector or {}).items():
        for why in qualified_name(key):
            yield invalid_value(f"{pod.path}.nodeSelector", key, why)
        for why in label_value(value):
            yield invalid_value(f"{pod.path}.nodeSelector", value, why)
    seen: set[str] = set()
    for i, gate in enumerate(pod.pod.scheduling_gates or ()):
        path, named = f"{pod.path}.schedulingGates[{i}]", gate.get("name")
        if not isinstance(named, str):
            yield required(f"{path}.name")
            continue
        for why in qualified_name(named):
            yield invalid_value(path, named, why)
        if named in seen:
            yield duplicate(path, named)
        seen.add(named)


def _numbers(scheduling: SchedulingPolicy) -> Findings:
    for name, number in (
        ("minAvailable", scheduling.min_available),
        ("scheduleTimeoutSeconds", scheduling.schedule_timeout_seconds),
    ):
        if number is not None and number < 0:
            yield error(invalid_value(f"{_PATH}.{name}", number, _NEGATIVE))
    for name, text in (scheduling.min_resources or {}).items():
        found, path = amount(text), f"{_PATH}.minResources[{name}]"
        if found is None:
            yield error(invalid_value(path, text, "must be a quantity"))
        elif found < Quantity(0):
            yield error(invalid_value(path, str(found), _NEGATIVE))


def _size(subject: Subject, scheduling: SchedulingPolicy) -> Findings:
    pods = sum(count for _, count in subject.counts())
    if scheduling.min_available is not None and scheduling.min_available > pods:
        why = f"must not exceed the number of pods, {pods}"
        yield policy(invalid_value(f"{_PATH}.minAvailable", scheduling.min_available, why))


def _name(field: str, name: str | None) -> Findings:
    for why in dns_subdomain(name) if name else ():
        yield policy(invalid_value(f"{_PATH}.{field}", name, why))


def _priority(subject: Subject, path: str, name: str | None) -> Findings:
    known = subject.context.priorities
    if name and known is not None and name not in known:
        yield policy(not_found_field(path, name))


def _ignored(subject: Subject, scheduling: SchedulingPolicy) -> Findings:
    scheduler = subject.context.gang_scheduler
    unused = {
        "queue": scheduling.queue if scheduler != VOLCANO else None,
        "priorityClass": scheduling.priority_class if scheduler != VOLCANO else None,
        "scheduleTimeoutSeconds": (
            scheduling.schedule_timeout_seconds if scheduler in ("", VOLCANO) else None
        ),
        "minAvailable": scheduling.min_available if not scheduler else None,
        "minResources": scheduling.min_resources if not scheduler else None,
    }
    by = f"by {scheduler}" if scheduler else "without gang scheduling"
    for name, value in unused.items():
        if value:
            yield advice(f"{_PATH}.{name}", f"is not used {by}")


def _replaced_scheduler(subject: Subject, pod: PlacedPod) -> Findings:
    scheduler, named = subject.context.gang_scheduler, pod.pod.scheduler_name
    if scheduler and named and named != scheduler:
        text = f"is replaced by {scheduler}, which schedules the pods together"
        yield advice(f"{pod.path}.schedulerName", text)
