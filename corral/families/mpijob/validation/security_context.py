"""Area 9, security context: no root, no way to become root, nothing of the node."""

from __future__ import annotations

from corral.api.mpi.template import ContainerSecurity, PodSecurity
from corral.families.mpijob import names
from corral.families.mpijob.validation.findings import (
    Findings,
    PlacedContainer,
    PlacedPod,
    Subject,
    advice,
    error,
    policy,
)
from corral.kube.problems import forbidden_field, invalid_value, not_supported, required

__all__ = ["check"]

_RANGE = "must be between 0 and 2147483647, inclusive"
_HARMLESS = ("NET_BIND_SERVICE",)
_PROFILES = ("RuntimeDefault", "Localhost")


def check(subject: Subject) -> Findings:
    for pod in subject.pods():
        security = pod.pod.security_context or PodSecurity()
        yield from _node_access(pod)
        yield from _user(f"{pod.path}.securityContext.runAsUser", security.run_as_user)
        yield from _group(f"{pod.path}.securityContext.fsGroup", security.fs_group)
        for place in pod.all_containers:
            own = place.container.security_context or ContainerSecurity()
            yield from _identity(place, own, security)
            yield from _escalation(place, own)
            yield from _capabilities(place, own)
            yield from _seccomp(place, own, security)
        yield from _unreadable_keys(subject, pod, security)


def _node_access(pod: PlacedPod) -> Findings:
    why = "pods must not share what belongs to their node"
    for field, value in (("hostPID", pod.pod.host_pid), ("hostIPC", pod.pod.host_ipc)):
        if value:
            yield policy(forbidden_field(f"{pod.path}.{field}", why))
    for i, volume in enumerate(pod.pod.volumes or ()):
        if volume.host_path is not None:
            yield policy(forbidden_field(f"{pod.path}.volumes[{i}].hostPath", why))


def _group(path: str, group: int | None) -> Findings:
    if group is not None and not 0 <= group < 2**31:
        yield error(invalid_value(path, group, _RANGE))


def _user(path: str, user: int | None) -> Findings:
    if user is None:
        return
    if not 0 <= user < 2**31:
        yield error(invalid_value(path, user, _RANGE))
    elif user == 0:
        yield policy(invalid_value(path, user, "must not be root"))


def _identity(place: PlacedContainer, own: ContainerSecurity, pod: PodSecurity) -> Findings:
    path = f"{place.path}.securityContext"
    yield from _user(f"{path}.runAsUser", own.run_as_user)
    said = own.run_as_non_root if own.run_as_non_root is not None else pod.run_as_non_root
    user = own.run_as_user if own.run_as_user is not None else pod.run_as_user
    if said is None and not user:
        why = "must be true for the pod or the container, or runAsUser must not be root"
        yield policy(required(f"{path}.runAsNonRoot", why))
    elif said is False:
        yield policy(invalid_value(f"{path}.runAsNonRoot", said, "must be true"))


def _escalation(place: PlacedContainer, own: ContainerSecurity) -> Findings:
    path, may = f"{place.path}.securityContext", own.allow_privilege_escalation
    if own.privileged:
        yield policy(forbidden_field(f"{path}.privileged", "must be false"))
    if own.privileged and may is False:
        why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield error(invalid_value(path, place.container.name, why))
    if may is None:
        yield policy(required(f"{path}.allowPrivilegeEscalation", "must be false"))
    elif may:
        yield policy(invalid_value(f"{path}.allowPrivilegeEscalation", may, "must be false"))


def _capabilities(place: PlacedContainer, own: ContainerSecurity) -> Findings:
    path = f"{place.path}.securityContext.capabilities"
    added = own.capabilities.add if own.capabilities is not None else None
    dropped = own.capabilities.drop if own.capabilities is not None else None
    for i, name in enumerate(added or ()):
        if name not in _HARMLESS:
            yield policy(not_supported(f"{path}.add[{i}]", name, _HARMLESS))
    if "ALL" not in (dropped or ()):
        yield policy(required(f"{path}.drop", "must have ALL"))


def _seccomp(place: PlacedContainer, own: ContainerSecurity, pod: PodSecurity) -> Findings:
    path = f"{place.path}.securityContext.seccompProfile.type"
    profile = own.seccomp_profile or pod.seccomp_profile
    kind = profile.type if profile is not None else None
    if kind is None:
        yield policy(required(path, "must be set for the pod or the container"))
    elif kind not in _PROFILES:
        yield policy(not_supported(path, kind, _PROFILES))


def _unreadable_keys(subject: Subject, pod: PlacedPod, security: PodSecurity) -> Findings:
    """Keys below root's home are for root alone."""
    if subject.spec.ssh_auth_mount_path != names.ROOT_SSH_PATH:
        return
    for place in pod.containers[:1]:
        own = place.container.security_context or ContainerSecurity()
        user = own.run_as_user if own.run_as_user is not None else security.run_as_user
        non_root = own.run_as_non_root or security.run_as_non_root
        if (user or non_root) and user != 0:
            text = f"only root can read keys in {names.ROOT_SSH_PATH}; mount them elsewhere"
            yield advice("spec.sshAuthMountPath", text)
            return
