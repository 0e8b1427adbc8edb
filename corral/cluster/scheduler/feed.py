"""From the watches into the scheduler's state and queue.

Every handler first tells the state, then the queue what happened, so that a pod which is woken by
an event finds the state that goes with it. Pods of other schedulers count where they run; while
they have no node they are nobody's business here.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.cluster.scheduler.gangs import Gangs
from corral.cluster.scheduler.placement import (
    ClusterState,
    GroupEvent,
    NodeEvent,
    PodEvent,
    SchedulingQueue,
    StorageEvent,
    is_terminal,
    pod_key,
)
from corral.kube.types import Obj
from corral.runtime import Change, key_of

__all__ = ["Feed"]


class Feed:
    """The informers' handlers."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        gangs: Gangs,
        *,
        scheduler_name: str,
        wake: Callable[[], None],
        leaving: Callable[[str], None],
        gone: Callable[[str], None],
        claim_changed: Callable[[str], None],
    ) -> None:
        """The callbacks.

        ``wake``: there may be work. ``leaving``: a pod is being deleted or has ended. ``gone``:
        there is nothing more to say to a pod that waited. ``claim_changed``: as it says.
        """
        self._state = state
        self._queue = queue
        self._gangs = gangs
        self._name = scheduler_name
        self._wake = wake
        self._leaving = leaving
        self._gone = gone
        self._claim_changed = claim_changed

    # Pods

    def pod(self, change: Change) -> None:
        pod = change.object
        spec = pod["spec"]
        placed = bool(spec.get("nodeName"))
        if spec.get("schedulerName") == self._name:
            self._gangs.set_pod(pod, gone=change.new is None)
        elif not placed:
            return
        if change.new is None or is_terminal(pod):
            self._pod_ended(pod)
        elif placed:
            self._pod_placed(pod)
        elif pod["metadata"].get("deletionTimestamp"):
            self._pod_ended(pod)
        else:
            self._state.set_pod(pod)
            self._queue.set(pod)
            self._wake()

    def _pod_placed(self, pod: Obj) -> None:
        before = self._state.known(pod)
        self._state.set_pod(pod)
        after = self._state.info(pod)
        if before is None or not before.node_name:
            self._queue.remove(after)
            self._gone(after.key)
        if after.deleting:
            self._leaving(after.key)
        if self._queue.listening:
            self._notify_pod(PodEvent.of(before, after))

    def _pod_ended(self, pod: Obj) -> None:
        key = pod_key(pod)
        self._leaving(key)
        known = self._state.known(key)
        if known is None:
            return
        self._state.remove_pod(known)
        self._queue.remove(known)
        self._gone(key)
        self._notify_pod(PodEvent.of(known, None))

    def _notify_pod(self, event: PodEvent) -> None:
        if event.action and self._queue.notify(event):
            self._wake()

    # Nodes

    def node(self, change: Change) -> None:
        if change.new is None:
            self._state.remove_node(change.object["metadata"]["name"])
        else:
            self._state.set_node(change.new)
        if self._queue.listening:
            event = NodeEvent.of(change.old, change.new)
            if event.action and self._queue.notify(event):
                self._wake()

    # What affinity, spreading and volumes look up

    def namespace(self, change: Change) -> None:
        meta = change.object["metadata"]
        if change.new is None:
            self._state.remove_namespace(meta["name"])
        else:
            self._state.set_namespace(meta["name"], meta.get("labels"))

    def service(self, change: Change) -> None:
        meta = change.object["metadata"]
        if change.new is None:
            self._state.remove_service(meta.get("namespace") or "", meta["name"])
        else:
            self._state.set_service(change.new)

    def owner(self, kind: str) -> Callable[[Change], None]:
        """The handler for ReplicaSets and the like, whose lists do not name their kind."""

        def handle(change: Change) -> None:
            meta = change.object["metadata"]
            if change.new is None:
                self._state.remove_owner(kind, meta.get("namespace") or "", meta["name"])
            else:
                self._state.set_owner({**change.new, "kind": kind})

        return handle

    def claim(self, change: Change) -> None:
        meta, key = change.object["metadata"], key_of(change.object)
        if change.new is None:
            self._state.storage.remove_claim(key)
        else:
            self._state.storage.set_claim(change.new)
            self._notify_storage(StorageEvent(meta.get("namespace") or "", meta["name"]))
        self._claim_changed(key)

    def volume(self, change: Change) -> None:
        if change.new is None:
            self._state.storage.remove_volume(change.object["metadata"]["name"])
        else:
            self._state.storage.set_volume(change.new)
            self._notify_storage(StorageEvent())

    def storage_class(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.new is None:
            self._state.storage.classes.pop(name, None)
        else:
            self._state.storage.classes[name] = change.new
            self._notify_storage(StorageEvent())

    def _notify_storage(self, event: StorageEvent) -> None:
        if self._queue.listening and self._queue.notify(event):
            self._wake()

    # PodGroups

    def group(self, change: Change) -> None:
        self._gangs.set_group(change.object, gone=change.new is None)
        if change.new is not None:
            event = GroupEvent.of(change.old, change.new)
            if event.action and self._queue.notify(event):
                self._wake()
