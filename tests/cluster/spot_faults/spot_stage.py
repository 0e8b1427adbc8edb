"""An operator that can be killed, and spot jobs whose copies train on machines of this computer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from corral.cluster.node.isolation import Capabilities
from tests.backends import Backend
from tests.backends.base import free_port
from tests.backends.nodes import OPEN_TO_CASES
from tests.cluster.objects import Objects, eventually
from tests.cluster.spot_faults import journals
from tests.cluster.spot_faults.journals import Start
from tests.cluster.spot_faults.spot_cloud import Cloud
from tests.cluster.spot_faults.training_program import HURRY

__all__ = ["INTERVAL", "PACE", "STEPS", "Operator", "SpotJobs", "SpotRun"]

Obj = dict[str, Any]
API = "training.training.dcnlab.com/v1alpha1"
PROGRAM = Path(__file__).with_name("training_program.py")
STEPS = 600
"""More than are done before there is nothing more to see; the rest is hurried."""
PACE = 0.05
"""Seconds that a step takes at least."""
INTERVAL = 1.0
"""Seconds between checkpoints."""
PUBLISHING = 1.5
"""Seconds for which training may go on until what was saved is there, on a busy machine."""
MOST_LOST = int((INTERVAL + PUBLISHING) / PACE)
"""Steps: of one interval, and of the time in which its checkpoint was not yet there."""
PATIENCE = 120.0
"""Seconds that a run may take on a busy machine."""


class Operator:
    """``corral operator`` with machines on this computer; the same place after every start."""

    def __init__(self, backend: Backend, folder: Path, *, options: tuple[str, ...] = ()) -> None:
        self.backend = backend
        self.folder = folder
        self._options = options
        self.local_root = folder / "checkpoints"
        self.machines = folder / "machines"
        self.process: subprocess.Popen[bytes] | None = None
        # pods share the machine's network: the operator is at the loopback
        self._isolation = Capabilities.detect("probe", highest="user").mode
        self._port = free_port()
        self._log = folder / "operator.log"

    def start(self) -> None:
        """Return when it serves."""
        self.spawn()
        self.wait_ready()

    def spawn(self) -> None:
        """Start it; it is not ready yet."""
        self.local_root.mkdir(exist_ok=True)
        self._begun = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "corral.cli.main", "operator",
                    "--kubeconfig", str(self.backend.kubeconfig), "--no-leader-elect",
                    "--listen", "127.0.0.1", "--health-port", "-1", "--webhook-port", "-1",
                    "--report-port", str(self._port),
                    "--report-url", f"https://127.0.0.1:{self._port}",
                    "--local-root", str(self.local_root),
                    "--local-vms", str(self.machines),
                    "--local-vm-authority", str(Path(self.backend.ca_file).parent),
                    "--local-vm-option", f"--isolation={self._isolation}",
                    *(word for option in OPEN_TO_CASES for word in ("--local-vm-option", option)),
                    "--log-format", "text", *self._options,
                ],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip

    def wait_ready(self) -> None:
        assert self.process is not None
        end = time.monotonic() + 60
        while "is ready" not in self.log():
            assert self.process.poll() is None and time.monotonic() < end, self.log()
            time.sleep(0.02)

    def kill(self) -> None:
        """In the middle of whatever it does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def end_machines(self) -> None:
        """Whatever a case that failed has left."""
        if self.machines.is_dir():
            Cloud(self.machines).delete_all()

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log(self) -> str:
        """What the present process has said."""
        with self._log.open("rb") as file:
            file.seek(self._begun)
            return file.read().decode(errors="replace")

    def whole_log(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class SpotJobs:
    """SpotInstanceJobs of one namespace, whose copies run `training_program`."""

    def __init__(self, objects: Objects, operator: Operator, folder: Path) -> None:
        self.objects = objects
        self.operator = operator
        self.cloud = Cloud(operator.machines)
        self._folder = folder
        self._names: list[str] = []
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "program"}}
        data = {PROGRAM.name: PROGRAM.read_text()}
        objects.create("configmaps", {**body, "data": data})
        # enough of them: one that refuses a machine, or loses it at once, is left alone for minutes
        machines = {"zone": "local-a", "zones": [f"local-{zone}" for zone in "bcdefgh"]}
        objects.create(
            "spotinstancevms",
            {
                "apiVersion": API,
                "kind": "SpotInstanceVM",
                "metadata": {"name": "here"},
                "spec": {"local": machines},
            },
        )

    def create(self, name: str, *, replicas: int = 2, steps: int = STEPS, **env: str) -> SpotRun:
        """The sample of two copies, its half hour shortened to a second."""
        journal = self._folder / name
        journal.mkdir()
        journal.chmod(0o777)  # pods of other users write there too
        job = self.objects.create(
            "spotinstancejobs", _job(name, journal, replicas, {"STEPS": str(steps), **env})
        )
        self._names.append(name)
        return SpotRun(self, job, journal)

    def close(self) -> None:
        """Delete them all; machines that are left then are deleted too, and are a failure."""
        self.cloud.forget_faults()
        if not self.operator.runs:
            self.operator.start()
        for name in self._names:
            self.objects.delete(API, "spotinstancejobs", name)
        self.objects.delete(API, "spotinstancevms", "here")
        try:
            eventually(lambda: not self._left(), seconds=60)
        finally:
            for name in self._names:
                self.cloud.delete_all(name)

    def _left(self) -> list[str]:
        objects = {
            *self.objects.names(API, "spotinstancejobs"),
            *self.objects.names(API, "spotinstancevms"),
        }
        machines = [vm for name in self._names for vm in self.cloud.machines(name, alive=False)]
        return [*objects, *(vm.name for vm in machines)]


