"""Area 7, container spec: containers that an API server takes, with room for what is added."""

from __future__ import annotations

from collections.abc import Iterator

from corral.api.mpi import rules
from corral.api.mpi.spec import LAUNCHER
from corral.families.mpijob import names
from corral.families.mpijob.validation.findings import (
    Findings,
    PlacedContainer,
    PlacedPod,
    Subject,
    advice,
    errors,
)
from corral.families.mpijob.validation.formats import dns_label, env_name
from corral.kube.problems import (
    FieldError,
    duplicate,
    invalid_value,
    not_found_field,
    not_supported,
    required,
)

__all__ = ["check"]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_ELSEWHERE = (".replicas", ".restartPolicy")


def check(subject: Subject) -> Findings:
    yield from errors(
        problem
        for problem in rules.replica_problems(subject.spec)
        if not problem.field.endswith(_ELSEWHERE)
    )
    for pod in subject.pods():
        yield from errors(_container_names(pod))
        yield from errors(_volumes(pod))
        for place in pod.all_containers:
            yield from errors(_container(place))
            yield from errors(_mounts(place, _volume_names(pod)))
        yield from _replaced(pod)


def _container_names(pod: PlacedPod) -> Iterator[FieldError]:
    seen: set[str] = set()
    for place in pod.all_containers:
        path, name = f"{place.path}.name", place.container.name
        if not name:
            yield required(path)
            continue
        for why in dns_label(name):
            yield invalid_value(path, name, why)
        if name in seen:
            yield duplicate(path, name)
        seen.add(name)


def _container(place: PlacedContainer) -> Iterator[FieldError]:
    container = place.container
    if not container.image:
        yield required(f"{place.path}.image")
    elif container.image != container.image.strip():
        why = "must not have leading or trailing whitespace"
        yield invalid_value(f"{place.path}.image", container.image, why)
    policy = container.image_pull_policy
    if policy and policy not in _PULL_POLICIES:
        yield not_supported(f"{place.path}.imagePullPolicy", policy, _PULL_POLICIES)
    yield from _environment(place)
    for i, port in enumerate(container.ports or ()):
        path, number = f"{place.path}.ports[{i}].containerPort", port.container_port
        if not number:
            yield required(path)
        elif not 0 < number < 65536:
            yield invalid_value(path, number, "must be between 1 and 65535, inclusive")


def _environment(place: PlacedContainer) -> Iterator[FieldError]:
    for i, variable in enumerate(place.container.env or ()):
        path = f"{place.path}.env[{i}]"
        if not variable.name:
            yield required(f"{path}.name")
        for why in env_name(variable.name) if variable.name else ():
            yield invalid_value(f"{path}.name", variable.name, why)
        if variable.value and variable.value_from is not None:
            why = "may not be specified when `value` is not empty"
            yield invalid_value(f"{path}.valueFrom", "", why)


# --- volumes -------------------------------------------------------------------------------------


def _own_volumes(role: str) -> tuple[str, ...]:
    """The volumes that are added to the pod."""
    return (names.SSH_VOLUME, *((names.CONFIG_VOLUME,) if role == LAUNCHER else ()))


def _volume_names(pod: PlacedPod) -> set[str]:
    return {volume.name or "" for volume in pod.pod.volumes or ()} | {*_own_volumes(pod.role)}


def _volumes(pod: PlacedPod) -> Iterator[FieldError]:
    seen: set[str] = set()
    for i, volume in enumerate(pod.pod.volumes or ()):
        path, name = f"{pod.path}.volumes[{i}].name", volume.name
        if not name:
            yield required(path)
            continue
        for why in dns_label(name):
            yield invalid_value(path, name, why)
        if name in _own_volumes(pod.role):
            yield invalid_value(path, name, "is the name of a volume that the job adds")
        elif name in seen:
            yield duplicate(path, name)
        seen.add(name)


def _mounts(place: PlacedContainer, volumes: set[str]) -> Iterator[FieldError]:
    taken = {names.CONFIG_MOUNT_PATH} if place.first and place.role == LAUNCHER else set()
    for i, mount in enumerate(place.container.volume_mounts or ()):
        path = f"{place.path}.volumeMounts[{i}]"
        if not mount.name:
            yield required(f"{path}.name")
        elif mount.name not in volumes:
            yield not_found_field(f"{path}.name", mount.name)
        if not mount.mount_path:
            yield required(f"{path}.mountPath")
        elif mount.mount_path in taken:
            yield invalid_value(f"{path}.mountPath", mount.mount_path, "must be unique")
        taken.add(mount.mount_path or "")


# --- what is not taken over ----------------------------------------------------------------------


def _replaced(pod: PlacedPod) -> Findings:
    replica = rules.replica_path(pod.role)
    if pod.pod.restart_policy:
        yield advice(f"{pod.path}.restartPolicy", f"is replaced by {replica}.restartPolicy")
    for field, value in (("hostname", pod.pod.hostname), ("subdomain", pod.pod.subdomain)):
        if value:
            yield advice(f"{pod.path}.{field}", "is replaced by the one that the job gives")
