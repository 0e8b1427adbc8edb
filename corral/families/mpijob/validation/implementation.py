"""Area 3, implementation: which MPI it is, and that the launcher can reach the workers by it."""

from __future__ import annotations

from corral.api.mpi import rules
from corral.api.mpi.spec import LAUNCHER
from corral.families.mpijob import names
from corral.families.mpijob.validation.findings import (
    Findings,
    Subject,
    advice,
    error,
    errors,
)
from corral.kube.problems import invalid_value

__all__ = ["check"]

_PATH = "spec.sshAuthMountPath"
_CREATION_POLICIES = ("AtStartup", "WaitForWorkersReady")
_OWN_VARIABLES = {
    "OpenMPI": ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"),
    "Intel": ("I_MPI_HYDRA_HOST_FILE", "I_MPI_PERHOST"),
    "MPICH": ("HYDRA_HOST_FILE",),
}


def check(subject: Subject) -> Findings:
    yield from errors(rules.implementation_problems(subject.spec))
    yield from _mounted(subject)
    creation = subject.spec.launcher_creation_policy
    if creation not in _CREATION_POLICIES:
        text = f'"{creation}" is taken for WaitForWorkersReady'
        yield advice("spec.launcherCreationPolicy", text)
    if subject.spec.launcher is not None and not _hosts(subject):
        yield advice(rules.SPECS, "without workers the hostfile is empty")
    yield from _replaced_variables(subject)


def _hosts(subject: Subject) -> bool:
    return subject.spec.worker is not None or subject.spec.run_launcher_as_worker


def _mounted(subject: Subject) -> Findings:
    """The keys have a place of their own in the first container."""
    path = subject.spec.ssh_auth_mount_path or ""
    if ":" in path:
        yield error(invalid_value(_PATH, path, "must not contain ':'"))
        return
    if path and not path.startswith("/"):
        yield advice(_PATH, "a path that is not absolute depends on the container runtime")
    if path and path.rstrip("/") == names.CONFIG_MOUNT_PATH:
        yield error(invalid_value(_PATH, path, "must not be where the hostfile is mounted"))
    for pod in subject.pods():
        for place in pod.containers[:1]:
            taken = {mount.mount_path for mount in place.container.volume_mounts or ()}
            if path and path in taken:
                why = f"must be unique: the first container of the {pod.role} mounts another volume"
                yield error(invalid_value(_PATH, path, why))


def _replaced_variables(subject: Subject) -> Findings:
    launcher = subject.pod(LAUNCHER)
    ours = _OWN_VARIABLES.get(subject.spec.mpi_implementation, ())
    for place in launcher.containers[:1] if launcher is not None else ():
        for i, variable in enumerate(place.container.env or ()):
            if variable.name in ours:
                yield advice(f"{place.path}.env[{i}].name", f"{variable.name} is set by the job")
