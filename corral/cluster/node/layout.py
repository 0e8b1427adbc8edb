"""Where an agent keeps what: all paths below its folder, in one place."""

from __future__ import annotations

import shutil
from pathlib import Path

from corral.kube.types import Obj

__all__ = ["Layout"]


class Layout:
    """The folder of one agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lock = root / "agent.lock"
        self.containers = root / "containers"
        self.pods = root / "pods"
        self.logs = root / "logs"
        self.pki = root / "pki"

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
        return found | {entry.name.rpartition("_")[2] for entry in self.logs.iterdir()}

    def forget_logs(self, uid: str) -> None:
        for folder in self.logs.glob(f"*_{uid}"):
            shutil.rmtree(folder, ignore_errors=True)
