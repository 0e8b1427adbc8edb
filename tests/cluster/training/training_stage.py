"""An operator as a process, nodes that run pods, and jobs made from the examples."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from corral.api import all_crds
from corral.cluster.workloads.claims import storage_class
from corral.kube.client import KubeClient
from corral.operator.install import apply_objects, wait_served
from corral.operator.local import set_up
from tests.backends import Backend, Node
from tests.backends.base import free_port, wait_for
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
API = "training.corral.dev/v1alpha1"
EXAMPLES = Path(__file__).parents[3] / "examples" / "trainingjob"
STEPS = 300
AT_ONCE = ["--steps", str(STEPS)]
ARGS = [*AT_ONCE, "--pace", "0.03"]
"""Slow enough to be met in the middle."""
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
PATIENCE = 150.0
"""Seconds that a run may take on a busy machine."""


class OperatorRun:
    """``corral operator``, started as people start it; the same place after every start."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self.backend = backend
        self.folder = folder
        self.local_root = folder / "local"
        self.process: subprocess.Popen[bytes] | None = None
        self._port = free_port()
        self._log = folder / "operator.log"

    def start(self) -> None:
        """Return when it serves."""
        self.local_root.mkdir(exist_ok=True)
        self._log.write_text("")
        with self._log.open("ab") as out:
            self.process = subprocess.Popen(
                [
                    sys.executable, "-m", "corral.cli.main", "operator",
                    "--kubeconfig", str(self.backend.kubeconfig), "--no-leader-elect",
                    "--listen", "127.0.0.1", "--health-port", "0", "--webhook-port", "-1",
                    "--report-port", str(self._port),
                    "--report-url", f"https://127.0.0.1:{self._port}",
                    "--local-root", str(self.local_root),
                ],
                stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        wait_for(self.process, self._log, "is ready")

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def log(self) -> str:
        return self._log.read_text()


def install(backend: Backend) -> None:
    """Definitions, rights, the Service; and the class of claims that `corral up` has."""

    async def apply() -> None:
        async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
            kinds = all_crds()
            await apply_objects(client, kinds)
            await wait_served(client, [kind["metadata"]["name"] for kind in kinds], within=30)
            await set_up(client)

    asyncio.run(apply())
    if backend.name == "embedded":
        path = "/apis/storage.k8s.io/v1/storageclasses"
        assert backend.request("POST", path, storage_class()).code in (201, 409)


class Jobs:
    """TrainingJobs of one namespace, made from the examples."""

    def __init__(self, objects: Objects, operator: OperatorRun, nodes: dict[str, Node]) -> None:
        self.objects = objects
        self.operator = operator
        self.nodes = nodes
        self._add_programs()

    def _add_programs(self) -> None:
        data = {path.name: path.read_text() for path in EXAMPLES.glob("*.py")}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "digits"}}
        self.objects.create("configmaps", {**body, "data": data})

    def create(self, example: str, *, args: list[str] | None = None) -> Obj:
        """Create the job of an example, with other arguments and a checkpoint every second."""
        job: Obj = yaml.safe_load((EXAMPLES / f"{example}.yaml").read_text())
        if args is not None:
            job["spec"]["args"] = [*args, "--result", "/dev/termination-log"]
        if "checkpoint" in job["spec"]:
            job["spec"]["checkpoint"]["interval"] = "1s"
            if "pvc" in job["spec"]["checkpoint"]["storage"]:
                self._offer_volume(f"{example}-checkpoints")
        return self.objects.create("trainingjobs", job)

    def _offer_volume(self, claim: str) -> None:
        """Where nobody makes volumes for claims, an administrator does."""
        backend, namespace = self.objects.backend, self.objects.namespace
        if backend.name == "embedded":
            return
        name = f"{namespace}-{claim}"
        path = self.operator.folder / "volumes" / name
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": name},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
                "hostPath": {"path": str(path), "type": "DirectoryOrCreate"},
                "claimRef": {"namespace": namespace, "name": claim},
            },
        }
        Objects(backend).create("persistentvolumes", volume)

    def get(self, name: str) -> Obj:
        return self.objects.get(API, "trainingjobs", name)

    def wait(self, name: str, check: Callable[[Obj], Any], *, seconds: float = PATIENCE) -> Obj:
        """The job, once the check of its status holds; over at once when the job has failed."""
        last: Obj = {}

        def good() -> bool:
            last.clear()
            last.update(self.get(name))
            status = last.get("status") or {}
            if check(status):
                return True
            assert status.get("phase") != "Failed", self.story(name)
            return False

        try:
            eventually(good, seconds=seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story(name)}") from None
        return last

    def middle(self, name: str, *, step: int = 30) -> Obj:
        """The job when it has a checkpoint to go back to, and is far from its end."""

        def is_there(status: Obj) -> bool:
            last = (status.get("checkpoint") or {}).get("lastStep") or 0
            return status.get("phase") == "Running" and last >= step

        return self.wait(name, is_there)

    def succeeded(self, name: str) -> Obj:
        return self.wait(name, lambda status: status.get("phase") == "Succeeded")

    def pods(self, name: str) -> dict[int, Obj]:
        """Replica → its pod."""
        path = self.objects.path("v1", "pods") + f"?labelSelector=trainingjob%3D{name}"
        reply = self.objects.backend.request("GET", path)
        assert reply.code == 200, reply.body
        items = reply.json()["items"]
        return {int(pod["metadata"]["labels"]["replica-id"]): pod for pod in items}

    def log(self, pod: str) -> str:
        reply = self.objects.backend.request("GET", f"{self.objects.path('v1', 'pods', pod)}/log")
        return reply.body.decode(errors="replace")

    def result(self, name: str, replica: int = 0) -> Obj:
        """What a replica left as its last words."""
        pod = eventually(lambda: ended(self.pods(name).get(replica)))
        words = pod["status"]["containerStatuses"][0]["state"]["terminated"]
        result: Obj = json.loads(words["message"])
        return result

    def pids(self, job: Obj, replica: int) -> list[int]:
        """The processes of a replica."""
        marks = {
            f"CORRAL_JOB_UID={job['metadata']['uid']}".encode(),
            f"CORRAL_REPLICA={replica}".encode(),
        }
        folders = (entry for entry in Path("/proc").iterdir() if entry.name.isdigit())
        return [int(entry.name) for entry in folders if marks <= environment(entry)]

    def kill_replica(self, job: Obj, replica: int, *, running: bool = True) -> None:
        """SIGKILL, as the kernel would when memory runs out; ``running``: it must still run."""
        pids = self.pids(job, replica)
        assert pids or not running, (
            f"replica {replica} does not run\n{self.story(job['metadata']['name'])}"
        )
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def story(self, name: str) -> str:
        """All there is to know when a case has gone wrong."""
        lines = [json.dumps(self.get(name).get("status"), indent=1)]
        for index, pod in sorted(self.pods(name).items()):
            lines += [f"--- replica {index}: {json.dumps(pod['status'])}"]
            lines += [self.log(pod["metadata"]["name"])[-2000:]]
        return "\n".join([*lines, "--- operator", self.operator.log()[-5000:]])


