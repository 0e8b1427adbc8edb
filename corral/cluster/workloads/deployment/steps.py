"""The steps a pass over a deployment asks for (see also `corral.cluster.workloads.steps`).

A step that fails ends the pass; the deployment is synced again later. Events are emitted by the
driver after the step that carries them has succeeded.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from corral.cluster.workloads.steps import Answer, Emit, Event, Verdict
from corral.kube.types import Obj

__all__ = [
    "CreateSet",
    "DeleteSet",
    "Pass",
    "Step",
    "UpdateDeployment",
    "UpdateSet",
    "WriteStatus",
]


@dataclass(frozen=True, slots=True)
class CreateSet:
    """Create this replica set; if the name is taken, answer with its owner and ``existed``."""

    body: Obj
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateSet:
    """Replace this replica set; answer with the stored one."""

    body: Obj
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class DeleteSet:
    """Delete this replica set; one that is gone counts as deleted."""

    replica_set: Obj


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Replace the deployment at its status subresource (which takes annotations along)."""

    deployment: Obj


@dataclass(frozen=True, slots=True)
class UpdateDeployment:
    """Replace the deployment itself."""

    deployment: Obj
    events: tuple[Event, ...] = ()


Step: TypeAlias = CreateSet | UpdateSet | DeleteSet | WriteStatus | UpdateDeployment | Emit

Pass: TypeAlias = Generator[Step, Answer, Verdict]
