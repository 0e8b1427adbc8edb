"""What the workers of a node share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from corral.cluster.node.config import AgentConfig
from corral.cluster.node.container.launcher import Launcher
from corral.cluster.node.layout import Layout
from corral.cluster.node.network import PodNetwork
from corral.cluster.node.pulling.puller import Puller
from corral.cluster.node.sweeper import Sweeper
from corral.cluster.node.volumes.claims import Claims
from corral.cluster.node.volumes.object_sources import ObjectSources
from corral.kube.client import KubeClient
from corral.runtime import EventRecorder

__all__ = ["NodeParts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeParts:
    """One of each."""

    config: AgentConfig
    layout: Layout
    client: KubeClient
    network: PodNetwork
    launcher: Launcher
    objects: ObjectSources
    claims: Claims
    puller: Puller
    recorder: EventRecorder
    sweeper: Sweeper
    turns: asyncio.Semaphore
    """For requests about single pods: a burst of pods shall not open a burst of connections."""
    allocatable: Mapping[str, str]
    clock: Callable[[], float] = time.time
