"""One pod on this node: carries out what its ``PodMachine`` decides, and reports.

Everything happens in one event loop: what happened is told to the machine by ``_tell``, which at
once begins what the machine asks for and sees that the status is written. Tasks do the waiting;
each ends by telling the machine how it went. When the machine is finished, the pod's last status
is written, its sandbox and volumes go, and only then is a deleted pod removed from the API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from corral.cluster.node.container.processes import Container
from corral.cluster.node.container.runs import ContainerRuns
from corral.cluster.node.parts import NodeParts
from corral.cluster.node.pod.events import PodEvents
from corral.cluster.node.pod.lifecycle import PodMachine, Record
from corral.cluster.node.pod.sandbox import Stage, StageError
from corral.cluster.node.pod.status_writer import StatusWriter
from corral.cluster.node.pod.tasks import PodTasks
from corral.cluster.node.pod.transitions import (
    Action,
    Deleted,
    Event,
    Evicted,
    PostStart,
    SandboxReady,
    Start,
    StartFailed,
    Stop,
)
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.errors import ApiError, Conflict, NotFound
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime.keys import InvalidVersion, compare_versions, version_of

__all__ = ["PodWorker", "grace_of", "interruption"]

logger = logging.getLogger(__name__)

FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 122.0
"""Seconds between tries to prepare a pod, doubled each time."""
LOOK_AGAIN: Final = 120.0
"""Seconds between two looks at a pod's tokens at most."""
REFRESH_DELAY: Final = 0.2
"""Seconds that changes of a pod's objects are collected before its files are written."""
FAREWELL: Final = 3.0
"""Seconds that a pod which was ended with the agent has for its last status."""
GONE_GRACE: Final = 1.0
"""Seconds for a pod that was removed from the API without waiting for us."""


