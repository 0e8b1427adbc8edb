"""Removes pods from nodes with NoExecute taints when they no longer tolerate them.

Only pods of tainted nodes are looked at. Times run in this process: after a restart they begin
anew, so a pod never leaves early.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Final

from corral.cluster.workloads.nodehealth.conditions import disruption_patch
from corral.cluster.workloads.nodehealth.evictions import Evictions
from corral.cluster.workloads.nodehealth.index import POD_NODE_INDEX
from corral.cluster.workloads.nodehealth.taints import no_execute_taints
from corral.cluster.workloads.nodehealth.writes import Writes
from corral.cluster.workloads.pods import is_deleting
from corral.kube.types import Obj
from corral.runtime import Change, EventRecorder, Informer, Result, format_time

__all__ = ["TaintEviction"]

REASON: Final = "DeletionByTaintManager"
MESSAGE: Final = "Taint manager: deleting due to NoExecute taint"
EVENT: Final = "TaintManagerEviction"


class TaintEviction:
    """The reconciler, by key of a pod."""

    def __init__(
        self,
        writes: Writes,
        recorder: EventRecorder,
        *,
        nodes: Informer,
        pods: Informer,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._writes = writes
        self._recorder = recorder
        self._nodes, self._pods = nodes, pods
        self._clock, self._wall = clock, wall
        self._evictions = Evictions()

    # --- which changes matter --------------------------------------------------------------------

    def concerns_pod(self, change: Change) -> bool:
        """A pod came to a tainted node, changed its mind there, or left."""
        if change.new is None:
            self._evictions.cancel(change.key)
            return False
        return bool(self._taints(change.new)) and (
            change.old is None or _stand(change.old) != _stand(change.new)
        )

    @staticmethod
    def concerns_node(change: Change) -> bool:
        """Its NoExecute taints changed."""
        if change.new is None:
            return False  # pods of nodes that are gone are not ours
        before = no_execute_taints(change.old) if change.old is not None else []
        return before != no_execute_taints(change.new)

    def pods_of(self, change: Change) -> Iterable[str]:
        name = change.object["metadata"]["name"]
        return self._pods.store.keys_by_index(POD_NODE_INDEX, name)

    # --- deciding --------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> Result | None:
        pod = self._pods.store.get(key)
        if pod is None or is_deleting(pod):
            self._evictions.cancel(key)
            return None
        due = self._evictions.due_in(pod, self._taints(pod), self._clock())
        if due is None:
            if self._evictions.cancel(key):
                self._recorder.normal(pod, EVENT, f"Cancelling deletion of Pod {key}")
            return None
        if due > 0:
            return Result(requeue_after=due)
        await self._remove(pod, key)
        return None

    async def _remove(self, pod: Obj, key: str) -> None:
        now = format_time(self._wall())
        patch = disruption_patch(pod, reason=REASON, message=MESSAGE, now=now)
        if patch is None or await self._writes.pod_status(pod, patch):
            if await self._writes.delete_pod(pod):
                self._recorder.normal(pod, EVENT, f"Marking for deletion Pod {key}")
        self._evictions.cancel(key)

    def _taints(self, pod: Obj) -> list[Obj]:
        name = (pod.get("spec") or {}).get("nodeName")
        node = self._nodes.store.get(name) if name else None
        return no_execute_taints(node) if node is not None else []


def _stand(pod: Obj) -> tuple[object, ...]:
    """What decides about a pod, beside its node."""
    spec = pod.get("spec") or {}
    return spec.get("nodeName"), spec.get("tolerations"), is_deleting(pod)
