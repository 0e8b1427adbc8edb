"""Where an agent keeps what: all paths below its folder, in one place.

What must not outlive a restart of the machine (the records of running containers, files made of
secrets and tokens, the pod network) lies in memory where there is a file system for that: it is
small, there is much of it, and it comes and goes quickly. ``park`` brings back to the folder what
the next agent needs.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from pathlib import Path
from typing import Final

from corral.kube.types import Obj

__all__ = ["Layout"]

_MEMORY: Final = Path("/dev/shm")
"""A file system in memory, on every Linux."""


class Layout:
    """The folder of one agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = root / "agent.lock"
        self.containers = root / "containers"
        self.pods = root / "pods"
        self.logs = root / "logs"
        self.pki = root / "pki"
        self.images = root / "images"
        name = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:12]
        self.memory_root = _MEMORY / f"corral-{name}"
        self.has_memory = os.path.ismount(_MEMORY) and os.access(_MEMORY, os.W_OK | os.X_OK)
        self.volatile = self.memory_root if self.has_memory else root
        """For what goes with the machine."""
        self._parked = root / "containers.parked"

    def make(self) -> None:
        """Raises OSError."""
        # containers that run as other users must be able to pass through, not to look around
        for folder in (self.root, self.pods):
            folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        self.logs.mkdir(exist_ok=True, mode=0o700)
        if self.has_memory:
            self.memory_root.mkdir(exist_ok=True, mode=0o711)
            self._unpark()

    def _unpark(self) -> None:
        """Have the records of containers in memory, with a link to them from the folder."""
        place = self.memory_root / "containers"
        place.mkdir(exist_ok=True, mode=0o700)
        if self._parked.exists() and not self.containers.exists():
            self._parked.rename(self.containers)
        if self.containers.is_dir() and not self.containers.is_symlink():
            for entry in self.containers.iterdir():
                shutil.move(entry, place / entry.name)
            self.containers.rmdir()
        if not self.containers.is_symlink():
            self.containers.symlink_to(place)

    def park(self) -> None:
        """Keep on disk what was in memory, and give the memory back; nothing must run."""
        if self.containers.is_symlink():
            shutil.rmtree(self._parked, ignore_errors=True)
            shutil.copytree(self.containers, self._parked, ignore=_sockets)
            self.containers.unlink()
            self._parked.rename(self.containers)
            shutil.rmtree(self.memory_root, ignore_errors=True)

    def pod(self, uid: str) -> Path:
        return self.pods / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def memory(self, uid: str) -> Path:
        """For volumes that are to lie in memory; the machine's own place for that."""
        return self.memory_root / "pods" / uid

    def workdir(self, uid: str, container: str) -> Path:
        """Stands in for a working directory that this machine does not have."""
        return self.pod(uid) / "workdirs" / container

    def message(self, uid: str, container: str, attempt: int) -> Path:
        """What a container writes to say why it ended."""
        folder = self.memory(uid) if self.has_memory else self.pod(uid)
        return folder / ".messages" / f"{container}.{attempt}"

    def interrupted(self, uid: str) -> Path:
        """There while the pod's containers are ended only because the agent stops."""
        return self.pod(uid) / "interrupted"

    def log_folder(self, namespace: str, name: str, uid: str) -> Path:
        return self.logs / f"{namespace}_{name}_{uid}"

    def log(self, pod: Obj, container: str, attempt: int) -> Path:
        meta = pod["metadata"]
        folder = self.log_folder(meta["namespace"], meta["name"], meta["uid"])
        return folder / container / f"{attempt}.log"

    def known(self) -> set[str]:
        """The uids of all pods that have a folder or logs here."""
        found = {entry.name for entry in self.pods.iterdir() if entry.is_dir()}
        if (memory := self.memory_root / "pods").is_dir():
            found |= {entry.name for entry in memory.iterdir()}
        return found | {entry.name.rpartition("_")[2] for entry in self.logs.iterdir()}

    def forget_pod(self, uid: str) -> None:
        """Remove all of a pod but its logs."""
        shutil.rmtree(self.pod(uid), ignore_errors=True)
        shutil.rmtree(self.memory(uid), ignore_errors=True)

    def forget_logs(self, pod: Obj) -> None:
        meta = pod["metadata"]
        folder = self.log_folder(meta["namespace"], meta["name"], meta["uid"])
        shutil.rmtree(folder, ignore_errors=True)

    def forget_logs_of(self, uid: str) -> None:
        """The same for a pod of which only this is known."""
        for folder in self.logs.glob(f"*_{uid}"):
            shutil.rmtree(folder, ignore_errors=True)


def _sockets(folder: str, names: list[str]) -> list[str]:
    """Those that cannot be copied, and are of no use any more."""
    return [name for name in names if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)]