class PodWorker:
    """One pod, from its arrival until it is gone from the API."""

    def __init__(
        self,
        pod: Obj,
        parts: NodeParts,
        *,
        ended: Callable[[PodWorker], None],
        forgotten: Callable[[PodWorker], None],
    ) -> None:
        """``ended``: nothing of the pod runs any more. ``forgotten``: nor is there anything else.

        Each is called at most once.
        """
        self.uid: str = pod["metadata"]["uid"]
        self._parts = parts
        self._ended = ended
        self._forgotten = forgotten
        self.machine = PodMachine(pod, parts.clock())
        self.stage = Stage(pod, parts, changed=self._sources_changed)
        self._events = PodEvents(parts.recorder, lambda: self.machine.pod)
        self._tasks = PodTasks(pod["metadata"]["name"], self._failed)
        self.containers = ContainerRuns(
            self.machine,
            parts,
            stage=self.stage,
            tasks=self._tasks,
            events=self._events,
            tell=self._tell,
        )
        self._status = StatusWriter(
            parts.client, pod, read=self.status, written=self._saw, turns=parts.turns
        )
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when containers can be started, or never will be."""
        self._retry = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._grace: float | None = None
        self._finishing = False
        """The machine is finished, or we do not listen to it any more."""
        self._removing = False
        self._is_over = asyncio.Event()
        self.at_rest = False
        """It is over, its last status is written, and only logs are left here."""
        self.gone = False
        """The API does not have the pod any more."""

    @property
    def over(self) -> bool:
        """Whether nothing of the pod runs any more."""
        return self._is_over.is_set()

    # -- how it begins -------------------------------------------------------------------------

    def begin(self) -> None:
        """Run a pod that is new on this node."""
        for words in self._parts.launcher.cannot_honour(self.machine.pod):
            self._events.warning("NotHonored", f"This node runs the pod without {words}")
        self._tasks.spawn(self._prepare(), "prepare")
        self._look_at(self.machine.pod)
        self._after()

    def resume(self, records: Mapping[str, list[Record]], found: Sequence[Container]) -> None:
        """Go on with a pod whose containers an earlier agent started."""
        for container in found:
            self.containers.keep(container)
        running = (container.state.pid for container in self.containers.running())
        self.stage.restore(next(running, 0))
        ips = tuple(self.stage.context().pod_ips)
        actions = self.machine.restore(records, self._parts.clock(), ips=ips)
        self._tasks.spawn(self._prepare(), "prepare")
        for container in self.containers.running():
            self.containers.follow(container)
        self._act(actions)
        self._look_at(self.machine.pod)
        self._after()

    def reject(self, reason: str, message: str) -> None:
        """Fail a pod that may not run here."""
        self._events.warning(reason, message)
        self._tell(Evicted(reason=reason, message=f"Pod was rejected: {message}", rejected=True))

    def rest(self, left: Sequence[Container]) -> None:
        """Only keep a pod that is over by what the API says; ``left`` are its containers."""
        self._finishing = True
        for container in left:
            self.containers.keep(container)
        self.stage.restore()
        self._tasks.spawn(self._put_to_rest(), "finish")

    async def _put_to_rest(self) -> None:
        await self.containers.kill_all()
        await self._clean_up()

    def fail(self, event: Evicted) -> None:
        """End the pod for a reason of the node's."""
        if not self._finishing:
            self._tell(event)

    # -- what the API says -----------------------------------------------------------------------

    def update(self, pod: Obj) -> None:
        """A newer version of the pod has come."""
        before = self.machine.pod["metadata"]
        if not _is_newer(pod, self.machine.pod):
            return  # what our own write returned is as new
        self._saw(pod)
        self._status.saw(pod)
        self._look_at(pod)
        meta = pod["metadata"]
        if any(before.get(field) != meta.get(field) for field in ("labels", "annotations")):
            self._sources_changed()
        if not self._finishing:
            self._after()

    def _saw(self, pod: Obj) -> None:
        self.machine.update(pod)
        self.stage.pod = pod

    def _look_at(self, pod: Obj) -> None:
        """See whether the pod is to end."""
        meta = pod["metadata"]
        deleted = bool(meta.get("deletionTimestamp"))
        if self._finishing:
            if deleted and self.at_rest:
                self._remove()
        elif deleted:
            grace = max(float(meta.get("deletionGracePeriodSeconds") or 0), 1.0)
            if self._grace is None or grace < self._grace:
                self._grace = grace
                self._tell(Deleted(grace=grace))
        elif (pod.get("status") or {}).get("phase") == "Failed" and not self.machine.ending:
            # somebody else says so
            status = pod["status"]
            reason, message = status.get("reason", ""), status.get("message", "")
            self._tell(Evicted(reason=reason, message=message, grace=grace_of(pod)))

    def vanish(self) -> None:
        """The pod is gone from the API, whoever did that."""
        self.gone = True
        self._status.pod_is_gone()
        self._retry.set()
        if not self._finishing:
            self._tell(Deleted(grace=GONE_GRACE))
        elif self.at_rest:
            self._parts.sweeper.later(self._parts.layout.forget_logs, self.machine.pod)
            self._forgotten(self)

    # -- the machine -----------------------------------------------------------------------------

    def status(self) -> Obj:
        """What is to be reported now."""
        hosts = tuple(self._parts.network.host_addresses())
        return self.machine.status(self._parts.clock(), host_ips=hosts)

    def _tell(self, event: Event) -> None:
        self._act(self.machine.handle(event, self._parts.clock()))
        self._after()

    def _tick(self) -> None:
        self._timer = None
        self._act(self.machine.tick(self._parts.clock()))
        self._after()

    def _after(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.machine.ending:
            self._retry.set()
            self.containers.give_up_pulls()
        if self._finishing:
            return
        if self.machine.finished:
            self._finishing = True
            self._tasks.spawn(self._finish(), "finish")
            return
        self._status.changed()
        due = self.machine.wake_at()
        if due is not None:
            wait = max(due - self._parts.clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Start():
                    self._tasks.spawn(self._start(action), "start", action.name)
                case PostStart():
                    self._tasks.spawn(self.containers.post_start(action.name), "hook", action.name)
                case Stop():
                    self.containers.stop(action)

    def _failed(self, error: BaseException) -> None:
        self._events.warning("FailedSync", f"error: {error}")

    # -- preparing and starting ------------------------------------------------------------------

    async def _prepare(self) -> None:
        wait = FIRST_RETRY
        while not self.machine.ending:
            self._retry.clear()
            try:
                await self.stage.open()
                break
            except StageError as err:
                self._events.warning(err.reason, str(err))
                await self._wait_retry(wait)
                wait = min(wait * 2, LAST_RETRY)
        self._ready.set_result(None)
        if not self.machine.ending:
            self._plan_refresh()
            self._tell(SandboxReady(ips=tuple(self.stage.context().pod_ips)))

    async def _wait_retry(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._retry.wait()
        except TimeoutError:
            return

    async def _start(self, action: Start) -> None:
        await self._ready
        if self.machine.ending or self._finishing:
            # too late, and nothing was made
            self._tell(StartFailed(name=action.name, reason="ContainerCreating", message=""))
            return
        await self.containers.start(action.name, action.attempt)

    # -- keeping files up to date ----------------------------------------------------------------

    def _sources_changed(self) -> None:
        """Objects of the pod have changed: files follow, and what waits for them tries again."""
        self._retry.set()
        if self._ready.done():
            self._refresh_in(REFRESH_DELAY)

    def _plan_refresh(self) -> None:
        """Look again when a token is due."""
        due = self.stage.refresh_at()
        if due is not None:
            # and now and then: the clock may be put back, and tokens with it
            self._refresh_in(min(max(due - self._parts.clock(), 1.0), LOOK_AGAIN))

    def _refresh_in(self, seconds: float) -> None:
        if self._refresh is not None:
            self._refresh.cancel()
            self._refresh = None
        if not self._finishing:
            loop = asyncio.get_running_loop()
            self._refresh = loop.call_later(seconds, self._begin_refresh)

    def _begin_refresh(self) -> None:
        self._refresh = None
        self._tasks.spawn(self._do_refresh(), "refresh")

    async def _do_refresh(self) -> None:
        await self.stage.refresh()
        if self._refresh is None:
            self._plan_refresh()
        if not self._finishing:
            self._act(self.machine.retry("CreateContainerConfigError", self._parts.clock()))
            self._after()

    # -- the end of the pod ----------------------------------------------------------------------

    async def _finish(self) -> None:
        """Nothing runs any more: say so, and leave nothing behind."""
        self._cancel_timers()
        self._tasks.cancel("prepare", "refresh", "probe", "hook")
        await self._tasks.wait()
        self._is_over.set()
        self._ended(self)
        self._status.changed()
        await self._status.flush()
        await self._clean_up()

    async def _clean_up(self) -> None:
        """Only logs stay, as long as the pod does."""
        self._is_over.set()
        await self.stage.close()
        self.containers.remove()
        self._parts.sweeper.later(self._parts.layout.forget_pod, self.uid)
        self.at_rest = True
        if self.gone:
            self._parts.sweeper.later(self._parts.layout.forget_logs, self.machine.pod)
            self._forgotten(self)
        elif self.machine.pod["metadata"].get("deletionTimestamp"):
            self._remove()

    def _remove(self) -> None:
        """Take the pod out of the API."""
        if not self._removing:
            self._removing = True
            self._tasks.spawn(self._delete(), "remove")

    async def _delete(self) -> None:
        meta, wait = self.machine.pod["metadata"], FIRST_RETRY
        while not self.gone:
            try:
                async with self._parts.turns:
                    await self._parts.client.delete(
                        PODS,
                        meta["name"],
                        namespace=meta["namespace"],
                        grace_seconds=0,
                        uid=self.uid,
                    )
                return
            except (NotFound, Conflict):
                return
            except (ApiError, KubeConnectionError) as err:
                logger.info("pod %s is not removed yet: %s", meta["name"], err)
            await self._wait_retry(wait)
            wait = min(wait * 2, LAST_RETRY)

    # -- the end of the agent --------------------------------------------------------------------

    async def interrupt(self) -> None:
        """End the containers because the agent stops, and return when they have ended.

        A pod that may not be started again has failed; others go on with the next agent.
        """
        if not self._finishing:
            mark = self._parts.layout.interrupted(self.uid)
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
            if self.machine.pod["spec"].get("restartPolicy") != "Never":
                await self._pause()
                return
            self._tell(interruption(self.machine.pod))
        await self._is_over.wait()
        try:
            async with asyncio.timeout(FAREWELL):
                await self._tasks.wait()
        except TimeoutError:
            # the API cannot be reached: the next agent tells it, by the mark
            await self._let_go_of_tasks()
            await self.stage.close(keep_volumes=True)

    async def _pause(self) -> None:
        """End what runs without a word: the pod is not over."""
        self._finishing = True
        self._tasks.cancel("prepare")
        if not self._ready.done():
            self._ready.set_result(None)
        self.containers.give_up_pulls()
        await self._tasks.wait("start")  # what is about to run must not run after us
        await self._let_go_of_tasks()
        await self.containers.end_all(grace_of(self.machine.pod))
        await self.stage.close(keep_volumes=True)

    async def let_go(self) -> None:
        """Stop caring; what runs goes on."""
        await self._let_go_of_tasks()
        await self.stage.settle()
        self.containers.release()

    async def _let_go_of_tasks(self) -> None:
        self._finishing = True
        self._cancel_timers()
        await self._status.stop()
        self._tasks.cancel()
        await self._tasks.wait()

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._refresh):
            if timer is not None:
                timer.cancel()
        self._timer = self._refresh = None


def _is_newer(pod: Obj, known: Obj) -> bool:
    try:
        return compare_versions(version_of(pod), version_of(known)) > 0
    except InvalidVersion:
        return True


def grace_of(pod: Obj) -> float:
    """Seconds that the pod's containers have to end."""
    grace = pod["spec"].get("terminationGracePeriodSeconds")
    return 30.0 if grace is None else float(grace)


def interruption(pod: Obj) -> Evicted:
    """What becomes of a pod that must not be started again, when its node stops."""
    return Evicted(
        reason="Terminated",
        message="Pod was terminated in response to imminent node shutdown.",
        grace=grace_of(pod),
    )
