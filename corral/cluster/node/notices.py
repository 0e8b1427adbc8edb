"""What a machine's cloud announces about it, written onto its Node for everybody to see.

The condition says that the machine will be taken, and until when it is there; another one that it
is more likely than others to be taken. Where the writer may, a taint says so too: a node's own
credentials may not (it could draw pods to itself), those of ``corral notices`` may, and for
machines of ours that will be taken their controller does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from corral.api.spot.kinds import (
    CLOUD_LABEL,
    PREEMPTION_CONDITION,
    PREEMPTION_TAINT,
    RISK_CONDITION,
    RISK_TAINT,
)
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, Conflict
from corral.kube.resources import NODES
from corral.kube.types import Obj
from corral.runtime.keys import format_time, version_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from corral.clouds.base import Notice

__all__ = ["cloud_of", "condition_of", "relay", "taint_of"]

logger = logging.getLogger(__name__)

_PAUSE: Final = 0.2
"""Between two tries to write: there is not much time."""
_CLOUDS: Final = {"gce": "gcp", "aws": "aws", "azure": "azure"}


def cloud_of(node: Obj) -> str:
    """The cloud that a Node is of, by our label or its providerID; empty: none that we know."""
    if ours := (node["metadata"].get("labels") or {}).get(CLOUD_LABEL):
        return str(ours)
    scheme = str((node.get("spec") or {}).get("providerID") or "").partition("://")[0]
    return _CLOUDS.get(scheme, "")


def condition_of(notice: Notice) -> Obj | None:
    """The condition; none where the notice is of no consequence.

    Where there is a deadline, it is the last word of the message.
    """
    from corral.clouds.base import NoticeKind

    if notice.deadline is not None:
        kind = PREEMPTION_CONDITION
        message = f"the machine will be taken at {format_time(notice.deadline)}"
    elif notice.kind is NoticeKind.REBALANCE:
        kind = RISK_CONDITION
        message = "the machine is more likely than others to be taken"
    else:
        return None
    now = format_time(notice.seen)
    return {
        "type": kind,
        "status": "True",
        "reason": str(notice.kind),
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


def taint_of(notice: Notice) -> Obj:
    """What keeps new pods away."""
    if notice.deadline is None:
        return {"key": RISK_TAINT, "effect": "PreferNoSchedule"}
    return {"key": PREEMPTION_TAINT, "value": f"{notice.deadline:.0f}", "effect": "NoSchedule"}


async def relay(
    client: KubeClient,
    node: str,
    *,
    cloud: str,
    endpoint: str = "",
    taint: bool = False,
    wall: Callable[[], float] = time.time,
) -> None:
    """Write down what the machine is told, for as long as it is there. Raises BadRequest."""
    from corral.clouds.notices import notices

    stream = cast("AsyncGenerator[Notice, None]", notices(cloud, endpoint, vm=node))
    async with aclosing(stream) as told:
        async for notice in told:
            logger.warning("%s: %s %s", node, notice.kind, notice.text)
            if condition := condition_of(notice):
                await _write(client, node, notice, condition, taint=taint, wall=wall)


async def _write(
    client: KubeClient,
    node: str,
    notice: Notice,
    condition: Obj,
    *,
    taint: bool,
    wall: Callable[[], float],
) -> None:
    """Again and again, until it is written or too late; news of a risk are written or not."""
    while True:
        try:
            await client.patch(
                NODES,
                node,
                patch={"status": {"conditions": [condition]}},
                kind="strategic",
                subresource="status",
            )
            if taint:
                await _taint(client, node, taint_of(notice))
            return
        except Conflict:
            continue
        except (ApiError, KubeConnectionError) as error:
            logger.warning("%s of %s could not be announced: %s", notice.kind, node, error)
            if notice.deadline is None or wall() > notice.deadline:
                return
        await asyncio.sleep(_PAUSE)


async def _taint(client: KubeClient, name: str, ours: Obj) -> None:
    """Keep new pods away. Raises Conflict when the Node has changed meanwhile."""
    node = await client.get(NODES, name)
    taints = (node.get("spec") or {}).get("taints") or []
    others = [each for each in taints if each.get("key") != ours["key"]]
    patch = {
        "metadata": {"resourceVersion": version_of(node)},
        "spec": {"taints": [*others, ours]},
    }
    await client.patch(NODES, name, patch=patch)
