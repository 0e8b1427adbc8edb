"""What a machine's cloud announces about it, written onto its Node for everybody to see.

The condition says that the machine will be taken, and until when it is there. Where the writer may,
a taint says so too: a node's own credentials may not (it could draw pods to itself), those of
``corral notices`` may, and for machines of ours their controller does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final, cast

from corral.api.spot import CLOUD_LABEL, PREEMPTION_CONDITION, PREEMPTION_TAINT
from corral.kube.client import KubeClient
from corral.kube.errors import ApiError, Conflict
from corral.kube.resources import NODES
from corral.kube.transport import KubeConnectionError
from corral.kube.types import Obj
from corral.runtime.keys import format_time, version_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from corral.clouds.base import Notice

__all__ = ["cloud_of", "condition_of", "relay"]

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


def condition_of(notice: Notice, deadline: float) -> Obj:
    """The condition; the last word of its message is the deadline."""
    now = format_time(notice.seen)
    return {
        "type": PREEMPTION_CONDITION,
        "status": "True",
        "reason": str(notice.kind),
        "message": f"the machine will be taken at {format_time(deadline)}",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }


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
            if notice.deadline is not None:
                await _write(client, node, notice, notice.deadline, taint=taint, wall=wall)


async def _write(
    client: KubeClient,
    node: str,
    notice: Notice,
    deadline: float,
    *,
    taint: bool,
    wall: Callable[[], float],
) -> None:
    """Again and again, until it is written or too late."""
    while True:
        try:
            await client.patch(
                NODES,
                node,
                patch={"status": {"conditions": [condition_of(notice, deadline)]}},
                kind="strategic",
                subresource="status",
            )
            if taint:
                await _taint(client, node, deadline)
            return
        except Conflict:
            continue
        except (ApiError, KubeConnectionError) as error:
            logger.warning("the end of %s could not be announced: %s", node, error)
            if wall() > deadline:
                return
        await asyncio.sleep(_PAUSE)


async def _taint(client: KubeClient, name: str, deadline: float) -> None:
    """Keep new pods away. Raises Conflict when the Node has changed meanwhile."""
    node = await client.get(NODES, name)
    taints = (node.get("spec") or {}).get("taints") or []
    ours = {"key": PREEMPTION_TAINT, "value": f"{deadline:.0f}", "effect": "NoSchedule"}
    others = [each for each in taints if each.get("key") != PREEMPTION_TAINT]
    patch = {
        "metadata": {"resourceVersion": version_of(node)},
        "spec": {"taints": [*others, ours]},
    }
    await client.patch(NODES, name, patch=patch)
