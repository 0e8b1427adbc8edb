"""Where an agent keeps what: all paths below its folder, in one place."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
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
        name = hashlib.sha256(str(root.resolve()).encode()).hexdigest()[:12]
        self.memory_root = _MEMORY / f"corral-{name}"

    def make(self) -> None:
        """Raises OSError."""
        # containers that run as other users must be able to pass through, not to look around
        for folder in (self.root, self.pods):
            folder.mkdir(parents=True, exist_ok=True, mode=0o711)
        self.logs.mkdir(exist_ok=True, mode=0o700)

    def pod(self, uid: str) -> Path:
        return self.pods / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def memory(self, uid: str) -> Path:
        """For volumes that are to lie in memory; the machine's own place for that."""
        return self.memory_root / uid

    def workdir(self, uid: str, container: str) -> Path:
        """Stands in for a working directory that this machine does not have."""
        return self.pod(uid) / "workdirs" / container

    def message(self, uid: str, container: str, attempt: int) -> Path:
        """What a container writes to say why it ended."""
        return self.pod(uid) / "messages" / container / str(attempt)

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
        if self.memory_root.is_dir():
            found |= {entry.name for entry in self.memory_root.iterdir()}
        return found | {entry.name.rpartition("_")[2] for entry in self.logs.iterdir()}

    def forget_pod(self, uid: str) -> None:
        """Remove all of a pod but its logs."""
        shutil.rmtree(self.pod(uid), ignore_errors=True)
        shutil.rmtree(self.memory(uid), ignore_errors=True)
        with suppress(OSError):  # not empty, or not there
            self.memory_root.rmdir()

    @property
    def has_memory(self) -> bool:
        return os.path.ismount(_MEMORY) and os.access(_MEMORY, os.W_OK | os.X_OK)

    def forget_logs(self, pod: Obj) -> None:
        meta = pod["metadata"]
        folder = self.log_folder(meta["namespace"], meta["name"], meta["uid"])
        shutil.rmtree(folder, ignore_errors=True)

    def forget_logs_of(self, uid: str) -> None:
        """The same for a pod of which only this is known."""
        for folder in self.logs.glob(f"*_{uid}"):
            shutil.rmtree(folder, ignore_errors=True)
