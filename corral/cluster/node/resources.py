"""What containers use, what the node has, and who has which GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.cluster.node.shim.tasks import descendants

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
GPU: Final = "nvidia.com/gpu"


@dataclass(frozen=True, slots=True)
class Usage:
    """Of one container, now: CPU seconds since it started, and bytes it cannot do without."""

    cpu_seconds: float
    memory_bytes: int


def usage_of(shim: int, *, cgroups: Sequence[str] = ()) -> Usage:
    """By control group where there is one, else the sum over the processes below the shim.

    The sum counts shared pages by their share where the kernel tells it, and CPU of children that
    have ended once their parent has waited for them.
    """
    if found := _from_groups(cgroups):
        return found
    cpu, memory = 0.0, 0
    for pid in descendants(shim):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # ended while we looked
        # user, system, and both again for children that were waited for
        cpu += sum(int(fields[index]) for index in (11, 12, 13, 14)) / _TICKS
        memory += _proportional(pid) or int(fields[21]) * _PAGE
    return Usage(cpu, memory)


def _proportional(pid: int) -> int:
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        return 0
    return 0


def _from_groups(groups: Sequence[str]) -> Usage | None:
    cpu: float | None = None
    memory: int | None = None
    for group in map(Path, groups):
        if stat := _fields(group / "cpu.stat"):
            cpu = stat["usage_usec"] / 1e6 if "usage_usec" in stat else cpu
        if (text := _text(group / "cpuacct.usage")) is not None:
            cpu = int(text) / 1e9
        used = _text(group / "memory.current") or _text(group / "memory.usage_in_bytes")
        if used is not None:
            fields = _fields(group / "memory.stat")
            idle = fields.get("total_inactive_file", fields.get("inactive_file", 0))
            memory = max(int(used) - idle, 0)
    return Usage(cpu, memory) if cpu is not None and memory is not None else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None


def _fields(path: Path) -> dict[str, int]:
    lines = (line.split() for line in (_text(path) or "").splitlines())
    return {fields[0]: int(fields[1]) for fields in lines if len(fields) == 2}


# -- the node --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Gpu:
    """One device."""

    index: str
    """What CUDA_VISIBLE_DEVICES calls it."""
    model: str = ""
    memory_mib: int = 0


def node_capacity(
    folder: Path, *, gpus: Sequence[Gpu] = (), pods: int = 250, root: Path = Path("/")
) -> dict[str, str]:
    """As a Node reports it; ``folder`` is where the pods' files lie."""
    capacity = {
        "cpu": str(len(os.sched_getaffinity(0))),
        "memory": f"{_memory_kib(root)}Ki",
        "ephemeral-storage": f"{shutil.disk_usage(folder).total // 1024}Ki",
        "pods": str(pods),
    }
    if gpus:
        capacity[GPU] = str(len(gpus))
    return capacity


def _memory_kib(root: Path) -> int:
    for line in (root / "proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1])
    return 0


def discover_gpus(*, smi: str = "nvidia-smi", devices: Path = Path("/dev")) -> list[Gpu]:
    """The NVIDIA GPUs of this machine, by nvidia-smi or by their device files."""
    query = [smi, "--query-gpu=index,name,memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(query, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        names = sorted(path.name for path in devices.glob("nvidia[0-9]*"))
        return [Gpu(name.removeprefix("nvidia")) for name in names]
    found: list[Gpu] = []
    for line in answer.stdout.splitlines():
        index, model, memory = (field.strip() for field in line.split(","))
        found.append(Gpu(index, model, int(memory) if memory.isdigit() else 0))
    return found


def device_files(indexes: Sequence[str], *, devices: Path = Path("/dev")) -> list[str]:
    """The files of NVIDIA GPUs, with those that all of them need; none for no GPU."""
    if not indexes:
        return []
    names = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
    own = [f"nvidia{index}" for index in indexes if index.isdigit()]
    if len(own) < len(indexes):  # by other names, such as parts of a GPU
        own = sorted(path.name for path in devices.glob("nvidia[0-9]*"))
    return [str(devices / name) for name in (*names, *own) if (devices / name).exists()]


def gpu_labels(gpus: Sequence[Gpu]) -> dict[str, str]:
    """Node labels as NVIDIA's own discovery writes them; they speak of the first device."""
    if not gpus:
        return {}
    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": str(len(gpus))}
    if gpus[0].model:
        labels["nvidia.com/gpu.product"] = gpus[0].model.replace(" ", "-")
    if gpus[0].memory_mib:
        labels["nvidia.com/gpu.memory"] = str(gpus[0].memory_mib)
    return labels


class NoDevice(Exception):
    """More devices were asked for than are free."""


class GpuPool:
    """Which container has which device. A device is never given twice."""

    def __init__(self, gpus: Iterable[Gpu]) -> None:
        self._gpus = tuple(gpus)
        self._held: dict[str, tuple[str, ...]] = {}

    @property
    def any(self) -> bool:
        """Whether the node has devices at all."""
        return bool(self._gpus)

    @property
    def free(self) -> list[str]:
        taken = {index for held in self._held.values() for index in held}
        return [gpu.index for gpu in self._gpus if gpu.index not in taken]

    def assign(self, owner: str, count: int) -> tuple[str, ...]:
        """Devices for a container; the same ones when it is asked again. Raises NoDevice."""
        if owner in self._held:
            return self._held[owner]
        free = self.free
        if count > len(free):
            raise NoDevice(f"{count} GPUs are asked for and {len(free)} are free")
        self._held[owner] = tuple(free[:count])
        return self._held[owner]

    def restore(self, owner: str, devices: Iterable[str]) -> None:
        """Note what an earlier agent gave to a container that still runs."""
        self._held[owner] = tuple(devices)

    def release(self, owner: str) -> None:
        self._held.pop(owner, None)


def device_environment(devices: Sequence[str], *, machine_has_gpus: bool) -> Mapping[str, str]:
    """What a container may see: its own devices; none, where there are some that are not its."""
    if not devices and not machine_has_gpus:
        return {}
    shown = ",".join(devices)
    return {"CUDA_VISIBLE_DEVICES": shown, "NVIDIA_VISIBLE_DEVICES": shown or "void"}
