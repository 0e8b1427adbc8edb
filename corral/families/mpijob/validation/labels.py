"""Area 10, labels and annotations: names that pods can have, and labels that people count on."""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.mpi import rules
from corral.api.mpi.spec import ReplicaSpec
from corral.families.mpijob import names
from corral.families.mpijob.validation.findings import (
    Findings,
    Subject,
    advice,
    errors,
    policy,
)
from corral.families.mpijob.validation.formats import label_value, qualified_name
from corral.kube.problems import FieldError, invalid_value, required, too_long

__all__ = ["check"]

_MAX_ANNOTATIONS = 256 * 1024
_SIDECARS = {
    "sidecar.istio.io/inject": "true",
    "linkerd.io/inject": "enabled",
}
"""What has a service mesh put a container beside ours that never ends."""
_OWN_LABELS = (
    names.OPERATOR_NAME_LABEL,
    names.JOB_NAME_LABEL,
    names.JOB_ROLE_LABEL,
    names.REPLICA_INDEX_LABEL,
)


def check(subject: Subject) -> Findings:
    yield from errors(rules.name_problems(subject.job.name, subject.spec.workers))
    for label in subject.context.required_labels:
        if not subject.labels.get(label):
            path = f"metadata.labels[{label}]"
            yield policy(required(path, "every job of the namespace must have it"))
    for path, replica in subject.replicas():
        where = f"{path}.template.metadata"
        yield from errors(_labels(where, replica))
        yield from errors(_annotations(where, replica))
        yield from _remarks(where, replica)


def _labels(path: str, replica: ReplicaSpec) -> Iterator[FieldError]:
    for key, value in _of(replica, "labels").items():
        for why in qualified_name(key):
            yield invalid_value(f"{path}.labels", key, why)
        for why in label_value(value):
            yield invalid_value(f"{path}.labels", value, why)


def _annotations(path: str, replica: ReplicaSpec) -> Iterator[FieldError]:
    annotations = _of(replica, "annotations")
    for key in annotations:
        for why in qualified_name(key.lower()):
            yield invalid_value(f"{path}.annotations", key, why)
    size = sum(len(k.encode()) + len(v.encode()) for k, v in annotations.items())
    if size > _MAX_ANNOTATIONS:
        yield too_long(f"{path}.annotations", _MAX_ANNOTATIONS)


def _of(replica: ReplicaSpec, kind: str) -> dict[str, str]:
    metadata = replica.template.metadata
    found = getattr(metadata, kind) if metadata is not None else None
    return found or {}


def _remarks(path: str, replica: ReplicaSpec) -> Findings:
    for key in _OWN_LABELS:
        if key in _of(replica, "labels"):
            yield advice(f"{path}.labels[{key}]", "is replaced by the one that the job gives")
    for kind in ("labels", "annotations"):
        for key, value in _SIDECARS.items():
            if _of(replica, kind).get(key) == value:
                text = "the launcher does not end while a sidecar of a mesh runs"
                yield advice(f"{path}.{kind}[{key}]", text)
