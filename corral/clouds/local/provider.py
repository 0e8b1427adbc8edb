"""VMs on this machine: each is a process with a node agent below it and a folder of its own.

Everything about a VM is on disk (`records`), so any number of providers on one folder see and do
the same, and one that is started anew finds what the last one made. One request id makes one VM,
ever: ids of VMs that are gone are remembered.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Final, TypeVar

from corral.clouds.base import (
    OWNER_LABEL,
    REQUEST_LABEL,
    Hazard,
    Notice,
    NoticeKind,
    Price,
    Vm,
    VmRef,
    VmRequest,
    checked,
    labels_of,
)
from corral.clouds.errors import BadRequest, QuotaExceeded, Scope, StockOut, Transient
from corral.clouds.local.faults import FaultFile
from corral.clouds.local.leftovers import remove_leftovers
from corral.clouds.local.processes import kill_below
from corral.clouds.local.records import Ended, Folder, Record, Running, exclusively, is_held, write
from corral.clouds.local.settings import LocalSettings
from corral.files.private import private_folder

__all__ = ["LocalProvider"]

_START_S: Final = 30.0
_POLL_S: Final = 0.02
_REMEMBER_S: Final = 7 * 86400.0
_T = TypeVar("_T")


class LocalProvider:
    """Spot and on-demand VMs that are processes."""

    name = "local"

    def __init__(self, settings: LocalSettings, *, clock: Callable[[], float] = time.time) -> None:
        """Raises OSError when the folder cannot be made."""
        self._settings = settings
        self._clock = clock
        self._vms = settings.folder / "vms"
        self._gone = settings.folder / "gone"
        self._lock = settings.folder / "lock"
        for path in (settings.folder, self._vms, self._gone):
            private_folder(path)
        self.faults = FaultFile(settings.folder)

    # -- VMs -------------------------------------------------------------------------------------

    async def create(self, request: VmRequest) -> Vm:
        checked(request)
        return await self._do("create", request.zone, lambda: self._create(request))

    async def delete(self, ref: VmRef) -> None:
        await self._do("delete", ref.zone, lambda: self._delete(ref))

    async def get(self, ref: VmRef) -> Vm | None:
        return await self._do("get", ref.zone, lambda: self._look(self._folder(ref.name)))

    async def list(self, owner: str) -> Sequence[Vm]:
        return await self._do("list", "", lambda: self._list(owner))

    async def every(self) -> Sequence[Vm]:
        """All VMs on the folder, whoever owns them."""
        return await asyncio.to_thread(self._observed)

    async def preempt(self, ref: VmRef, *, notice_s: float | None = None) -> None:
        """Give notice: at the deadline the VM is taken. Without it, at once. Raises BadRequest."""
        wait = self._settings.notice_s if notice_s is None else notice_s
        await asyncio.to_thread(self._tell, ref.name, deadline=self._clock() + wait)

    async def maintain(self, ref: VmRef, event: str = "MIGRATE_ON_HOST_MAINTENANCE") -> None:
        """Announce maintenance, or its end with NONE. Raises BadRequest."""
        await asyncio.to_thread(self._tell, ref.name, maintenance=event)

    async def kill(self, ref: VmRef) -> None:
        """Take the VM now and without a word, as when a machine breaks."""
        await asyncio.to_thread(self._kill, self._folder(ref.name), "killed")

    async def _do(self, operation: str, zone: str, work: Callable[[], _T]) -> _T:
        """Work in a thread, with the faults that are planned. Raises CloudError."""
        fault = await asyncio.to_thread(self.faults.take, operation, zone)
        if fault is not None:
            await asyncio.sleep(fault.delay_s)
            if (refusal := fault.refusal()) is not None:
                raise refusal
        try:
            result = await asyncio.to_thread(work)
        except OSError as error:
            raise Transient(f"this machine does not let us: {error}") from error
        if fault is not None and fault.lose:
            raise Transient("the answer was lost, as was asked for")
        return result

    def _folder(self, name: str) -> Folder:
        if "/" in name or name.startswith("."):
            raise BadRequest(f"{name!r} cannot be a VM's name")
        return Folder(self._vms / name)

    # -- making ----------------------------------------------------------------------------------

    def _create(self, request: VmRequest) -> Vm:
        folder = self._folder(request.name)
        with exclusively(self._lock):
            record = folder.record()
            if record is None:
                self._allow(request)
                self._write(folder, request, self._devices(request))
            elif record.labels.get(REQUEST_LABEL) != request.request_id:
                raise BadRequest(
                    f"there is a VM {request.name} that this request did not make: "
                    "choose another name or delete it"
                )
        try:
            self._start(folder)
        except BadRequest:
            self._kill(folder, "crashed")
            self._forget(folder, request.request_id)
            raise
        vm = folder.vm()
        if vm is not None and vm.request_id == request.request_id:
            if vm.raw_state != "TERMINATED":
                return vm
            self._settle(folder)
            self._forget(folder, request.request_id)
        raise StockOut(f"VM {request.name} was taken at once", scope=Scope.ZONE)

    def _allow(self, request: VmRequest) -> None:
        """Check stock and quotas; raises StockOut or QuotaExceeded."""
        if (self._gone / request.request_id).exists():
            raise StockOut(
                f"request id {request.request_id} made a VM that is gone: take a new one",
                scope=Scope.ZONE,
            )
        alive = [vm for vm in self._observed() if vm.alive]
        room = self._settings.capacity.get(request.zone)
        if room is not None and sum(vm.zone == request.zone for vm in alive) >= room:
            raise StockOut(
                f"zone {request.zone} has room for {room} VMs", code="NO_ROOM", scope=Scope.ZONE
            )
        if self._settings.quota is not None and len(alive) >= self._settings.quota:
            raise QuotaExceeded(
                f"this machine has at most {self._settings.quota} VMs in all",
                code="QUOTA",
                scope=Scope.REGION,
            )
        self._allow_label(request, alive)

    def _allow_label(self, request: VmRequest, alive: Sequence[Vm]) -> None:
        """Check the quota of VMs with one label; raises QuotaExceeded."""
        if self._settings.label_quota is None:
            return
        label, most = self._settings.label_quota
        value = request.labels.get(label, "")
        if sum(vm.labels.get(label, "") == value for vm in alive) >= most:
            raise QuotaExceeded(
                f"this machine has at most {most} VMs with {label} {value}",
                code="QUOTA",
                scope=Scope.REGION,
            )

    def _devices(self, request: VmRequest) -> Sequence[Mapping[str, Any]]:
        """The GPUs of a new VM. Raises StockOut, BadRequest."""
        count = request.gpu.count if request.gpu is not None else 0
        model = request.gpu.type if request.gpu is not None else ""
        if self._settings.devices is None and count > self._settings.most_gpus:
            raise BadRequest(f"a VM of this machine has at most {self._settings.most_gpus} GPUs")
        if self._settings.devices is None:
            return [{"index": str(number), "model": model} for number in range(count)]
        taken = {
            device["index"]
            for vm in self._observed()
            if vm.alive and (record := Folder(self._vms / vm.name).record()) is not None
            for device in record.devices
        }
        free = [each for each in self._settings.devices if each["index"] not in taken]
        if len(free) < count:
            raise StockOut(
                f"this machine has {len(free)} GPUs to give, not {count}",
                code="NO_GPU",
                scope=Scope.ZONE,
            )
        return free[:count]

    def _write(
        self, folder: Folder, request: VmRequest, devices: Sequence[Mapping[str, Any]]
    ) -> None:
        """The VM's folder, all at once."""
        partial = Folder(Path(mkdtemp(prefix=".new-", dir=self._vms)))
        try:
            for name, text in self._settings.files(request).items():
                write(partial.path / name, text)
            write(partial.path / "gpus.json", json.dumps(list(devices)))
            words = {
                "{name}": request.name,
                "{folder}": str(folder.path),
                "{data}": str(folder.data),
            }
            partial.keep(
                Record(
                    name=request.name,
                    zone=request.zone,
                    machine_type=request.machine_type,
                    spot=request.spot,
                    labels=labels_of(request),
                    created=self._clock(),
                    command=[_filled(word, words) for word in self._settings.command],
                    environment=self._settings.environment,
                    stop_grace_s=self._settings.stop_grace_s,
                    devices=devices,
                )
            )
            partial.path.rename(folder.path)
        except BaseException:
            shutil.rmtree(partial.path, ignore_errors=True)
            raise

    def _start(self, folder: Folder) -> None:
        """See that the VM has begun; two that start it do no harm. Raises CloudError."""
        if folder.running() is not None:
            return
        command = [sys.executable, "-m", "corral.clouds.local.machine", str(folder.path)]
        with open(folder.log, "ab") as log:
            try:
                done = subprocess.run(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env={**os.environ, "PYTHONPATH": _python_path()},
                    timeout=_START_S,
                    check=False,
                )
            except subprocess.TimeoutExpired as error:
                raise Transient(f"VM {folder.path.name} did not start: {error}") from error
        if done.returncode:
            words = folder.log.read_text(errors="replace").strip().splitlines()
            reported = " ".join(line for line in words[-2:] if line)
            raise BadRequest(f"VM {folder.path.name} did not start: {reported}")
        self._await_process(folder)

    def _await_process(self, folder: Folder) -> None:
        """Whoever started it: it says so very soon. Raises Transient."""
        until = time.monotonic() + _START_S
        while folder.running() is None and folder.ended() is None and folder.record() is not None:
            if time.monotonic() > until:
                raise Transient(f"VM {folder.path.name} did not start within {_START_S:g} s")
            time.sleep(_POLL_S)

    # -- ending ----------------------------------------------------------------------------------

    def _delete(self, ref: VmRef) -> None:
        folder = self._folder(ref.name)
        record = folder.record()
        if record is None or ref.id not in ("", record.id):
            return
        folder.stopping.touch()
        running = self._begun(folder)
        in_order = running is not None and folder.ended() is None
        if running is not None and in_order and running.process.send(signal.SIGTERM):
            until = time.monotonic() + self._settings.stop_grace_s + 2
            while running.process.alive and time.monotonic() < until:
                time.sleep(_POLL_S)
        self._kill(folder, "stopped")
        self._settle(folder)
        remove_leftovers(folder.data, record.name)
        self._forget(folder, record.labels[REQUEST_LABEL])

    def _kill(self, folder: Folder, reason: str) -> None:
        """End whatever is left of the VM, and say so. Raises OSError.

        That it has ended may have been written down by somebody who was killed before it had.
        """
        record = folder.record()
        if record is None or (folder.ended() is not None and not is_held(folder.lock)):
            return
        running = self._begun(folder)
        if running is not None:
            # held still it starts nothing anew, and orphans still come to it
            running.process.send(signal.SIGSTOP)
            for process in (running.process, running.agent):
                if process.alive:  # its number is its own, not somebody else's by now
                    kill_below(process)
            self._say(folder, record, reason)
            running.process.send(signal.SIGKILL)
            running.agent.send(signal.SIGKILL)
            self._settle(folder)
        remove_leftovers(folder.data, record.name)
        self._say(folder, record, reason)

    def _say(self, folder: Folder, record: Record, reason: str) -> None:
        with exclusively(self._lock):  # the name may be another VM's by now
            if folder.record() == record and folder.ended() is None:
                folder.keep(Ended(reason, self._clock()))

    def _begun(self, folder: Folder) -> Running | None:
        """Its processes; who is just becoming the VM says so very soon. Raises TimeoutError."""
        until = time.monotonic() + _START_S
        while (running := folder.running()) is None and is_held(folder.lock):
            if time.monotonic() > until:
                raise TimeoutError(f"VM {folder.path.name} neither begins nor ends")
            time.sleep(_POLL_S)
        return running

    def _settle(self, folder: Folder) -> None:
        """Wait until no process is the VM any more. Raises TimeoutError."""
        until = time.monotonic() + _START_S
        while is_held(folder.lock):
            if time.monotonic() > until:
                raise TimeoutError(f"VM {folder.path.name} does not end")
            time.sleep(_POLL_S)

    def _forget(self, folder: Folder, request_id: str) -> None:
        """Remove the folder of what a request made at once, and remember that it was."""
        with exclusively(self._lock):
            record = folder.record()
            if record is None or record.labels[REQUEST_LABEL] != request_id:
                return
            write(self._gone / request_id, "")
            aside = Path(mkdtemp(prefix=".old-", dir=self._vms))
            folder.path.rename(aside / "vm")
            for old in self._gone.iterdir():
                with suppress(FileNotFoundError):
                    if self._clock() - old.stat().st_mtime > _REMEMBER_S:
                        old.unlink()
        shutil.rmtree(aside, ignore_errors=True)

    def _tell(self, name: str, **news: Any) -> None:
        folder = self._folder(name)
        running = folder.running()
        if running is None or not running.process.alive:
            raise BadRequest(f"VM {name} does not run: it cannot be told anything")
        folder.keep(replace(folder.given(), **news))
        running.process.send(signal.SIGUSR1)

    # -- looking ---------------------------------------------------------------------------------

    def _look(self, folder: Folder) -> Vm | None:
        vm = folder.vm()
        if vm is not None and vm.raw_state == "CRASHED":
            # the process that was the VM is dead; what it ran must not outlive it
            self._kill(folder, "crashed")
            return folder.vm()
        return vm

    def _folders(self) -> Sequence[Folder]:
        names = sorted(each.name for each in self._vms.iterdir() if each.name[0] != ".")
        return [Folder(self._vms / name) for name in names]

    def _observed(self) -> Sequence[Vm]:
        """All VMs; nothing is done about them, so that the lock may be held."""
        return [vm for folder in self._folders() if (vm := folder.vm()) is not None]

    def _list(self, owner: str) -> Sequence[Vm]:
        found = [vm for folder in self._folders() if (vm := self._look(folder)) is not None]
        return [vm for vm in found if vm.labels.get(OWNER_LABEL) == owner]

    async def notices(self, owner: str) -> AsyncIterator[Notice]:
        """Deadlines as they are set, ends as they are seen."""
        reported: set[tuple[Any, ...]] = set()
        before: set[str] = set()
        while True:
            vms = await asyncio.to_thread(self._list, owner)
            current = {vm.id: vm for vm in vms}
            for vm in vms:
                for notice in self._news(vm):
                    key = (vm.id, notice.kind, notice.deadline, notice.text)
                    if key not in reported:
                        reported.add(key)
                        yield notice
            for gone in sorted(before - set(current)):
                name = gone.rpartition("-")[0]
                if not any(key[:2] == (gone, NoticeKind.GONE) for key in reported):
                    yield self._notice(NoticeKind.GONE, name, text="no longer there")
                reported = {key for key in reported if key[0] != gone}
            before = set(current)
            await asyncio.sleep(self._settings.look_s)

    def _news(self, vm: Vm) -> Sequence[Notice]:
        if not vm.alive:
            return [
                self._notice(NoticeKind.GONE, vm.name, preempted=vm.preempted, text=vm.raw_state)
            ]
        given = Folder(self._vms / vm.name).given()
        news = []
        if given.deadline is not None:
            news.append(
                self._notice(
                    NoticeKind.PREEMPTION, vm.name, deadline=given.deadline, preempted=True
                )
            )
        if given.maintenance != "NONE":
            news.append(self._notice(NoticeKind.MAINTENANCE, vm.name, text=given.maintenance))
        return news

    def _notice(self, kind: NoticeKind, vm: str, **more: Any) -> Notice:
        return Notice(kind=kind, vm=vm, seen=self._clock(), source="state", **more)

    async def prices(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Price]:
        return [p for p in self._settings.prices if _matches(p, machine_types, zones)]

    async def hazards(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Hazard]:
        return [h for h in self._settings.hazards if _matches(h, machine_types, zones)]

    async def host_keys(self, ref: VmRef) -> Sequence[str]:
        """None: nobody needs to log in to join a local VM."""
        return ()

    async def close(self) -> None:
        """Nothing to close: VMs run on without the provider."""


def _filled(word: str, words: Mapping[str, str]) -> str:
    for key, value in words.items():
        word = word.replace(key, value)
    return word


def _matches(fact: Price | Hazard, machine_types: Sequence[str], zones: Sequence[str]) -> bool:
    return fact.machine_type in machine_types and fact.zone in zones


def _python_path() -> str:
    """So that the VM's process finds this very package."""
    here = str(Path(__file__).parents[3])
    return os.pathsep.join([here, *filter(None, [os.environ.get("PYTHONPATH")])])
