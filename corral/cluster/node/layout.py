"""Where an agent keeps what: all paths below its folder, in one place.

What must not outlive a restart of the machine (the records of running containers, files made of
secrets and tokens, the pod network) lies in memory where there is a file system for that: it is
small, there is much of it, and it comes and goes quickly. ``park`` brings back to the folder what
the next agent needs.

All folders are the agent's alone: containers get what is theirs by mounts. The name of the one in
memory cannot be known beforehand, because everybody may make folders there.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from corral.cluster.node.shim.users import can_map
from corral.files.private import data_folder, is_own, make_folders, private_folder
from corral.files.removal import remove_tree
from corral.kube.types import Obj

__all__ = ["Layout"]

_MEMORY: Final = Path("/dev/shm")
"""A file system in memory, on every Linux."""
_PRIVATE: Final = 0o700


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
        digest = hashlib.sha256(str(root.resolve()).encode()).hexdigest()
        self.prefix = f"corral-{digest[:12]}-"
        """How the names of its folders in memory begin."""
        self.has_memory = os.path.ismount(_MEMORY) and os.access(_MEMORY, os.W_OK | os.X_OK)
        self.memory_root = self._last_memory() or self._new_memory()
        self.mode = _PRIVATE
        """Of the folders that lie above those of pods."""
        self.bounds = False
        """Whether what pods write to memory has room of its own: see `bound`."""
        self._parked = root / "containers.parked"

    @property
    def volatile(self) -> Path:
        """For what goes with the machine."""
        return self.memory_root if self.has_memory else self.root

    def make(self) -> None:
        """The folder itself. Raises OSError."""
        data_folder(self.root)

    def open(self) -> None:
        """What is in it; the folder must be locked. Raises OSError."""
        for folder in (self.pods, self.logs):
            private_folder(folder)
        if self.has_memory:
            if not is_own(self.memory_root):
                self.memory_root = self._new_memory()
                self.memory_root.mkdir(mode=0o700)
            self._remove_stale()
            for folder in (self.memory_root, self.memory_root / "pods"):
                private_folder(folder)
            self._unpark()

    def _remove_stale(self) -> None:
        """What earlier agents on a folder of this name had in memory, which was removed since."""
        for place in _MEMORY.glob(f"{self.prefix}*"):
            if place != self.memory_root and is_own(place):
                remove_tree(place)

    def bound(self) -> None:
        """Have room of its own for what each pod writes to memory: only the machine's root can."""
        self.bounds = self.has_memory

    def let_pass(self) -> None:
        """Let containers of other users pass through, not look around: without mounts they must."""
        self.mode = 0o711
        shared = [self.memory_root, self.memory_root / "pods"] if self.has_memory else []
        for folder in (self.root, self.pods, *shared):
            folder.chmod(self.mode)

    def close_pod(self, uid: str, groups: Collection[int]) -> None:
        """After `let_pass`: nobody passes through a pod's folders but who is of its one group.

        Where a pod's processes have several (or none: they are the agent's) it is all (or nobody).
        The folders stay the agent's: who owns one can exchange what is in it.
        """
        if self.mode == _PRIVATE:
            return
        mode = (_PRIVATE, 0o710, self.mode)[min(len(groups), 2)]
        for folder in (self.pod(uid), self.memory(uid)):
            if folder.is_dir():
                os.chown(folder, -1, next(iter(groups)) if len(groups) == 1 else os.getegid())
                folder.chmod(mode)

    def _last_memory(self) -> Path | None:
        """The folder in memory that the records of containers are in, if it is still ours."""
        try:
            place = Path(os.readlink(self.containers)).parent
        except OSError:
            return None
        known = place.parent == _MEMORY and place.name.startswith(self.prefix)
        return place if known and is_own(place) else None

    def _new_memory(self) -> Path:
        return _MEMORY / f"{self.prefix}{secrets.token_hex(8)}"

    def _unpark(self) -> None:
        """Have the records of containers in memory, with a link to them from the folder."""
        place = self.memory_root / "containers"
        private_folder(place)
        if self.containers.is_symlink() and Path(os.readlink(self.containers)) != place:
            self.containers.unlink()  # of a time before the machine was started
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
            with suppress(OSError):  # as much as can be removed
                remove_tree(self.memory_root)

    def pod(self, uid: str) -> Path:
        return self.pods / uid

    def volumes(self, uid: str) -> Path:
        return self.pod(uid) / "volumes"

    def memory(self, uid: str) -> Path:
        """For volumes that are to lie in memory; the machine's own place for that."""
        return self.memory_root / "pods" / uid

    def files_on_disk(self) -> bool:
        """Whether files of volumes must lie there, for pods with user ids of their own.

        Where the kernel cannot map ids in memory, such a file is nobody's for the pod, and one
        that is for its owner alone can be read by none of its users.
        """
        return self.has_memory and not can_map(str(_MEMORY)) and can_map(str(self.root))

    def workdir(self, uid: str, container: str) -> Path:
        """Stands in for a working directory that this machine does not have."""
        return self.pod(uid) / "workdirs" / container

    def message(self, uid: str, container: str, attempt: int) -> Path:
        """What a container writes to say why it ended: not where it could fill up the records."""
        return self._messages(uid) / f"{container}.{attempt}"

    def _messages(self, uid: str) -> Path:
        return self.pod(uid) / ".messages"

    def make_messages(self, uid: str) -> None:
        """The folder for all messages of a pod. Raises OSError."""
        make_folders(self._messages(uid), mode=self.mode)

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
        for folder in (self.pod(uid), self.memory(uid)):
            remove_tree(folder)

    def forget_logs(self, pod: Obj) -> None:
        meta = pod["metadata"]
        remove_tree(self.log_folder(meta["namespace"], meta["name"], meta["uid"]))

    def forget_logs_of(self, uid: str) -> None:
        """The same for a pod of which only this is known."""
        for folder in self.logs.glob(f"*_{uid}"):
            remove_tree(folder)


def _sockets(folder: str, names: list[str]) -> list[str]:
    """Those that cannot be copied, and are of no use any more."""
    return [name for name in names if stat.S_ISSOCK(os.lstat(os.path.join(folder, name)).st_mode)]
