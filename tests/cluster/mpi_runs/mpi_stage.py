"""MPIs that are installed, programs for them, and jobs made of the objects that MPIJobs have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from corral.families.mpijob.objects import launching
from corral.families.mpijob.objects.builders import Children, children
from corral.families.mpijob.objects.ssh import generate_keys
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from tests.backends import Node
from tests.cluster.objects import Objects
from tests.cluster.pods.pods import Pods, terminated
from tests.support.components import CACHE, skip
from tests.support.matrix import matrix

Obj = dict[str, Any]
ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests" / "mpi" / "programs"
WORKERS, SLOTS = 2, 2
RANKS = WORKERS * SLOTS
MODES = ("root", "user")
"""In which all programs find names."""
PATIENCE = 120.0
"""Seconds that a run may take on a busy machine."""
_LINE = re.compile(r"rank (\d+) of (\d+) on (\S+): (\S+) (\S+)")


@dataclass(frozen=True, slots=True)
class Mpi:
    """One installed MPI."""

    name: str
    implementation: str
    """As an MPIJob calls it."""
    command: str = "mpirun"

    @property
    def venv(self) -> Path:
        return CACHE / "mpi" / self.name

    @property
    def image(self) -> str:
        return f"mpi/{self.name}:test"

    @property
    def environment(self) -> dict[str, str]:
        """What an image of it would set."""
        if self.implementation == "Intel":
            return {"I_MPI_ROOT": str(self.venv), "FI_PROVIDER_PATH": str(self.venv / "lib")}
        if self.implementation == "OpenMPI":
            allow = ("OMPI_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT")
            found = {f"{name}{end}": "1" for name in allow for end in ("", "_CONFIRM")}
            return {**found, "OPAL_PREFIX": str(self.venv)} if self.name == "openmpi4" else found
        return {}

    def require(self) -> None:
        if not (self.venv / ".complete").exists():
            skip(self.name)

    def line(self, program: str) -> list[str]:
        """What the launcher runs; neither hosts nor agents are in it."""
        words = ["python", "-m", "mpi4py", str(PROGRAMS / program)]
        return [self.command, "-n", str(RANKS), *words]


MPIS = (
    Mpi("openmpi5", "OpenMPI"),
    Mpi("openmpi4", "OpenMPI"),
    Mpi("mpich", "MPICH", "mpiexec"),
    Mpi("intel", "Intel"),
)

EVERY_MPI = matrix(MPIS[0], MPIS[2], full=(MPIS[1], MPIS[3]))
"""Parameters: one of each way to start daemons (PRRTE, Hydra) in `make test`."""
EVERY_MODE = matrix(MODES[0], full=MODES[1:])


def image_map() -> str:
    """For nodes: an image is the venv of an MPI."""
    return yaml.safe_dump(
        [
            {
                "pattern": mpi.image,
                "python": str(mpi.venv / "bin" / "python"),
                "env": mpi.environment,
            }
            for mpi in MPIS
            if (mpi.venv / ".complete").exists()
        ]
    )


def mpijob(
    mpi: Mpi, name: str, namespace: str, program: str, *, launcher_works: bool = False
) -> Obj:
    """As a user writes it; nothing in it depends on how workers are reached."""

    def replica(count: int, **container: Any) -> Obj:
        containers = [{"name": "mpi", "image": mpi.image, **container}]
        pod = {"containers": containers, "terminationGracePeriodSeconds": 2}
        return {"replicas": count, "template": {"spec": pod}}

    # The last word is for `processes` to tell the ranks of one case from those of others.
    line = [*mpi.line(program), namespace]
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name, "namespace": namespace, "uid": "0"},
        "spec": {
            "slotsPerWorker": SLOTS,
            "mpiImplementation": mpi.implementation,
            "runLauncherAsWorker": launcher_works,
            "mpiReplicaSpecs": {
                "Launcher": {**replica(1, command=line), "restartPolicy": "Never"},
                "Worker": replica(WORKERS - launcher_works),
            },
        },
    }


def ranks(output: str) -> dict[int, tuple[str, str]]:
    """Rank → its host and the sum it saw, of what ``allreduce.py`` writes."""
    found = _LINE.findall(output)
    assert {(size, same) for _, size, _, _, same in found} == {(str(RANKS), "True")}, output
    return {int(rank): (host.partition(".")[0], total) for rank, _, host, total, _ in found}


def check_ranks(output: str, *pods: str) -> None:
    """Every one of the pods hosted its ranks, and all of them were counted."""
    total = str(sum(range(1, RANKS + 1)))
    found = ranks(output)
    assert sorted(found) == list(range(RANKS)), output
    assert {seen for _, seen in found.values()} == {total}, output
    hosts = sorted(host for host, _ in found.values())
    assert hosts == sorted(pod for pod in pods for _ in range(SLOTS)), output


class Jobs:
    """Jobs whose objects are made by hand, since no controller is at work here."""

    def __init__(self, objects: Objects, node: Node) -> None:
        self.objects = objects
        self.pods = Pods(objects, node)

    def run(
        self, mpi: Mpi, name: str, program: str, *, launcher_works: bool = False
    ) -> tuple[int, str]:
        """Exit code and output of the launcher, when it has ended."""
        launcher = self.start(mpi, name, program, launcher_works=launcher_works)
        ended = self.pods.wait(
            launcher,
            lambda pod: pod["status"].get("phase") in ("Succeeded", "Failed"),
            seconds=PATIENCE,
        )
        return terminated(ended, "mpi")["exitCode"], self.pods.log(launcher)

    def start(self, mpi: Mpi, name: str, program: str, *, launcher_works: bool = False) -> str:
        """The name of the launcher."""
        namespace = self.objects.namespace
        job = mpijob(mpi, name, namespace, program, launcher_works=launcher_works)
        for obj in self._objects(job):
            del obj["metadata"]["ownerReferences"]
            self.objects.create(f"{obj['kind'].lower()}s", obj)
        return f"{name}-launcher"

    def processes(self) -> list[str]:
        """The command lines of what still runs of the case: ranks, launchers, daemons."""
        found: list[str] = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # it has ended meanwhile
            if self.objects.namespace in line:
                found.append(line)
        return found

    def _objects(self, job: Obj) -> list[Obj]:
        view = JobView.of(job)
        settings = launching.rsh_settings(ObjectSettings())
        found: Children = children(job, settings, generate_keys())
        template = found.launcher["spec"]["template"]
        launcher = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**template["metadata"], "name": f"{view.name}-launcher"},
            "spec": template["spec"],
        }
        first = [found.service, found.config_map, found.secret]
        # The launcher before the workers: it has to wait for them.
        names = [worker["metadata"]["name"] for worker in found.workers]
        made = [*launching.access_objects(view, names), *first, launcher, *found.workers]
        node = {"kubernetes.io/hostname": self.pods.node.name}
        for obj in made:
            if obj["kind"] == "Pod":
                obj["spec"] = {**obj["spec"], "nodeSelector": node}
        return made
