"""A controller of spot jobs alone: machines are told of as their own controller tells of them."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from corral.api.spot.kinds import JOB_LABEL
from corral.families.spot.jobs import controller
from corral.families.spot.settings import SpotSettings
from corral.runtime import format_time
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread

__all__ = ["API", "STEPS", "Stage"]

API = "training.training.dcnlab.com/v1alpha1"
JOBS, VMS = "spotinstancejobs", "spotinstancevms"
STEPS = """
import json, os, pathlib, time
import corral.inpod as corral

told = pathlib.Path(os.environ["CORRAL_CHECKPOINT_DIR"]).parent / "told"
told.mkdir(exist_ok=True)
attempt = os.environ["CORRAL_ATTEMPT"]
found = corral.restore()
step = int((found / "step").read_text()) if found else 0
(told / attempt).write_text(json.dumps({"from": step, "copy": os.environ["CORRAL_COPY"]}))
while not (told / "end").exists():
    step += 1
    time.sleep(0.02)
    corral.maybe_checkpoint(lambda folder: (folder / "step").write_text(str(step)), step=step)
    (told / f"step-{attempt}").write_text(str(step))
"""
"""Counts until it is told to end, and tells what it started from."""
Obj = dict[str, Any]


class Stage:
    """Jobs of one namespace, and the machines that a case gives them."""

    def __init__(self, backend: Backend, objects: Objects, folder: Path) -> None:
        self.objects = objects
        self.cluster = Objects(backend)
        self.folder = folder
        self.settings = SpotSettings(local_root=folder, cost_period=0.5)
        self.operator = OperatorThread(
            str(backend.kubeconfig), lambda manager: controller.register(manager, self.settings)
        )

    # --- objects ---------------------------------------------------------------------------------

    def vm(self, name: str = "here", **local: Any) -> None:
        metadata, spec = {"name": name}, {"local": {"zone": "local-a", **local}}
        body = {"apiVersion": API, "kind": "SpotInstanceVM", "metadata": metadata, "spec": spec}
        self.objects.create(VMS, body)

    def job(self, name: str, command: list[str] | None = None, **spec: Any) -> Obj:
        """A job of one copy that counts; `end` ends it."""
        container = {
            "name": "main",
            "image": "python:3.12",
            "command": command or ["python", "-c", STEPS],
        }
        pod = {"containers": [container], "terminationGracePeriodSeconds": 20}
        template = spec.pop("template", {})
        body = {
            "replicas": 1,
            "jobTemplate": {"spec": {"template": {"spec": pod}, **template}},
            "checkpointConfig": {
                "checkpointImageRepo": "registry.example.test/team/checkpoints",
                "checkpointInterval": "1h",
                "checkpointStorage": {"type": "local"},
            },
            "spotInstanceVMRef": {"name": "here"},
            **spec,
        }
        meta = {"name": name}
        return self.objects.create(
            JOBS, {"apiVersion": API, "kind": "SpotInstanceJob", "metadata": meta, "spec": body}
        )

    def get(self, name: str) -> Obj:
        return self.objects.get(API, JOBS, name)

    def status(self, name: str) -> Obj:
        return dict(self.get(name).get("status") or {})

    def change(self, name: str, **spec: Any) -> None:
        self.objects.patch(API, JOBS, name, {"spec": spec})

    def wishes(self, name: str) -> list[Obj]:
        return [p for p in self.status(name).get("placements") or () if not p.get("endTime")]

    def await_wishes(self, name: str, count: int) -> list[Obj]:
        def there() -> list[Obj] | None:
            found = self.wishes(name)
            return found if len(found) == count else None

        found: list[Obj] = self.eventually(name, there)
        return found

    def await_other(self, name: str, entry: Obj) -> Obj:
        """The machine that is wished instead of one."""

        def there() -> Obj | None:
            found = [w for w in self.wishes(name) if w["instance"] != entry["name"]]
            return found[0] if found else None

        found: Obj = self.eventually(name, there)
        return found

    def await_phase(self, name: str, phase: str) -> Obj:
        def there() -> Obj | None:
            status = self.status(name)
            return status if status.get("phase") == phase else None

        return self.eventually(name, there)

    def eventually(self, name: str, check: Any) -> Any:
        try:
            return eventually(check, seconds=60)
        except AssertionError as error:
            found = self.objects.find(API, JOBS, name) or {}
            raise AssertionError(f"{error}: {found.get('status')}") from None

    def pods(self, name: str) -> list[Obj]:
        path = f"{self.objects.path('v1', 'pods')}?labelSelector={JOB_LABEL}={name}"
        found: list[Obj] = self.objects.backend.request("GET", path).json()["items"]
        return found

    # --- machines --------------------------------------------------------------------------------

    def entries(self, vm: str = "here") -> list[Obj]:
        status = self.objects.get(API, VMS, vm).get("status") or {}
        return list(status.get("provisionedInstances") or ())

    def tell(self, *entries: Obj, vm: str = "here") -> None:
        """What the controller of machines says of these; of others what it said before."""
        names = {entry["name"] for entry in entries}
        kept = [entry for entry in self.entries(vm) if entry["name"] not in names]
        patch = {"status": {"provisionedInstances": [*kept, *entries]}}
        self.objects.patch(API, VMS, vm, patch, subresource="status")

    def give(self, wish: Obj, node: str, job: str) -> Obj:
        """The machine of a wish is this node."""
        entry = {
            "name": wish["instance"],
            "state": "RUNNING",
            "joinedCluster": True,
            "nodeName": node,
            "job": job,
            "pricePerHour": 3600.0,
        }
        self.tell(entry, vm=wish["vm"])
        return entry

    def end(self, entry: Obj, reason: str = "Lost") -> None:
        self.tell({**entry, "state": "TERMINATED", "reason": reason, "joinedCluster": False})

    def notice(self, entry: Obj, seconds: float) -> None:
        now = time.time()
        times = {"preemptionNotice": now, "preemptionDeadline": now + seconds}
        self.tell({**entry, **{key: format_time(value) for key, value in times.items()}})

    # --- the program -----------------------------------------------------------------------------

    def told(self, name: str) -> Path:
        uid = self.get(name)["metadata"]["uid"]
        return self.folder / str(self.objects.namespace) / name / uid / "told"

    def await_steps(self, name: str, attempt: int, steps: int = 3) -> int:
        """How far an attempt is, when it has done some steps."""
        path = self.told(name) / f"step-{attempt}"

        def reached(least: int) -> int:
            text = path.read_text() if path.exists() else ""
            return int(text) if text and int(text) >= least else 0

        first: int = self.eventually(name, lambda: reached(1))
        found: int = self.eventually(name, lambda: reached(first + steps))
        return found

    def finish(self, name: str) -> Obj:
        (self.told(name) / "end").touch()
        return self.await_phase(name, "Succeeded")

    def close(self) -> None:
        self.operator.kill()
        patch = {"metadata": {"finalizers": []}}
        for name in self.objects.names(API, JOBS):
            self.objects.patch(API, JOBS, name, patch)
            self.objects.delete(API, JOBS, name)
        eventually(lambda: not self.objects.names("v1", "pods"), seconds=60)
