"""What is on disk about a local VM: the only truth, for whoever looks at it.

The folder of a VM appears at once with its record, and goes at once. Each file is written by one
side: `vm.json` by the provider that made the VM, `process.json` and `ended.json` by the VM's own
process, `notice.json` by whoever gives it notice.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from corral.clouds.base import State, Vm
from corral.clouds.local.processes import Process

__all__ = [
    "Ended",
    "Folder",
    "Record",
    "Running",
    "StoredNotice",
    "exclusively",
    "is_held",
    "write",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The request that a VM was made for, as it is stored."""

    name: str
    zone: str
    machine_type: str
    spot: bool
    labels: Mapping[str, str]
    created: float
    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_grace_s: float
    devices: Sequence[Mapping[str, Any]] = ()
    """GPUs that are this VM's alone."""

    @property
    def id(self) -> str:
        """Told apart from others that have had the name."""
        return f"{self.name}-{self.created:.6f}"


@dataclass(frozen=True, slots=True)
class Running:
    """The process that is the VM."""

    pid: int
    started: str
    port: int
    node: int = 0
    node_started: str = ""

    @property
    def process(self) -> Process:
        return Process(self.pid, self.started)

    @property
    def agent(self) -> Process:
        return Process(self.node, self.node_started)


@dataclass(frozen=True, slots=True)
class StoredNotice:
    """What the VM is told."""

    deadline: float | None = None
    """When it will be taken; None: not."""
    maintenance: str = "NONE"


@dataclass(frozen=True, slots=True)
class Ended:
    """Why and when a VM ended."""

    reason: str
    """preempted, stopped, killed or crashed."""
    at: float


class Folder:
    """The files of one VM."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.data = path / "data"
        self.lock = path / "run.lock"
        self.log = path / "vm.log"
        self.stopping = path / "stopping"

    def record(self) -> Record | None:
        found = _read(self.path / "vm.json")
        return None if found is None else Record(**found)

    def running(self) -> Running | None:
        found = _read(self.path / "process.json")
        return None if found is None else Running(**found)

    def given(self) -> StoredNotice:
        return StoredNotice(**(_read(self.path / "notice.json") or {}))

    def ended(self) -> Ended | None:
        found = _read(self.path / "ended.json")
        return None if found is None else Ended(**found)

    def keep(self, value: Record | Running | StoredNotice | Ended) -> None:
        names = {
            Record: "vm.json",
            Running: "process.json",
            StoredNotice: "notice.json",
            Ended: "ended.json",
        }
        write(self.path / names[type(value)], json.dumps(asdict(value)))

    def vm(self) -> Vm | None:
        """The VM as it is now; None when it is gone."""
        record = self.record()
        if record is None:
            return None
        running, ended = self.running(), self.ended()
        raw, state = self._state(running, ended)
        if running is None and self.record() is None:
            return None  # it went while we looked
        return Vm(
            name=record.name,
            zone=record.zone,
            id=record.id,
            machine_type=record.machine_type,
            state=state,
            raw_state=raw,
            spot=record.spot,
            preempted=ended.reason == "preempted" if ended is not None else None,
            internal_ip="127.0.0.1",
            created=record.created,
            labels=record.labels,
            metadata=f"http://127.0.0.1:{running.port}" if running is not None else "",
        )

    def _state(self, running: Running | None, ended: Ended | None) -> tuple[str, State]:
        if ended is not None:
            return "TERMINATED", State.TERMINATED
        if running is None:
            return "PROVISIONING", State.PENDING
        if not running.process.alive:
            return "CRASHED", State.TERMINATED
        if self.stopping.exists():
            return "STOPPING", State.STOPPING
        return "RUNNING", State.RUNNING


def write(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Replace a file as a whole, readable by its owner only. Raises OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    partial.rename(path)


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None


@contextmanager
def exclusively(path: Path) -> Iterator[None]:
    """One process and thread at a time; blocks."""
    handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def is_held(path: Path) -> bool:
    """Whether some process has locked the file."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False
