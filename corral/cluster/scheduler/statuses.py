"""What pods are told about their scheduling: the PodScheduled condition and the nominated node.

A pod is written to only when it is told something new, and the event that says the same to people
is recorded only then. Of several things to say about a pod only the last is written. No write
about waiting comes after the pod was bound: ``settle`` sees to that.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from corral.cluster.scheduler.placement import PodInfo
from corral.cluster.scheduler.workers import Workers
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, Conflict, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import EventRecorder, find_condition, format_time

__all__ = ["PodStatuses", "condition_patch", "shortened"]

logger = logging.getLogger(__name__)

_LONGEST = 1024
"""Characters that the message of an event may have."""


@dataclass(frozen=True, slots=True)
class _Said:
    reason: str
    message: str
    nominated: str


class PodStatuses:
    """Writes the status of pods that wait for a node."""

    def __init__(
        self,
        client: KubeClient,
        recorder: EventRecorder,
        workers: Workers,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._workers = workers
        self._wall = wall
        self._said: dict[str, _Said] = {}
        """What each pod was last told, for its own cache may not show it yet."""
        self._nominated: set[str] = set()
        """Pods that were told of a node where room is made, seen in their cache or not."""
        self._pending: dict[str, tuple[PodInfo, _Said]] = {}
        self._writing: dict[str, asyncio.Event] = {}

    def unschedulable(
        self,
        pod: PodInfo,
        message: str,
        *,
        reason: str = "Unschedulable",
        nominated: str | None = None,
    ) -> bool:
        """Tell a pod why it has no node; whether that is news.

        ``nominated`` is the node where room is being made for it, empty to withdraw that; None
        leaves it as it is.
        """
        known = self._said.get(pod.key) or _told(pod)
        said = _Said(reason, message, known.nominated if nominated is None else nominated)
        if said == known:
            return False
        if (said.reason, said.message) != (known.reason, known.message):
            self._recorder.warning(pod.pod, "FailedScheduling", shortened(message))
        self._say(pod, said)
        return True

    def withdraw_nomination(self, pod: PodInfo) -> None:
        """Tell a pod that no room is being made for it any more."""
        known = self._said.get(pod.key) or _told(pod)
        if known.nominated:
            self._say(pod, _Said(known.reason, known.message, ""))

    def forget(self, key: str) -> None:
        """The pod has a node or is gone: nothing more to say."""
        self._said.pop(key, None)
        self._nominated.discard(key)
        self._pending.pop(key, None)

    async def settle(self, key: str) -> None:
        """Say no more about a pod, and wait for what is being said."""
        self.forget(key)
        if (writing := self._writing.get(key)) is not None:
            await writing.wait()

    def _say(self, pod: PodInfo, said: _Said) -> None:
        self._said[pod.key] = said
        waiting = pod.key in self._pending
        self._pending[pod.key] = (pod, said)
        if not waiting:
            self._workers.submit(lambda: self._write(pod.key))

    async def _write(self, key: str) -> None:
        if (earlier := self._writing.get(key)) is not None:
            await earlier.wait()
        pending = self._pending.pop(key, None)
        if pending is None:
            return
        done = self._writing[key] = asyncio.Event()
        try:
            await self._patch(*pending)
        except (NotFound, Conflict):
            self._said.pop(key, None)  # gone, or another pod of this name
        except (ApiError, KubeConnectionError) as error:
            # Unsaid, so that the next attempt says it again.
            self._said.pop(key, None)
            logger.warning("the status of pod %s was not written: %s", pending[0].full_name, error)
        finally:
            del self._writing[key]
            done.set()

    async def _patch(self, pod: PodInfo, said: _Said) -> None:
        patch = condition_patch(
            pod.pod,
            type="PodScheduled",
            status="False",
            reason=said.reason,
            message=said.message,
            now=format_time(self._wall()),
        )
        if said.nominated != pod.nominated or pod.key in self._nominated:
            patch["status"]["nominatedNodeName"] = said.nominated or None
        if said.nominated:
            self._nominated.add(pod.key)
        await self._client.patch(
            PODS,
            pod.name,
            namespace=pod.namespace,
            patch=patch,
            kind="strategic",
            subresource="status",
        )


def condition_patch(
    pod: Obj, *, type: str, status: str, reason: str, message: str, now: str
) -> Obj:
    """A strategic patch that sets one condition of this very pod."""
    known = find_condition((pod.get("status") or {}).get("conditions"), type)
    changed = known is None or known.get("status") != status
    condition: Obj = {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now if changed or known is None else known["lastTransitionTime"],
    }
    if generation := pod["metadata"].get("generation"):
        condition["observedGeneration"] = generation
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": {"conditions": [condition]}}


def shortened(message: str) -> str:
    """A message as long as an event may have."""
    return message if len(message) <= _LONGEST else f"{message[: _LONGEST - 4]} ..."


def _told(pod: PodInfo) -> _Said:
    """What the pod's status says now."""
    status = pod.pod.get("status") or {}
    condition = find_condition(status.get("conditions"), "PodScheduled") or {}
    return _Said(condition.get("reason") or "", condition.get("message") or "", pod.nominated)
