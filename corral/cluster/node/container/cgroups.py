"""Control groups for containers, version 1 or 2, where this process may make them.

All groups lie below one folder named after the node, in every hierarchy that is used. Nothing
outside that folder is changed. All together have less than the machine's memory: what containers
without a limit take, in files too, must not be missing to the parts of the cluster.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_V1: Final = ("memory", "cpu", "cpuacct", "pids")
_PERIOD: Final = 100_000
_MIN_QUOTA: Final = 1_000
_LEAST_KEPT: Final = 256 << 20
_MOST_KEPT: Final = 2 << 30
ROOT: Final = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Of one container; None where there is no limit."""

    memory_bytes: int | None = None
    cpu_milli: int | None = None
    cpu_request_milli: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """The hierarchies in which groups can be made."""

    version: int
    parents: tuple[Path, ...]
    """The node's own folder in each hierarchy."""

    @classmethod
    def detect(cls, node: str, *, root: Path = ROOT) -> Groups | None:
        """None when this process may not limit memory."""
        if (root / "cgroup.controllers").exists():
            return cls._detect_v2(node, root)
        parents: list[Path] = []
        seen: set[Path] = set()
        for name in _V1:
            real = (root / name).resolve()
            if real in seen or not os.access(real / "cgroup.procs", os.W_OK):
                continue
            seen.add(real)
            parents.append(real / node)
        if not any("memory" in parent.parent.name for parent in parents):
            return None
        return cls(1, tuple(parents))

    @classmethod
    def _detect_v2(cls, node: str, root: Path) -> Groups | None:
        control = root / "cgroup.subtree_control"
        try:
            enabled = control.read_text().split()
            if not os.access(control, os.W_OK) or "memory" not in enabled:
                return None
        except OSError:
            return None
        return cls(2, (root / node,))

    def create(self, name: str, limits: Limits) -> list[str]:
        """Make the groups of a container. Raises OSError; nothing is left behind then."""
        made: list[str] = []
        try:
            for parent in self.parents:
                self._make_parent(parent)
                if self.version == 2:
                    (parent / "cgroup.subtree_control").write_text("+memory +cpu")
                    with suppress(OSError):  # the machine keeps that controller to itself
                        (parent / "cgroup.subtree_control").write_text("+pids")
                folder = parent / name
                folder.mkdir(exist_ok=True)
                made.append(str(folder))
                self._limit(folder, limits)
        except OSError:
            remove(made)
            raise
        return made

    def _make_parent(self, parent: Path) -> None:
        try:
            parent.mkdir()
        except FileExistsError:
            return
        name = "memory.max" if self.version == 2 else "memory.limit_in_bytes"
        if (parent / name).exists():
            (parent / name).write_text(str(most_memory(machine_memory())))

    def _limit(self, folder: Path, limits: Limits) -> None:
        memory, cpu, request = limits.memory_bytes, limits.cpu_milli, limits.cpu_request_milli
        quota = max(cpu * _PERIOD // 1000, _MIN_QUOTA) if cpu else None
        shares = max((request or 0) * 1024 // 1000, 2)
        if limits.processes and (folder / "pids.max").exists():
            (folder / "pids.max").write_text(str(limits.processes))
        if self.version == 2:
            if memory:
                (folder / "memory.max").write_text(str(memory))
                with suppress(OSError):  # no swap accounting on this machine
                    (folder / "memory.swap.max").write_text("0")
            if quota:
                (folder / "cpu.max").write_text(f"{quota} {_PERIOD}")
            (folder / "cpu.weight").write_text(str(1 + (shares - 2) * 9999 // 262142))
            return
        if memory and (folder / "memory.limit_in_bytes").exists():
            (folder / "memory.limit_in_bytes").write_text(str(memory))
            with suppress(OSError):  # no swap accounting on this machine
                (folder / "memory.memsw.limit_in_bytes").write_text(str(memory))
        if (folder / "cpu.shares").exists():
            (folder / "cpu.shares").write_text(str(shares))
            if quota:
                (folder / "cpu.cfs_quota_us").write_text(str(quota))

    def leftovers(self) -> list[str]:
        """Groups of containers, whoever made them; for an agent that starts."""
        return [str(p) for parent in self.parents if parent.is_dir() for p in _folders(parent)]

    def close(self) -> None:
        """Remove the node's own folders, where they are empty."""
        for parent in self.parents:
            with suppress(OSError):
                parent.rmdir()


def machine_memory() -> int:
    """Bytes."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def most_memory(total: int) -> int:
    """What all containers of a node together may have of a machine's memory."""
    return total - min(max(total // 20, _LEAST_KEPT), _MOST_KEPT, total // 2)


def _folders(parent: Path) -> list[Path]:
    return [entry for entry in parent.iterdir() if entry.is_dir()]


def remove(paths: Sequence[str]) -> None:
    """Remove the groups of a container that has ended."""
    for path in paths:
        with suppress(FileNotFoundError):
            os.rmdir(path)
