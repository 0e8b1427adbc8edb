"""What a TrainingJob must be like beyond its schema, one pure function per rule.

A job that is not suspended runs: what its pods are made of cannot be changed then. Some things can
never be changed, because what the job has made already would no longer be found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from corral.api.fields import span_seconds
from corral.api.training.spec import Elastic, Storage, TrainingJobSpec
from corral.api.training.template import merged_template
from corral.kube.problems import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = [
    "elastic_problems",
    "elastic_range_problems",
    "permanent_problems",
    "remarks",
    "restore_problems",
    "running_problems",
    "size_problems",
    "storage_problems",
    "template_problems",
]

Found = Iterator[FieldError]
_IMMUTABLE = "field is immutable"
_RUNNING = "may only be changed while the job is suspended"
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
_LABEL_WRONG = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_URI = re.compile(r"[a-z][a-z0-9+.-]*://")
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?\Z")
_POLICIES = ("Never", "OnFailure")


def elastic_range_problems(elastic: Elastic) -> Found:
    if elastic.min_replicas > elastic.max_replicas:
        why = "must be less than or equal to spec.elastic.maxReplicas"
        yield invalid_value("spec.elastic.minReplicas", elastic.min_replicas, why)


def elastic_problems(replicas: int, elastic: Elastic) -> Found:
    """Where the bounds are wrong themselves, being outside of one of them is still said."""
    if replicas < elastic.min_replicas:
        why = "must be greater than or equal to spec.elastic.minReplicas"
        yield invalid_value("spec.replicas", replicas, why)
    if replicas > elastic.max_replicas:
        why = "must be less than or equal to spec.elastic.maxReplicas"
        yield invalid_value("spec.replicas", replicas, why)


def storage_problems(storage: Storage) -> Found:
    if len(storage.chosen()) != 1:
        why = "must have exactly one of pvc, s3, gcs, azure, local"
        yield invalid_value("spec.checkpoint.storage", storage.chosen(), why)


def size_problems(storage: Storage) -> Found:
    if storage.pvc is None:
        return
    path, size = "spec.checkpoint.storage.pvc.size", storage.pvc.size
    try:
        amount = Quantity.parse(str(size))
    except ValueError as error:
        yield invalid_value(path, size, str(error))
        return
    if amount.mantissa <= 0:
        yield invalid_value(path, size, "must be greater than zero")


def restore_problems(source: str) -> Found:
    if source in ("Latest", "None") or _URI.match(source) or _NAME.match(source):
        return
    why = "must be Latest, None, the name of a Checkpoint, or a URI"
    yield invalid_value("spec.checkpoint.restore.from", source, why)


# --- the pod -----------------------------------------------------------------------------------


def template_problems(spec: Obj) -> Found:
    """What would keep every pod from being made; the rest is for the API server to say."""
    problem = _template_shape(spec.get("template") or {})
    if problem is not None:
        yield problem
        return
    pod: Obj = merged_template(spec).get("spec") or {}
    policy = pod.get("restartPolicy")
    if policy is not None and policy not in _POLICIES:
        yield not_supported("spec.template.spec.restartPolicy", policy, _POLICIES)
    containers = pod.get("containers") or []
    if not containers:
        yield required("spec.template.spec.containers", "or set spec.image")
    seen: set[Any] = set()
    for i, container in enumerate(containers):
        path = f"spec.template.spec.containers[{i}]"
        yield from _container_problems(container, path, seen)


def _template_shape(template: Obj) -> FieldError | None:
    path, value = "spec.template.spec", template.get("spec")
    if value is not None and not isinstance(value, dict):
        return invalid_value(path, value, "must be an object")
    path, value = f"{path}.containers", (value or {}).get("containers")
    if value is not None and not isinstance(value, list):
        return invalid_value(path, value, "must be a list")
    for i, container in enumerate(value or ()):
        if not isinstance(container, dict):
            return invalid_value(f"{path}[{i}]", container, "must be an object")
    return None


def _container_problems(container: Obj, path: str, seen: set[Any]) -> Found:
    name = container.get("name")
    if not name:
        yield required(f"{path}.name")
    elif not isinstance(name, str) or len(name) > 63 or not _LABEL.match(name):
        yield invalid_value(f"{path}.name", name, _LABEL_WRONG)
    elif name in seen:
        yield duplicate(f"{path}.name", name)
    else:
        seen.add(name)
    if not container.get("image"):
        yield required(f"{path}.image")


# --- changes -----------------------------------------------------------------------------------


def permanent_problems(spec: TrainingJobSpec, old: TrainingJobSpec) -> Found:
    """Changes that are never allowed."""
    if spec.framework != old.framework:
        yield invalid_value("spec.framework", spec.framework, _IMMUTABLE)
    if spec.service_account.create != old.service_account.create:
        path = "spec.serviceAccount.create"
        yield invalid_value(path, spec.service_account.create, _IMMUTABLE)
    now, before = spec.checkpoint, old.checkpoint
    if now is None or before is None:
        return
    if now.storage != before.storage:
        shown = now.storage.model_dump(by_alias=True, exclude_none=True)
        yield invalid_value("spec.checkpoint.storage", shown, _IMMUTABLE)
    if now.mount_path != before.mount_path:
        yield invalid_value("spec.checkpoint.mountPath", now.mount_path, _IMMUTABLE)


def running_problems(spec: TrainingJobSpec, old: TrainingJobSpec) -> Found:
    """Changes that a running job cannot follow; one that was suspended until now may have them."""
    if old.run_policy.suspend:
        return
    for name, path in _FIXED_WHILE_RUNNING.items():
        if getattr(spec, name) != getattr(old, name):
            yield forbidden_field(f"spec.{path}", _RUNNING)
    if spec.replicas != old.replicas and (spec.elastic is None or old.elastic is None):
        why = "may only be changed while the job is suspended or elastic"
        yield forbidden_field("spec.replicas", why)
    if (spec.elastic is None) != (old.elastic is None):
        yield forbidden_field("spec.elastic", _RUNNING)
    if (spec.checkpoint is None) != (old.checkpoint is None):
        yield forbidden_field("spec.checkpoint", _RUNNING)


_FIXED_WHILE_RUNNING = {
    "procs_per_replica": "procsPerReplica",
    "template": "template",
    "image": "image",
    "command": "command",
    "args": "args",
    "env": "env",
    "resources": "resources",
    "scheduling": "scheduling",
}

# --- warnings ----------------------------------------------------------------------------------


def remarks(spec: TrainingJobSpec) -> Iterator[str]:
    """What is allowed but probably not meant."""
    checkpoint, policy = spec.checkpoint, spec.run_policy
    if spec.elastic is not None and checkpoint is None:
        yield (
            "spec.elastic: without spec.checkpoint, training begins anew whenever the number of "
            "replicas changes"
        )
    if checkpoint is not None:
        yield from _checkpoint_remarks(spec)
    if policy.ttl_seconds_after_finished == 0:
        yield (
            "spec.runPolicy.ttlSecondsAfterFinished: 0 deletes the job as soon as it has finished, "
            "before anyone can read its status"
        )
    first = ((spec.template.get("spec") or {}).get("containers") or [{}])[0]
    image = first.get("image") if isinstance(first, dict) else None
    if spec.image and image and image != spec.image:
        yield (
            "spec.image: replaces the image of spec.template.spec.containers[0], which is not used"
        )


def _checkpoint_remarks(spec: TrainingJobSpec) -> Iterator[str]:
    checkpoint, deadline = spec.checkpoint, spec.run_policy.active_deadline_seconds
    if checkpoint is None:
        return
    if deadline is not None and span_seconds(checkpoint.interval) >= deadline:
        yield (
            "spec.checkpoint.interval: is not less than spec.runPolicy.activeDeadlineSeconds, so "
            "that no checkpoint is made by time"
        )
    pvc = checkpoint.storage.pvc
    if pvc is not None and spec.replicas > 1 and pvc.access_modes:
        if "ReadWriteMany" not in pvc.access_modes:
            yield (
                "spec.checkpoint.storage.pvc.accessModes: without ReadWriteMany all replicas must "
                "run on one node"
            )
    if checkpoint.storage.local is not None:
        yield "spec.checkpoint.storage.local: is for embedded clusters only"
