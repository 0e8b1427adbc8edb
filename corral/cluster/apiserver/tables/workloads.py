"""Rows of the kinds that make pods, and of what they leave behind."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from corral.cluster.apiserver.tables.cells import (
    NONE,
    UNSET,
    Row,
    age,
    between,
    born,
    containers,
    labels,
    selector,
)
from corral.kube.types import Obj

__all__ = ["ROWS"]

_JOB_STATES = (
    "Complete",
    "Failed",
    "Terminating",
    "Suspended",
    "FailureTarget",
    "SuccessCriteriaMet",
)
"""The first that holds is shown; Terminating is not a condition but a deletion under way."""


def _parts(obj: Obj) -> tuple[str, Obj, Obj]:
    return obj["metadata"].get("name", ""), obj.get("spec") or {}, obj.get("status") or {}


def _deployment(obj: Obj, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [
        name,
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        born(obj, now),
        *containers(spec.get("template")),
        selector(spec.get("selector")),
    ]


def _replicas(obj: Obj, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [
        name,
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        born(obj, now),
        *containers(spec.get("template")),
    ]


def _replica_set(obj: Obj, now: datetime) -> list[Any]:
    return [*_replicas(obj, now), selector((obj.get("spec") or {}).get("selector")) or NONE]


def _replication_controller(obj: Obj, now: datetime) -> list[Any]:
    return [*_replicas(obj, now), labels((obj.get("spec") or {}).get("selector"))]


def _stateful_set(obj: Obj, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [name, ready, born(obj, now), *containers(spec.get("template"))]


def _daemon_set(obj: Obj, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    template = spec.get("template") or {}
    return [
        name,
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels((template.get("spec") or {}).get("nodeSelector")),
        born(obj, now),
        *containers(template),
        selector(spec.get("selector")) or NONE,
    ]


def _job(obj: Obj, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [
        name,
        _job_state(obj, status),
        _completions(spec, status.get("succeeded", 0)),
        _duration(status, now),
        born(obj, now),
        *containers(spec.get("template")),
        selector(spec.get("selector")) or NONE,
    ]


def _job_state(obj: Obj, status: Obj) -> str:
    # Of two conditions of one type the first counts.
    held = {c["type"]: c.get("status") == "True" for c in reversed(status.get("conditions") or ())}
    held["Terminating"] = obj["metadata"].get("deletionTimestamp") is not None
    for state in _JOB_STATES:
        if held.get(state):
            return state
    return "Running"


def _completions(spec: Obj, succeeded: int) -> str:
    if (wanted := spec.get("completions")) is not None:
        return f"{succeeded}/{wanted}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(status: Obj, now: datetime) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return between(start, end) if end else age(start, now)


def _cron_job(obj: Obj, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspend, last, zone = spec.get("suspend"), status.get("lastScheduleTime"), spec.get("timeZone")
    return [
        name,
        spec.get("schedule", ""),
        NONE if zone is None else zone,
        UNSET if suspend is None else str(suspend),
        len(status.get("active") or ()),
        age(last, now) if last else NONE,
        born(obj, now),
        *containers(job.get("template")),
        selector(job.get("selector")) or NONE,
    ]


def _pod_template(obj: Obj, now: datetime) -> list[Any]:
    template = obj.get("template") or {}
    found = (template.get("metadata") or {}).get("labels")
    return [obj["metadata"].get("name", ""), *containers(template), labels(found)]


def _disruption_budget(obj: Obj, now: datetime) -> list[Any]:
    name, spec, status = _parts(obj)
    return [
        name,
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        born(obj, now),
    ]


def _controller_revision(obj: Obj, now: datetime) -> list[Any]:
    owners = obj["metadata"].get("ownerReferences") or ()
    owner = next((_owner(o) for o in owners if o.get("controller")), NONE)
    return [obj["metadata"].get("name", ""), owner, obj.get("revision", 0), born(obj, now)]


def _owner(reference: Obj) -> str:
    group, slash, _ = reference["apiVersion"].partition("/")
    kind = f"{reference['kind']}.{group}" if slash else reference["kind"]
    return f"{kind.lower()}/{reference['name']}"


ROWS: dict[tuple[str, str], Row] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "ReplicaSet"): _replica_set,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("apps", "ControllerRevision"): _controller_revision,
    ("", "ReplicationController"): _replication_controller,
    ("", "PodTemplate"): _pod_template,
    ("batch", "Job"): _job,
    ("batch", "CronJob"): _cron_job,
    ("policy", "PodDisruptionBudget"): _disruption_budget,
}