class SpotRun:
    """One job while it runs."""

    def __init__(self, jobs: SpotJobs, job: Obj, journal: Path) -> None:
        self.jobs = jobs
        self.cloud = jobs.cloud
        self.operator = jobs.operator
        self.name: str = job["metadata"]["name"]
        self.uid: str = job["metadata"]["uid"]
        self.replicas: int = job["spec"]["replicas"]
        self._journal = journal
        self._machines: set[str] = set()

    def get(self) -> Obj:
        return self.jobs.objects.get(API, "spotinstancejobs", self.name)

    def status(self) -> Obj:
        status: Obj = self.get().get("status") or {}
        self._machines |= {each["instance"] for each in status.get("placements") or ()}
        return status

    def starts(self) -> list[Start]:
        return journals.read(self._journal)

    def progress(self) -> int:
        """The furthest step that any copy has done."""
        return max((start.reached or 0 for start in self.starts()), default=0)

    def folder(self, replica: int) -> Path:
        """Where a copy keeps its checkpoints."""
        root = self.operator.local_root / self.jobs.objects.namespace / self.name / self.uid
        return root / f"replica-{replica}"

    # -- waiting -----------------------------------------------------------------------------------

    def wait(self, check: Callable[[], Any], *, seconds: float = PATIENCE) -> Any:
        """The first true answer; over at once when the job has failed."""

        def good() -> Any:
            if answer := check():
                return answer
            assert self.status().get("phase") != "Failed"
            time.sleep(0.05)
            return None

        try:
            return eventually(good, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from None

    def running(self, replica: int, *, after: int = 0, steps: int = 5) -> Start:
        """A start of a copy, after so many others, that has done some steps."""

        def there() -> Start | None:
            mine = [start for start in self.starts() if start.replica == replica]
            if len(mine) <= after or len(mine[-1].steps) < steps:
                return None
            return mine[-1]

        found: Start = self.wait(there)
        return found

    def middle(self) -> None:
        """Until all copies train, and each has a checkpoint to go back to."""
        for replica in range(self.replicas):
            self.running(replica)
            folder = self.folder(replica)
            self.wait(lambda folder=folder: folder.is_dir() and journals.published(folder))

    @property
    def is_done(self) -> bool:
        return self.status().get("phase") == "Succeeded"

    def finish(self) -> None:
        """Nothing more happens to it: let it come to its end."""
        (self._journal / HURRY).touch()
        self.wait(lambda: self.is_done)

    # -- judging -----------------------------------------------------------------------------------

    def check(self, wanted: str, *, most_lost: int = MOST_LOST) -> None:
        """All that must be true of a job that has succeeded, whatever happened to it."""
        starts = self.starts()
        done = [start.digest for start in starts if start.digest]
        assert done and set(done) == {wanted}, self.story()
        assert not journals.gaps(starts), self.story()
        assert not journals.overlaps(starts), self.story()
        assert not journals.unordered(starts), self.story()
        # steps that are hurried take no time, and say nothing about how much work was lost
        slow = (self._journal / HURRY).stat().st_mtime
        for start, lost in journals.lost_steps(starts, until=slow):
            assert lost <= most_lost, f"{start.pod} lost {lost} steps\n{self.story()}"
        for replica in range(self.replicas):
            folder = self.folder(replica)
            assert not folder.is_dir() or not journals.fence_breaches(folder), self.story()

    def check_nothing_left(self) -> None:
        """No machine, no process, no folder, no node."""
        self.status()
        self._machines |= {vm.name for vm in self.cloud.machines(self.name, alive=False)}
        names = sorted(self._machines)
        cluster = Objects(self.jobs.objects.backend)

        def left() -> list[str]:
            nodes = cluster.names("v1", "nodes") & set(names)
            found = self.cloud.leftovers(self.name, self.uid, names)
            return [*found, *(f"node {node}" for node in sorted(nodes))]

        try:
            eventually(lambda: not left(), seconds=60)
        except AssertionError:
            raise AssertionError(f"left: {left()}\n{self.story()}") from None

    def delete(self) -> None:
        """The object is gone in the end, and whatever it had."""
        self.jobs.objects.delete(API, "spotinstancejobs", self.name)
        find = self.jobs.objects.find
        eventually(lambda: find(API, "spotinstancejobs", self.name) is None, seconds=60)
        self.check_gone()

    def check_gone(self) -> None:
        def left() -> list[str]:
            return self.cloud.leftovers(self.name, self.uid, sorted(self._machines))

        eventually(lambda: not left(), seconds=60)

    def story(self) -> str:
        """All there is to know when a case has gone wrong."""
        objects = self.jobs.objects
        job = objects.find(API, "spotinstancejobs", self.name) or {}
        vm = objects.find(API, "spotinstancevms", "here") or {}
        lines = [json.dumps(job.get("status"), indent=1), json.dumps(vm.get("status"), indent=1)]
        lines += map(str, self.starts())
        for replica in range(self.replicas):
            folder = self.folder(replica)
            if folder.is_dir():
                lines.append(f"{journals.published(folder)} {journals.claims(folder)}")
        lines += [str(vm) for vm in self.cloud.machines(self.name, alive=False)]
        for path in sorted((self.cloud.folder / "vms").glob(f"{self.name}-*/vm.log")):
            lines += [f"--- {path.parent.name}", path.read_text(errors="replace")[-1500:]]
        return "\n".join([*lines, "--- operator", self.operator.whole_log()[-12000:]])


def _job(name: str, journal: Path, replicas: int, env: dict[str, str]) -> Obj:
    from_fields = {
        "REPLICA": "metadata.labels['training.dcnlab.com/job-replica']",
        "POD": "metadata.name",
        "NODE": "spec.nodeName",
    }
    plain = {"JOURNAL": "/journal", "PACE": str(PACE), "OPENBLAS_NUM_THREADS": "1", **env}
    container = {
        "name": "trainer",
        "image": "python:3.12",
        "command": ["python", f"/code/{PROGRAM.name}"],
        "env": [
            *({"name": key, "value": value} for key, value in plain.items()),
            *(
                {"name": key, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                for key, path in from_fields.items()
            ),
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "volumeMounts": [
            {"name": "code", "mountPath": "/code"},
            {"name": "journal", "mountPath": "/journal"},
        ],
    }
    pod = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 20,
        "containers": [container],
        "volumes": [
            {"name": "code", "configMap": {"name": "program"}},
            {"name": "journal", "hostPath": {"path": str(journal), "type": "Directory"}},
        ],
    }
    return {
        "apiVersion": API,
        "kind": "SpotInstanceJob",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "jobTemplate": {"spec": {"backoffLimit": 10, "template": {"spec": pod}}},
            "checkpointConfig": {
                "checkpointImageRepo": "registry.example.test/team/checkpoints",
                "checkpointInterval": f"{INTERVAL:g}s",
                "checkpointStorage": {"type": "local"},
            },
            "spotInstanceVMRef": {"name": "here"},
        },
    }
