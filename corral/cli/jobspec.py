"""Jobs made from the words of a command line. Pure: options in, an object out."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from corral.cli.errors import USAGE, Trouble
from corral.kube.types import Obj

__all__ = [
    "MPI_NAMES",
    "RUNNABLE",
    "RunOptions",
    "build",
    "check_name",
    "default_image",
    "mpijob",
    "name_for",
    "parse_env",
    "pod_template",
    "trainingjob",
]

MAX_NAME: Final = 56
"""As for TrainingJobs: pods add up to seven characters."""
GPU: Final = "nvidia.com/gpu"
MPI_NAMES: Final = {"openmpi": "OpenMPI", "mpich": "MPICH", "intel": "Intel", "intelmpi": "Intel"}
_LAUNCHERS: Final = ("mpirun", "mpiexec", "mpiexec.hydra", "horovodrun", "prterun")
_AS_ROOT: Final = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
_NAME = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a person asked for."""

    name: str
    namespace: str
    command: Sequence[str]
    image: str = ""
    replicas: int = 1
    framework: str = "custom"
    env: Mapping[str, str] = field(default_factory=dict)
    cpu: str = ""
    memory: str = ""
    gpus: int = 0
    slots: int = 1
    mpi: str = ""
    """Implementation of MPI; empty: the kind's default."""
    queue: str = ""
    restarts: int = 0
    """Failures that are answered with a restart; a mistake in a script is told at once."""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def resources(self) -> Obj:
        """Requests and limits are the same: what was asked for is had, and no more."""
        asked = {"cpu": self.cpu, "memory": self.memory, GPU: str(self.gpus) if self.gpus else ""}
        asked = {name: amount for name, amount in asked.items() if amount}
        return {"requests": asked, "limits": dict(asked)} if asked else {}


def build(kind: str, options: RunOptions) -> Obj:
    """An object of a kind that a command can be run as, by its singular name.

    Raises:
        Trouble: it cannot.
    """
    try:
        make = RUNNABLE[kind]
    except KeyError:
        raise Trouble(
            f"a command cannot be run as a {kind}",
            code=USAGE,
            hint=f"use --kind {' or '.join(RUNNABLE)}, or write a manifest for `corral apply -f`",
        ) from None
    return make(options)


def trainingjob(options: RunOptions) -> Obj:
    """One pod per replica, each with the command."""
    spec: Obj = {
        "framework": options.framework,
        "replicas": options.replicas,
        "runPolicy": {"backoffLimit": options.restarts},
        "template": pod_template(options, "trainer", options.command),
    }
    if options.queue:
        spec["scheduling"] = {"queue": options.queue}
    return {
        "apiVersion": "training.corral.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": _metadata(options),
        "spec": spec,
    }


def mpijob(options: RunOptions) -> Obj:
    """A launcher with the command under mpirun, and ``replicas`` workers."""
    launcher = pod_template(options, "launcher", mpi_command(options))
    # A launcher only starts processes: what a replica needs is for the workers.
    launcher["spec"]["containers"][0].pop("resources", None)
    worker = pod_template(options, "worker", ())
    spec: Obj = {
        "slotsPerWorker": options.slots,
        "runPolicy": {"cleanPodPolicy": "Running", "backoffLimit": options.restarts},
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "template": launcher},
            "Worker": {"replicas": options.replicas, "template": worker},
        },
    }
    if options.mpi:
        spec["mpiImplementation"] = options.mpi
    if options.queue:
        spec["runPolicy"]["schedulingPolicy"] = {"queue": options.queue}
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _metadata(options),
        "spec": spec,
    }


RUNNABLE: Final[Mapping[str, Callable[[RunOptions], Obj]]] = {
    "trainingjob": trainingjob,
    "mpijob": mpijob,
}


def mpi_command(options: RunOptions) -> list[str]:
    """The command as it is where it launches itself, else under mpirun on every slot."""
    words = list(options.command)
    if os.path.basename(words[0]) in _LAUNCHERS or words[0] in ("sh", "bash"):
        return words
    return ["mpirun", "-n", str(options.replicas * options.slots), *words]


def pod_template(options: RunOptions, container: str, command: Sequence[str]) -> Obj:
    """The pods of a role."""
    env = dict(options.env)
    if container == "launcher":
        env = {**dict.fromkeys(_AS_ROOT, "1"), **env}
    made: Obj = {
        "name": container,
        "image": options.image or default_image(),
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    if command:
        made["command"] = list(command)
    if options.resources:
        made["resources"] = options.resources
    return {"spec": {"containers": [made]}}


def default_image() -> str:
    """An image with the Python that this command line runs on."""
    return f"python:{sys.version_info.major}.{sys.version_info.minor}"


def _metadata(options: RunOptions) -> Obj:
    meta: Obj = {"name": options.name, "namespace": options.namespace}
    if options.labels:
        meta["labels"] = dict(options.labels)
    return meta


# -- names and words -------------------------------------------------------------------------------


def check_name(name: str) -> str:
    """A name that a job may have.

    Raises:
        Trouble: it may not; the hint is one that it may.
    """
    if len(name) <= MAX_NAME and _NAME.fullmatch(name):
        return name
    what = f"longer than {MAX_NAME} characters" if len(name) > MAX_NAME else "not a valid name"
    hint = f"try {_cleaned(name)!r}: lower-case letters, digits and '-', a letter first"
    raise Trouble(f"the name {name!r} is {what}", code=USAGE, hint=hint)


def name_for(command: Sequence[str], token: str) -> str:
    """A name for a job that was given none: after its script, and not the same twice."""
    words = [os.path.basename(word) for word in command if not word.startswith("-")]
    script = next((word for word in words if word.endswith((".py", ".sh"))), "")
    chosen = script.rpartition(".")[0] or (words[0] if words else "job")
    return f"{_cleaned(chosen)[: MAX_NAME - len(token) - 1].rstrip('-')}-{token}"


def _cleaned(text: str) -> str:
    made = re.sub("[^a-z0-9]+", "-", text.lower()).strip("-")
    made = re.sub("^[^a-z]+", "", made)
    return made[:MAX_NAME].rstrip("-") or "job"


def parse_env(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """``NAME=value`` words; a ``NAME`` alone takes the value it has here.

    Raises:
        Trouble: a word is neither, or the variable is not set here.
    """
    out: dict[str, str] = {}
    for word in words:
        name, given, value = word.partition("=")
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]*", name):
            raise Trouble(f"--env {word!r} has no name", code=USAGE, hint="write --env NAME=value")
        if not given and name not in environ:
            raise Trouble(
                f"--env {name}: the variable is not set here",
                code=USAGE,
                hint=f"write --env {name}=value",
            )
        out[name] = value if given else environ[name]
    return out