def environment(process: Path) -> set[bytes]:
    """The variables a process was started with; none for one that is gone."""
    try:
        return set((process / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def ended(pod: Obj | None) -> Obj | None:
    """The pod, if its container has ended."""
    states = ((pod or {}).get("status") or {}).get("containerStatuses") or [{}]
    return pod if "terminated" in (states[0].get("state") or {}) else None


def restarts(job: Obj) -> int:
    return int((job["status"].get("replicas") or {}).get("restarts") or 0)


# --- nodes -------------------------------------------------------------------------------------


def lose_node(cluster: Objects, node: Node) -> None:
    """What an administrator does when a machine is off: say that it will not come back."""
    found = cluster.get("v1", "nodes", node.name)
    conditions = [
        {**condition, "status": "Unknown"} if condition["type"] == "Ready" else condition
        for condition in found["status"]["conditions"]
    ]
    status = {"status": {"conditions": conditions}}
    cluster.patch("v1", "nodes", node.name, status, subresource="status")
    taints = [*(found["spec"].get("taints") or ()), OUT_OF_SERVICE]
    cluster.patch("v1", "nodes", node.name, {"spec": {"taints": taints}})


def regain_node(cluster: Objects, node: Node) -> None:
    """The machine is on again."""
    node.start()

    def is_back() -> bool:
        found = cluster.get("v1", "nodes", node.name)
        taints = found["spec"].get("taints") or []
        kept = [taint for taint in taints if taint["key"] != OUT_OF_SERVICE["key"]]
        if kept != taints:
            cluster.patch("v1", "nodes", node.name, {"spec": {"taints": kept or None}})
        ready = {c["type"]: c["status"] for c in found["status"]["conditions"]}["Ready"]
        return not taints and ready == "True"

    eventually(is_back, seconds=60)
