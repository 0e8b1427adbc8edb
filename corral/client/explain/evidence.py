"""What an explanation rests on: the job, its pods and events, their nodes, and the operator.

What the caller may not read is left out: an explanation is given with what can be seen. Only the
job itself must be there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from corral.client.errors import Forbidden, JobError, NotFound
from corral.client.explain.podstates import PodSummary, pod_summary
from corral.client.kinds import JobKind
from corral.client.phases import condition, section, text
from corral.client.times import parse_time
from corral.client.translate import ApiRequest, translating
from corral.kube.resources import LEASES, NODES
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client.jobs import Jobs

__all__ = ["Evidence", "OperatorState", "gathered"]

OperatorState = Literal["running", "away", "unknown"]
_T = TypeVar("_T")
_OPERATOR: Final = ("corral-system", "corral-operator")
"""Namespace and name of the lease that the operator renews while it works."""
_MAX_NODES: Final = 20
_SLACK_SECONDS: Final = 30.0
"""Clocks differ, and a busy operator renews late."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was seen about one job."""

    kind: JobKind
    job: Obj
    pods: tuple[PodSummary, ...] = ()
    events: tuple[Obj, ...] = ()
    lost_nodes: dict[str, str] = field(default_factory=dict)
    """By name: why a node that pods are on is no longer one."""
    operator: OperatorState = "unknown"
    unread: tuple[str, ...] = ()
    """What could not be read, and why."""
    now: datetime | None = None


async def gathered(
    jobs: Jobs, kind: JobKind, namespace: str, name: str, *, now: datetime
) -> Evidence:
    """See what there is to see.

    Raises:
        NotFound, NotInstalled, Forbidden, …: the job itself cannot be read.
    """
    job = await jobs.get(kind, namespace, name)
    unread: list[str] = []
    pods = await _read(jobs.pods(kind, job), [], unread)
    states = tuple(pod_summary(kind, pod) for pod in pods)
    events, lost, operator = await asyncio.gather(
        _read(jobs.events_of(kind, job, pods), [], unread),
        _lost_nodes(jobs, states),
        _operator(jobs, now),
    )
    return Evidence(
        kind, job, states, tuple(events), lost, operator, tuple(dict.fromkeys(unread)), now
    )


async def _read(asked: Awaitable[_T], otherwise: _T, unread: list[str]) -> _T:
    try:
        return await asked
    except JobError as error:
        unread.append(error.message)
        return otherwise


async def _lost_nodes(jobs: Jobs, pods: Sequence[PodSummary]) -> dict[str, str]:
    living = [pod for pod in pods if pod.phase in ("Pending", "Running", "Unknown")]
    names = list(dict.fromkeys(pod.node for pod in living if pod.node))[:_MAX_NODES]
    states = await asyncio.gather(*(_node_trouble(jobs, name) for name in names))
    return {name: state for name, state in zip(names, states, strict=True) if state}


async def _node_trouble(jobs: Jobs, name: str) -> str:
    try:
        with translating(ApiRequest("get", NODES, name=name)):
            node = await jobs.client.get(NODES, name)
    except NotFound:
        return "is gone"
    except JobError:
        return ""  # not everybody may read nodes
    ready = condition(node, "Ready") or {}
    if ready.get("status") in ("True", None):
        return ""
    return "does not answer" if ready.get("status") == "Unknown" else "is not ready"


async def _operator(jobs: Jobs, now: datetime) -> OperatorState:
    """Whether somebody has renewed the operator's lease lately."""
    namespace, name = _OPERATOR
    try:
        with translating(ApiRequest("get", LEASES, namespace, name)):
            lease = await jobs.client.get(LEASES, name, namespace=namespace)
    except Forbidden:
        return "unknown"
    except NotFound:
        # An operator that needs no leader has no lease: only its work can tell.
        return "unknown"
    except JobError:
        return "unknown"
    spec = section(lease, "spec")
    renewed, seconds = parse_time(spec.get("renewTime")), spec.get("leaseDurationSeconds")
    if renewed is None or not text(spec.get("holderIdentity")):
        return "away"
    patience = (seconds if isinstance(seconds, int) else 15) + _SLACK_SECONDS
    return "running" if (now - renewed).total_seconds() < patience else "away"
