"""The machines of an operator's local cloud, seen and taken from outside."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from corral.clouds import BadRequest, Vm, VmRef
from corral.clouds.local import Fault, LocalProvider, LocalSettings
from corral.clouds.local.processes import Process
from corral.clouds.local.records import Folder

__all__ = ["Cloud", "environment", "replica_of"]


def replica_of(vm: str) -> int:
    """The copy that a machine is for, as `corral.families.spot.names` calls machines."""
    match = re.search(r"-(\d+)-\d+$", vm)
    assert match, vm
    return int(match.group(1))


class Cloud:
    """All machines in one folder; those of a job are known by the beginning of their names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._provider = LocalProvider(LocalSettings(folder=folder))

    def machines(self, job: str, *, alive: bool = True) -> list[Vm]:
        """Of one job, by name."""
        found = []
        for path in sorted((self.folder / "vms").glob(f"{job}-*")):
            vm = Folder(path).vm()
            if vm is not None and (vm.alive or not alive):
                found.append(vm)
        return found

    def machine(self, job: str, replica: int) -> Vm | None:
        """The newest of a copy that is alive."""
        mine = [vm for vm in self.machines(job) if replica_of(vm.name) == replica]
        return max(mine, key=lambda vm: vm.created or 0.0, default=None)

    def kill(self, vm: Vm) -> None:
        """Without a word; no matter if it is gone already."""
        asyncio.run(self._provider.kill(VmRef(vm.name, vm.zone)))

    def preempt(self, vm: Vm, *, notice_s: float) -> None:
        """With notice; none for a machine that does not run yet, or no longer."""
        with suppress(BadRequest):
            asyncio.run(self._provider.preempt(VmRef(vm.name, vm.zone), notice_s=notice_s))

    def crash_agent(self, vm: Vm) -> None:
        """SIGKILL for the node agent alone; its machine starts it again."""
        running = Folder(self.folder / "vms" / vm.name).running()
        if running is not None and running.node:
            running.agent.send(signal.SIGKILL)

    def plan(self, *faults: Fault) -> None:
        """What the cloud will do wrong."""
        self._provider.faults.plan(*faults)

    def forget_faults(self) -> None:
        (self.folder / "faults.json").unlink(missing_ok=True)

    def delete_all(self, job: str = "") -> None:
        """Every machine of a job, or of all jobs."""
        for path in (self.folder / "vms").glob(f"{job}-*" if job else "*"):
            vm = Folder(path).vm()
            if vm is not None:
                self.kill(vm)
                asyncio.run(self._provider.delete(VmRef(vm.name, vm.zone)))

    # -- what must not be left ---------------------------------------------------------------------

    def leftovers(self, job: str, uid: str, names: Sequence[str]) -> list[str]:
        """Everything of a job's machines that is still there; ``names`` are those it has had."""
        found = [str(path) for path in (self.folder / "vms").glob(f"{job}-*")]
        marks = {f"CORRAL_VM={name}".encode() for name in names}
        marks.add(f"CORRAL_JOB_UID={uid}".encode())
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and marks & environment(entry):
                process = Process.of(int(entry.name))
                if process is not None and process.alive:
                    found.append(f"process {entry.name}: {_command(entry)}")
        for name in names:
            groups = Path("/sys/fs/cgroup")
            found += [str(path) for path in groups.glob(f"corral-{name}-*")]
            found += [str(path) for path in groups.glob(f"*/corral-{name}-*")]
        return found


def environment(process: Path) -> set[bytes]:
    """The variables a process was started with; none for one that is gone."""
    try:
        return set((process / "environ").read_bytes().split(b"\0"))
    except OSError:
        return set()


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:200]
    except OSError:
        return "gone"


def kill_program(uid: str, pod: str) -> None:
    """SIGKILL for the processes of one pod of a job, as the kernel would without memory."""
    marks = {f"CORRAL_JOB_UID={uid}".encode(), f"POD={pod}".encode()}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and marks <= environment(entry):
            try:
                os.kill(int(entry.name), signal.SIGKILL)
            except ProcessLookupError:
                continue
