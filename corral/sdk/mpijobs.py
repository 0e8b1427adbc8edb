"""`MPIJob`: what to run on how many workers, and what became of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from corral.client.errors import BadRequest
from corral.client.kinds import kind_of
from corral.client.phases import section, text
from corral.kube.types import Obj
from corral.sdk import display
from corral.sdk.resources import ResourceSpec
from corral.sdk.views import Job

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["MPIJob"]

_API: Final = "kubeflow.org/v2beta1"
KIND: Final = kind_of("mpijobs")


@dataclass(frozen=True, slots=True)
class MPIJob:
    """A launcher that starts a parallel program on workers.

    Made by people to be created, or read from a cluster: then ``manifest`` has the whole object and
    `phase`, `message` and `state` say what became of it. What the fields have no word for survives
    in ``manifest``.
    """

    name: str
    image: str = ""
    command: str | Sequence[str] = ()
    """What the launcher runs: ``mpirun …`` as a list of words, or one line."""
    workers: int = 1
    slots_per_worker: int = 1
    """Processes that a worker has room for."""
    mpi_implementation: str = "OpenMPI"
    """OpenMPI, Intel (also IntelMPI) or MPICH."""
    resources: ResourceSpec = field(default_factory=ResourceSpec)
    """Of every worker."""
    launcher_resources: ResourceSpec = field(default_factory=ResourceSpec)
    worker_command: str | Sequence[str] = ()
    """sshd unless said otherwise."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Of the launcher and the workers."""
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    run_policy: Mapping[str, Any] = field(default_factory=dict)
    """``spec.runPolicy`` as it is: cleanPodPolicy, backoffLimit, suspend, …"""
    manifest: Obj = field(default_factory=dict, repr=False)
    """A whole MPIJob that the fields are laid over."""

    # -- to and from objects -----------------------------------------------------------------------

    def to_manifest(self) -> Obj:
        """The object to create. Raises BadRequest."""
        out = deepcopy(self.manifest)
        out.pop("status", None)
        out["apiVersion"], out["kind"] = _API, "MPIJob"
        meta = out.setdefault("metadata", {})
        meta["name"] = self.name
        for key, value in (("namespace", self.namespace),):
            if value:
                meta[key] = value
        for key, values in (("labels", self.labels), ("annotations", self.annotations)):
            if values:
                meta[key] = {**(meta.get(key) or {}), **values}
        spec = out.setdefault("spec", {})
        spec["slotsPerWorker"], spec["mpiImplementation"] = self._slots(), self.mpi_implementation
        if self.run_policy:
            spec["runPolicy"] = {**(spec.get("runPolicy") or {}), **self.run_policy}
        replicas = spec.setdefault("mpiReplicaSpecs", {})
        launcher = replicas.setdefault("Launcher", {})
        launcher["replicas"] = 1
        self._fill(launcher, "launcher", self.command, self.launcher_resources)
        if self.workers or "Worker" in replicas:
            worker = replicas.setdefault("Worker", {})
            worker["replicas"] = self.workers
            self._fill(worker, "worker", self.worker_command, self.resources)
        return out

    def _slots(self) -> int:
        if self.slots_per_worker < 1 or self.workers < 0:
            raise BadRequest(
                f"{self.workers} workers with {self.slots_per_worker} slots each",
                hint="give at least 1 slot and no negative number of workers",
            )
        return self.slots_per_worker

    def _fill(
        self, replica: Obj, name: str, command: str | Sequence[str], needs: ResourceSpec
    ) -> None:
        """The first container of a role, with what the fields say."""
        pod = replica.setdefault("template", {}).setdefault("spec", {})
        containers = pod.setdefault("containers", [])
        if not containers:
            containers.append({"name": name})
        first = containers[0]
        if self.image:
            first["image"] = self.image
        if not first.get("image"):
            raise BadRequest(f"MPIJob {self.name} has no image", hint='give image="…"')
        words = _words(command)
        if words:
            first["command"] = words
            first.pop("args", None)
        if needs.requirements():
            first["resources"] = needs.requirements()
        if self.env:
            kept = [v for v in first.get("env") or () if v.get("name") not in self.env]
            first["env"] = kept + [{"name": k, "value": str(v)} for k, v in self.env.items()]

    @classmethod
    def from_manifest(cls, obj: Obj) -> Self:
        """Read an object of a cluster or a file."""
        if obj.get("kind") != "MPIJob":
            raise BadRequest(
                f"this is a {obj.get('kind') or 'text'}, not an MPIJob",
                hint=f"a manifest begins with apiVersion: {_API} and kind: MPIJob",
            )
        meta, spec = section(obj, "metadata"), section(obj, "spec")
        specs = section(spec, "mpiReplicaSpecs")
        launcher, worker = _first(specs, "Launcher"), _first(specs, "Worker")
        workers = section(specs, "Worker").get("replicas", 0)
        env = [v for v in launcher.get("env") or () if isinstance(v, dict) and "value" in v]
        return cls(
            name=text(meta.get("name")),
            image=text(launcher.get("image")) or text(worker.get("image")),
            command=(*(launcher.get("command") or ()), *(launcher.get("args") or ())),
            workers=workers if isinstance(workers, int) else 0,
            slots_per_worker=spec.get("slotsPerWorker") or 1,
            mpi_implementation=spec.get("mpiImplementation") or "OpenMPI",
            resources=ResourceSpec.read(section(worker, "resources")),
            launcher_resources=ResourceSpec.read(section(launcher, "resources")),
            worker_command=(*(worker.get("command") or ()), *(worker.get("args") or ())),
            env={v["name"]: v["value"] for v in env},
            namespace=text(meta.get("namespace")),
            labels=dict(section(meta, "labels")),
            annotations=dict(section(meta, "annotations")),
            run_policy=dict(section(spec, "runPolicy")),
            manifest=obj,
        )

    @classmethod
    def from_yaml(cls, source: str | Path) -> Self:
        """Read a manifest: a path, or the text itself."""
        import yaml

        given = source.read_text() if isinstance(source, Path) else source
        if "\n" not in given and Path(given).is_file():
            given = Path(given).read_text()
        found = yaml.safe_load(given)
        return cls.from_manifest(found if isinstance(found, dict) else {})

    # -- what became of it -------------------------------------------------------------------------

    @property
    def state(self) -> Job:
        """Phase, progress, failure and the rest, as of every kind."""
        return Job.read(KIND, self.manifest or self.to_manifest())

    @property
    def phase(self) -> str:
        return self.state.phase

    @property
    def message(self) -> str:
        return self.state.message

    @property
    def finished(self) -> bool:
        return self.state.finished

    def __str__(self) -> str:
        return self.name

    def _repr_html_(self) -> str:
        return display.job_html(self.state)

    def __rich__(self) -> RenderableType:
        return display.job_panel(self.state)


def _first(specs: Obj, role: str) -> Obj:
    pod = section(section(section(specs, role), "template"), "spec")
    containers = pod.get("containers") or [{}]
    return containers[0] if isinstance(containers[0], dict) else {}


def _words(command: str | Sequence[str]) -> list[str]:
    return shlex.split(command) if isinstance(command, str) else [str(word) for word in command]
