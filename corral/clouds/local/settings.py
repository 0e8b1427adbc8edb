"""How a local cloud is set up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.clouds.base import Hazard, Price, VmRequest

__all__ = ["LocalSettings", "node_command"]


def node_command(*options: str) -> tuple[str, ...]:
    """How a node agent is started for a VM, with a kubeconfig from the VM's files."""
    start = (sys.executable, "-m", "corral.cli.main", "node", "--name", "{name}")
    folders = ("--data-dir", "{data}", "--kubeconfig", "{folder}/kubeconfig")
    return (*start, *folders, "--gpus", "{folder}/gpus.json", *options)


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSettings:
    """How the cloud that is pretended on this machine behaves."""

    folder: Path
    command: Sequence[str] = field(default_factory=node_command)
    """With {name}, {folder} and {data} of the VM."""
    files: Callable[[VmRequest], Mapping[str, str]] = lambda request: {}
    """Put into the VM's folder before it starts, readable by its owner only: a kubeconfig, say."""
    environment: Mapping[str, str] = field(default_factory=dict)
    devices: Sequence[Mapping[str, Any]] | None = None
    """GPUs of this machine (index, model, memory_mib), each for one VM at a time.

    None: VMs that ask for GPUs are given pretended ones.
    """
    capacity: Mapping[str, int] = field(default_factory=dict)
    """How many VMs there can be in a zone; a zone that is not named has no limit."""
    quota: int | None = None
    """How many VMs there can be in all."""
    label_quota: tuple[str, int] | None = None
    """A label, and how many VMs there can be with the same value of it."""
    most_gpus: int = 16
    """How many pretended GPUs a VM may have."""
    notice_s: float = 30.0
    """How long before its end a VM is told."""
    stop_grace_s: float = 10.0
    """How long a node agent that is told to stop may take."""
    prices: Sequence[Price] = ()
    hazards: Sequence[Hazard] = ()
    look_s: float = 0.2
    """Between two looks for notices."""
