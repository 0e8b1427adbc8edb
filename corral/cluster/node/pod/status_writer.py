"""Writes the status of one pod: only what changed, one write at a time, the newest state last.

What somebody may wait for (a new phase, readiness, a container's state) is written at once; the
rest may wait a moment, so that a pod that starts quickly costs one write. While the server cannot
be reached the write is tried again until the pod is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from corral.cluster.node.pod.statuses import OWNED
from corral.kube.client import KubeClient
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, Conflict, Invalid, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj

__all__ = ["StatusWriter", "status_patch"]

logger = logging.getLogger(__name__)

DELAY: Final = 3.0
"""Seconds that an unimportant change waits for company."""
_RETRY: Final = (0.2, 10.0)
_PLAIN: Final = (
    "phase", "reason", "message", "hostIP", "podIP", "startTime", "qosClass", "observedGeneration",
    "initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses",
)  # fmt: skip
_BY_ADDRESS: Final = ("hostIPs", "podIPs")


def status_patch(old: Obj, new: Obj) -> Obj:
    """The strategic merge patch of a pod's status, of the fields that a node writes."""
    patch: Obj = {}
    for name in _PLAIN:
        if old.get(name) != new.get(name):
            patch[name] = new.get(name)
    for name in _BY_ADDRESS:
        if old.get(name) != new.get(name):
            # merged by address otherwise, and the old ones would stay
            replace = [{"$patch": "replace"}] if old.get(name) else []
            patch[name] = [*(new.get(name) or ()), *replace]
    before = {condition["type"]: condition for condition in old.get("conditions") or ()}
    changed = [
        condition
        for condition in new.get("conditions") or ()
        if condition["type"] in OWNED and before.get(condition["type"]) != condition
    ]
    if changed:
        patch["conditions"] = [_explicit(c, before.get(c["type"])) for c in changed]
    return patch


def _explicit(condition: Obj, before: Obj | None) -> Obj:
    """With nulls for what it no longer has: conditions are merged field by field."""
    gone = {name: None for name in before or () if name not in condition}
    return {**gone, **condition}


class StatusWriter:
    """The status of one pod; ``read`` gives what it should be now."""

    def __init__(
        self,
        client: KubeClient,
        pod: Obj,
        *,
        read: Callable[[], Obj],
        written: Callable[[Obj], None],
        turns: asyncio.Semaphore,
    ) -> None:
        """``written`` hears the pod as it is after a write; ``turns`` bounds the writes of all."""
        self._client = client
        self._meta = pod["metadata"]
        self._known: Obj = pod.get("status") or {}
        self._read = read
        self._written = written
        self._turns = turns
        self._residue: Obj = {}
        """What the server does not keep of what we write; writing it again is no use."""
        self._dirty = False
        self._hurry = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._gone = False

    def saw(self, pod: Obj) -> None:
        """A newer state of the pod came from the server."""
        self._known = pod.get("status") or {}

    def pod_is_gone(self) -> None:
        """There is nothing to write to any more."""
        self._gone = True
        self._hurry.set()

    def changed(self) -> None:
        """See that the status is written, if it differs."""
        if self._gone:
            return
        wanted = self._read()
        writing = self._task is not None and not self._task.done()
        patch = status_patch(self._known, wanted)
        if not writing and (not patch or patch == self._residue):
            return
        self._dirty = True
        if _is_urgent(self._known, wanted):
            self._hurry.set()
        if not writing:
            self._task = asyncio.create_task(self._run(), name=f"status {self._meta['name']}")

    async def flush(self) -> None:
        """Return when what is to be said now is said, or the pod is gone."""
        self._hurry.set()
        if self._task is not None:
            await asyncio.shield(self._task)

    async def stop(self) -> None:
        """Write nothing more."""
        self._gone = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self._dirty and not self._gone:
            if not self._hurry.is_set():
                try:
                    async with asyncio.timeout(DELAY):
                        await self._hurry.wait()
                except TimeoutError:
                    pass
            self._hurry.clear()
            self._dirty = False
            await self._write()

    async def _write(self) -> None:
        wait, longest = _RETRY
        while not self._gone:
            wanted = self._read()
            patch = status_patch(self._known, wanted)
            if not patch or patch == self._residue:
                return
            try:
                async with self._turns:
                    pod = await self._send(patch)
                self._known = pod.get("status") or {}
                self._written(pod)
                # of what was sent: meanwhile there may be more to say
                self._residue = status_patch(self._known, wanted)
                return
            except (NotFound, Conflict, Invalid) as err:
                if isinstance(err, NotFound) or "uid" in err.message.lower():
                    self._gone = True
                    return
                logger.warning("the status of %s was refused: %s", self._meta["name"], err)
            except (ApiError, KubeConnectionError) as err:
                logger.info("the status of %s was not written: %s", self._meta["name"], err)
            await self._pause(wait)
            wait = min(wait * 2, longest)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not self._gone:
                    self._hurry.clear()
                    await self._hurry.wait()
        except TimeoutError:
            return

    async def _send(self, patch: Obj) -> Obj:
        return await self._client.patch(
            PODS,
            self._meta["name"],
            namespace=self._meta["namespace"],
            patch={"metadata": {"uid": self._meta["uid"]}, "status": patch},
            kind="strategic",
            subresource="status",
        )


def _is_urgent(old: Obj, new: Obj) -> bool:
    """Whether somebody may be waiting for this: anything but what a pod lacks while it begins."""
    return _outline(old) != _outline(new)


def _outline(status: Obj) -> tuple[object, ...]:
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in status.get("conditions") or ()
    )
    kinds = ("initContainerStatuses", "containerStatuses")
    states = [_shown_state(one) for kind in kinds for one in status.get(kind) or ()]
    return status.get("phase", "Pending"), ready, [state for state in states if state is not None]


def _shown_state(status: Obj) -> tuple[str, str, object] | None:
    kind, state = next(iter((status.get("state") or {"waiting": {}}).items()))
    reason = (state or {}).get("reason", "")
    if kind == "waiting" and reason in ("", "ContainerCreating", "PodInitializing"):
        return None
    return status["name"], f"{kind} {reason}", status.get("restartCount")
