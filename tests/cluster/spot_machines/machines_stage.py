"""A controller of machines alone: wishes are written as the controller of jobs writes them."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from corral.api.spot.kinds import INSTANCE_LABEL
from corral.clouds import Vm, VmRef
from corral.clouds.local import LocalProvider, LocalSettings
from corral.families.spot.machines import controller as machines
from corral.families.spot.machines.settings import LocalVms, MachineSettings
from corral.runtime import format_time
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread

__all__ = ["API", "Stage", "is_ready"]

API = "training.training.dcnlab.com/v1alpha1"
JOBS, VMS = "spotinstancejobs", "spotinstancevms"
Obj = dict[str, Any]
NOW = format_time(1.8e9)


def is_ready(node: Obj | None) -> bool:
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


class Stage:
    """One folder of machines, and the operator that makes them."""

    def __init__(self, backend: Backend, objects: Objects) -> None:
        self.backend = backend
        self.objects = objects
        self.cluster = Objects(backend)
        self.folder = Path(tempfile.mkdtemp(prefix="corral-machines-"))
        self.folder.chmod(0o711)
        self.provider = LocalProvider(LocalSettings(folder=self.folder, stop_grace_s=1.0))
        local = LocalVms(
            folder=self.folder,
            authority=Path(backend.ca_file).parent,
            options=("--isolation=plain",),
            stop_grace_s=1.0,
        )
        self.settings = MachineSettings(local=local, retry=0.1, retry_cap=1.0, look=1.0)
        self.operator = OperatorThread(str(backend.kubeconfig), self._register)

    def _register(self, manager: Any) -> None:
        machines.register(manager, self.settings)

    def start(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)
        self.operator.start()

    def settings_of_cloud(self, cloud: str, **options: Any) -> None:
        self.settings = replace(self.settings, cloud_options={cloud: options})

    # -- objects ----------------------------------------------------------------------------------

    def vm(self, name: str = "here", **local: Any) -> Obj:
        return self.objects.create(
            VMS,
            {
                "apiVersion": API,
                "kind": "SpotInstanceVM",
                "metadata": {"name": name},
                "spec": {"local": {"zone": "local-a", **local}},
            },
        )

    def job(self, name: str = "train", vm: str = "here", **spec: Any) -> Obj:
        container = {"name": "main", "image": "busybox", "command": ["sleep", "1000"]}
        pod = {"restartPolicy": "Never", "containers": [container]}
        body = {
            "jobTemplate": {"spec": {"template": {"spec": pod}}},
            "checkpointConfig": {
                "checkpointImageRepo": "registry.example.com/c",
                "checkpointInterval": "30m",
            },
            "spotInstanceVMRef": {"name": vm},
            **spec,
        }
        meta = {"name": name}
        return self.objects.create(
            JOBS, {"apiVersion": API, "kind": "SpotInstanceJob", "metadata": meta, "spec": body}
        )

    def wish(self, *instances: str, job: str = "train", vm: str = "here", **more: Any) -> None:
        """The job wants these machines, and no others."""
        placements = [
            {
                "instance": instance,
                "vm": vm,
                "replica": number,
                "cloud": "local",
                "region": "local",
                "zone": "local-a",
                "machineType": "local",
                "provisioningModel": "Spot",
                "startTime": NOW,
                **more,
            }
            for number, instance in enumerate(instances)
        ]
        known = self.objects.get(API, JOBS, job).get("status", {}).get("placements", [])
        ended = [
            {**each, "endTime": NOW, "endReason": "Moved"}
            for each in known
            if each["instance"] not in instances
        ]
        patch = {"status": {"placements": [*ended, *placements]}}
        self.objects.patch(API, JOBS, job, patch, subresource="status")

    def status(self, vm: str = "here") -> Obj:
        status: Obj = self.objects.get(API, VMS, vm).get("status") or {}
        return status

    def entry(self, instance: str, vm: str = "here") -> Obj:
        entries = self.status(vm).get("provisionedInstances") or ()
        return next((each for each in entries if each["name"] == instance), {})

    def await_entry(self, instance: str, vm: str = "here", **expected: Any) -> Obj:
        def fits() -> Obj | None:
            entry = self.entry(instance, vm)
            return entry if all(entry.get(key) == v for key, v in expected.items()) else None

        try:
            return eventually(fits, seconds=60)
        except AssertionError:
            raise AssertionError(f"{self.entry(instance, vm)} is not {expected}") from None

    def await_node(self, instance: str) -> Obj:
        def ready() -> Obj | None:
            node = self.node(instance)
            return node if is_ready(node) else None

        return eventually(ready, seconds=60)

    def node(self, instance: str) -> Obj | None:
        return self.cluster.find("v1", "nodes", instance)

    def nodes(self) -> set[str]:
        return self.cluster.names("v1", "nodes", f"?labelSelector={INSTANCE_LABEL}")

    # -- the cloud --------------------------------------------------------------------------------

    def machines(self) -> dict[str, Vm]:
        return {vm.name: vm for vm in asyncio.run(self.provider.every())}

    def ref(self, instance: str) -> VmRef:
        return VmRef(instance, "local-a")

    def close(self) -> None:
        self.operator.kill()
        for vm in self.machines().values():
            asyncio.run(self.provider.delete(vm.ref))
            self.cluster.delete("v1", "nodes", vm.name)
        patch = {"metadata": {"finalizers": []}}
        for name in self.objects.names(API, VMS):
            self.objects.patch(API, VMS, name, patch)
