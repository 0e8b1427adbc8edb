from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.resources import (
    Gpu,
    GpuPool,
    NoDevice,
    Usage,
    device_environment,
    discover_gpus,
    gpu_labels,
    node_capacity,
    usage_of,
)


async def test_usage_of_processes(run: Callable[..., Any]) -> None:
    code = (
        "import time, sys\nblock = b'x' * (64 << 20)\nend = time.process_time() + 0.2\n"
        "while time.process_time() < end: pass\nprint('done', flush=True); time.sleep(600)"
    )
    container = await run(code)
    streams = await container.attach()
    await streams.read()
    await streams.close()
    usage = usage_of(container.state.shim)
    assert 0.15 <= usage.cpu_seconds < 30
    assert 64 << 20 <= usage.memory_bytes < 200 << 20


def test_usage_of_groups(tmp_path: Path) -> None:
    two = tmp_path / "v2"
    two.mkdir()
    (two / "cpu.stat").write_text("usage_usec 1500000\nuser_usec 1\n")
    (two / "memory.current").write_text("1000\n")
    (two / "memory.stat").write_text("inactive_file 300\n")
    assert usage_of(0, cgroups=[str(two)]) == Usage(1.5, 700)
    cpu, memory = tmp_path / "cpuacct", tmp_path / "memory"
    cpu.mkdir()
    memory.mkdir()
    (cpu / "cpuacct.usage").write_text("2500000000\n")
    (memory / "memory.usage_in_bytes").write_text("5000\n")
    (memory / "memory.stat").write_text("total_inactive_file 1000\ninactive_file 1\n")
    assert usage_of(0, cgroups=[str(cpu), str(memory)]) == Usage(2.5, 4000)


def test_capacity(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal:  1024 kB\nMemFree: 1 kB\n")
    found = node_capacity(tmp_path, gpus=[Gpu("0")], root=tmp_path)
    assert found["memory"] == "1024Ki" and found["nvidia.com/gpu"] == "1" and found["pods"] == "250"
    assert found["cpu"] == str(len(os.sched_getaffinity(0)))
    assert "nvidia.com/gpu" not in node_capacity(tmp_path)


def smi(tmp_path: Path, body: str) -> str:
    path = tmp_path / "smi"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_discovery(tmp_path: Path) -> None:
    answer = "echo '0, NVIDIA H200, 143771'; echo '1, NVIDIA H200, [N/A]'"
    found = discover_gpus(smi=smi(tmp_path, answer))
    assert found == [Gpu("0", "NVIDIA H200", 143771), Gpu("1", "NVIDIA H200", 0)]
    assert gpu_labels(found) == {
        "nvidia.com/gpu.present": "true", "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.product": "NVIDIA-H200", "nvidia.com/gpu.memory": "143771",
    }  # fmt: skip
    for name in ("nvidia0", "nvidiactl", "nvidia-uvm"):
        (tmp_path / name).touch()
    assert discover_gpus(smi=smi(tmp_path, "exit 9"), devices=tmp_path) == [Gpu("0")]
    assert discover_gpus(smi=str(tmp_path / "none"), devices=tmp_path / "none") == []
    assert gpu_labels([]) == {}


def test_devices_are_exclusive() -> None:
    pool = GpuPool([Gpu("0"), Gpu("1"), Gpu("2")])
    assert pool.assign("a", 1) == ("0",) and pool.assign("a", 1) == ("0",)
    pool.restore("old", ["1"])
    with pytest.raises(NoDevice, match="2 GPUs are asked for and 1 are free"):
        pool.assign("b", 2)
    pool.release("a")
    pool.release("a")
    assert pool.assign("b", 2) == ("0", "2") and pool.free == []


def test_device_environment() -> None:
    assert device_environment(["0", "2"], machine_has_gpus=True)["CUDA_VISIBLE_DEVICES"] == "0,2"
    hidden = device_environment([], machine_has_gpus=True)
    assert hidden == {"CUDA_VISIBLE_DEVICES": "", "NVIDIA_VISIBLE_DEVICES": "void"}
    assert device_environment([], machine_has_gpus=False) == {}
