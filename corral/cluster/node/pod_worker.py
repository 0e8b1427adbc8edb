"""One pod on this node: carries out what its ``PodMachine`` decides, and reports.

Everything happens in one event loop: what happened is told to the machine by ``_tell``, which at
once begins what the machine asks for and sees that the status is written. Tasks do the waiting;
each ends by telling the machine how it went. When the machine is finished, the pod's sandbox and
volumes go, its last status is written, and only then is a deleted pod removed from the API.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

from corral.cluster.node import logs
from corral.cluster.node.adoption import exit_of
from corral.cluster.node.containers import Container, ContainerError
from corral.cluster.node.events import (
    Action,
    Deleted,
    Event,
    Evicted,
    HookDone,
    PostStart,
    Probed,
    SandboxReady,
    Start,
    Started,
    StartFailed,
    Stop,
)
from corral.cluster.node.hooks import Termination, run_hook
from corral.cluster.node.images import ImageNotMapped
from corral.cluster.node.lifecycle import PodMachine, Record
from corral.cluster.node.parts import NodeParts
from corral.cluster.node.podevents import PodEvents, pod_words, stop_words
from corral.cluster.node.probes import DIRECT, Reach
from corral.cluster.node.probing import PodReach, has_probes, run_probes
from corral.cluster.node.resources import NoDevice
from corral.cluster.node.sources import ConfigError
from corral.cluster.node.stage import Stage, StageError
from corral.cluster.node.status_writer import StatusWriter
from corral.kube.errors import ApiError, Conflict, NotFound
from corral.kube.resources import PODS
from corral.kube.transport import KubeConnectionError
from corral.kube.types import Obj
from corral.runtime.keys import InvalidVersion, compare_versions, version_of

__all__ = ["PodWorker", "interruption"]

logger = logging.getLogger(__name__)

FIRST_RETRY: Final = 0.5
LAST_RETRY: Final = 122.0
"""Seconds between tries to prepare a pod, doubled each time."""
IMAGE_RETRY: Final = 60.0
REFRESH_DELAY: Final = 0.2
"""Seconds that changes of a pod's objects are collected before its files are written."""
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
        self.containers: dict[str, Container] = {}
        """The present attempt of each container."""
        self.earlier: dict[str, Container] = {}
        """The attempt before."""
        self.stage = Stage(pod, parts, changed=self._sources_changed)
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when containers can be started."""
        self._retry = asyncio.Event()
        self._events = PodEvents(parts.recorder, lambda: self.machine.pod)
        self._status = StatusWriter(
            parts.client, pod, read=self.status, written=self._saw, turns=parts.turns
        )
        self._tasks: set[asyncio.Task[None]] = set()
        self._endings: dict[str, Termination] = {}
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._refresh: asyncio.TimerHandle | None = None
        self._grace: float | None = None
        self._finishing = False
        self._removing = False
        self.over = False
        """Nothing of the pod runs any more."""
        self.at_rest = False
        """It is over, its last status is written, and only logs are left here."""
        self._gone = False

    # -- how it begins -------------------------------------------------------------------------

    def begin(self) -> None:
        """Run a pod that is new on this node."""
        for words in self._parts.launcher.cannot_honour(self.machine.pod):
            self._events.warning("NotHonored", f"This node runs the pod without {words}")
        self._spawn(self._prepare(), "prepare")
        self._look_at(self.machine.pod)
        self._after()

    def resume(self, records: Mapping[str, list[Record]], running: Sequence[Container]) -> None:
        """Go on with a pod whose containers an earlier agent started."""
        for container in running:
            self.containers[container.labels["container"]] = container
        self.stage.restore()
        ips = self.stage.context().pod_ips
        actions = self.machine.restore(records, self._parts.clock(), ips=tuple(ips))
        self._spawn(self._prepare(), "prepare")
        for container in running:
            if container.state.running:
                self._follow(container)
        for action in actions:
            self._act(action)
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
            self._keep(container.labels["container"], container)
        self.stage.restore()
        self._spawn(self._put_to_rest(), "finish")

    async def _put_to_rest(self) -> None:
        for container in self.containers.values():
            if container.state.running:
                await container.kill()
            self._parts.launcher.ended(container)
        self._status.pod_is_gone()
        await self._clean_up()

    def fail(self, event: Evicted) -> None:
        """End the pod for a reason of the node's."""
        if not self._finishing:
            self._tell(event)

    # -- what the API says -----------------------------------------------------------------------

    def update(self, pod: Obj) -> None:
        """A newer version of the pod has come."""
        before = self.machine.pod["metadata"]
        if not _newer(pod, self.machine.pod):
            return  # what our own write returned is as new
        self._saw(pod)
        self._status.saw(pod)
        self._look_at(pod)
        meta = pod["metadata"]
        if any(before.get(field) != meta.get(field) for field in ("labels", "annotations")):
            self._sources_changed()
        if not self.at_rest:
            self._after()

    def _saw(self, pod: Obj) -> None:
        self.machine.update(pod)
        self.stage.pod = pod

    def _look_at(self, pod: Obj) -> None:
        """See whether the pod is to end."""
        meta = pod["metadata"]
        if not meta.get("deletionTimestamp"):
            self._look_at_phase(pod)
            return
        if self._finishing:
            if self.at_rest:
                self._remove()
            return
        grace = max(float(meta.get("deletionGracePeriodSeconds") or 0), 1.0)
        if self._grace is None or grace < self._grace:
            self._grace = grace
            self._tell(Deleted(grace=grace))

    def _look_at_phase(self, pod: Obj) -> None:
        """Somebody else may have failed the pod: then it ends."""
        status = pod.get("status") or {}
        if status.get("phase") == "Failed" and not self.machine.ending:
            grace = float(pod["spec"].get("terminationGracePeriodSeconds") or 30)
            reason, message = status.get("reason", ""), status.get("message", "")
            self._tell(Evicted(reason=reason, message=message, grace=grace))

    def vanish(self) -> None:
        """The pod is gone from the API, whoever did that."""
        self._gone = True
        self._status.pod_is_gone()
        self._retry.set()
        if not self._finishing:
            self._tell(Deleted(grace=GONE_GRACE))
        elif self.at_rest:
            self._parts.sweeper.later(self._parts.layout.forget_logs, self.machine.pod)
            self._forgotten(self)

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
        await self.wait_at_rest()

    async def _pause(self) -> None:
        """End what runs without a word: the pod is not over."""
        await self._let_go_of_tasks()
        running = [c for c in self.containers.values() if c.state.running]
        grace = float(self.machine.pod["spec"].get("terminationGracePeriodSeconds") or 30)
        await asyncio.gather(
            *(
                Termination(
                    container,
                    self.machine.slot(container.labels["container"]).spec,
                    self._address(),
                    reach=self._reach(),
                ).run(grace)
                for container in running
            )
        )
        for container in running:
            self._parts.launcher.ended(container)
        await self.stage.close(keep_volumes=True)

    @property
    def gone(self) -> bool:
        return self._gone

    # -- the machine -----------------------------------------------------------------------------

    def status(self) -> Obj:
        """What is to be reported now."""
        hosts = self._parts.network.host_addresses()
        return self.machine.status(self._parts.clock(), host_ips=tuple(hosts))

    def _tell(self, event: Event) -> None:
        for action in self.machine.handle(event, self._parts.clock()):
            self._act(action)
        self._after()

    def _tick(self) -> None:
        self._timer = None
        for action in self.machine.tick(self._parts.clock()):
            self._act(action)
        self._after()

    def _after(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.machine.ending:
            self._retry.set()
        if self.machine.finished:
            if not self._finishing:
                self._finishing = True
                self._spawn(self._finish(), "finish")
            return
        self._status.changed()
        due = self.machine.wake_at()
        if due is not None:
            wait = max(due - self._parts.clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(wait, self._tick)

    def _act(self, action: Action) -> None:
        match action:
            case Start():
                self._spawn(self._launch(action.name, action.attempt), f"start {action.name}")
            case PostStart():
                self._spawn(self._post_start(action.name), f"postStart {action.name}")
            case Stop():
                self._stop(action)

    def _spawn(self, work: Coroutine[Any, Any, None], what: str) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"{what} {self.machine.pod['metadata']['name']}")
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("%s failed", task.get_name(), exc_info=error)
            self._events.warning("FailedSync", f"error: {error}")

    # -- preparing -------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        wait = FIRST_RETRY
        while not self.machine.ending:
            self._retry.clear()
            try:
                await self.stage.open()
            except StageError as err:
                self._events.warning(err.reason, str(err))
                await self._wait_retry(wait)
                wait = min(wait * 2, LAST_RETRY)
                continue
            self._plan_refresh()
            break
        self._ready.set_result(None)  # whoever waits sees that the pod ends
        if not self.machine.ending:
            self._tell(SandboxReady(ips=tuple(self.stage.context().pod_ips)))

    async def _wait_retry(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._retry.wait()
        except TimeoutError:
            return

    def _sources_changed(self) -> None:
        """Objects of the pod have changed: files follow, and what waits for them tries again."""
        self._retry.set()
        if self._finishing or not self._ready.done():
            return
        if self._refresh is not None:
            self._refresh.cancel()
        loop = asyncio.get_running_loop()
        self._refresh = loop.call_later(REFRESH_DELAY, self._begin_refresh)

    def _plan_refresh(self) -> None:
        """Look again when a token is due."""
        due = self.stage.refresh_at()
        if due is not None and not self._finishing:
            wait = max(due - self._parts.clock(), 1.0)
            loop = asyncio.get_running_loop()
            self._refresh = loop.call_later(wait, self._begin_refresh)

    def _begin_refresh(self) -> None:
        self._refresh = None
        if not self._finishing:
            self._spawn(self._do_refresh(), "refresh")

    async def _do_refresh(self) -> None:
        await self.stage.refresh()
        if self._refresh is None:
            self._plan_refresh()
        if not self._finishing:
            for action in self.machine.retry("CreateContainerConfigError", self._parts.clock()):
                self._act(action)
            self._after()

    # -- starting --------------------------------------------------------------------------------

    async def _launch(self, name: str, attempt: int) -> None:
        await self._ready
        if self.machine.ending:
            # too late, and nothing was made
            self._tell(StartFailed(name=name, reason="ContainerCreating", message=""))
            return
        spec = self.machine.slot(name).spec
        try:
            container = await self._parts.launcher.start(spec, attempt, self.stage.scene())
        except ImageNotMapped as err:
            self._refuse(name, "ErrImageNeverPull", str(err), retry_after=IMAGE_RETRY)
        except (ConfigError, NoDevice) as err:
            self._refuse(name, "CreateContainerConfigError", str(err))
        except Exception as err:
            if not isinstance(err, ContainerError | OSError):
                logger.exception("container %s of %s", name, pod_words(self.machine.pod))
            self._refuse(name, "CreateContainerError", str(err))
        else:
            self._launched(name, attempt, container)

    def _refuse(self, name: str, reason: str, message: str, *, retry_after: float = 10.0) -> None:
        if reason == "ErrImageNeverPull":
            self._events.warning(reason, message, container=name)
        self._events.warning("Failed", f"Error: {message}", container=name)
        self._tell(StartFailed(name=name, reason=reason, message=message, retry_after=retry_after))

    def _launched(self, name: str, attempt: int, container: Container) -> None:
        if container.state.error and not container.state.error.startswith("exec:"):
            # its surroundings could not be made, so this attempt never was
            self._parts.launcher.ended(container)
            container.remove()
            self._refuse(name, "CreateContainerError", container.state.error)
            return
        self._keep(name, container)
        image = self.machine.slot(name).spec.get("image", "")
        words = f'Container image "{image}" already present on machine'
        self._events.normal("Pulled", f"{words} and can be accessed by the pod", container=name)
        self._events.normal("Created", "Container created", container=name)
        if container.state.error:
            self._parts.launcher.ended(container)
            message = container.state.error
            self._events.warning("Failed", f"Error: {message}", container=name)
            self._tell(
                StartFailed(name=name, reason="RunContainerError", message=message, terminated=True)
            )
            return
        self._tell(
            Started(
                name=name,
                id=container.id,
                at=container.state.started_at / 1e9,
                image_id=container.labels.get("image", ""),
            )
        )
        self._events.normal("Started", "Container started", container=name)
        self._follow(container)

    def _keep(self, name: str, container: Container) -> None:
        """Remember this attempt and the one before; older ones go."""
        last = self.containers.get(name)
        if last is not None:
            oldest = self.earlier.get(name)
            if oldest is not None:
                self._forget(oldest)
            self.earlier[name] = last
        self.containers[name] = container

    def _forget(self, container: Container) -> None:
        """An attempt that nobody asks for any more."""
        name, attempt = container.labels["container"], int(container.labels["attempt"])
        container.remove()
        logs.remove(self._parts.layout.log(self.machine.pod, name, attempt))
        self._parts.layout.message(self.uid, name, attempt).unlink(missing_ok=True)

    def _follow(self, container: Container) -> None:
        """Wait for a running container's end, and probe it until then."""
        name = container.labels["container"]
        self._spawn(self._await_end(name, container), f"wait {name}")
        self._start_probing(name, container)

    async def _await_end(self, name: str, container: Container) -> None:
        state = await container.wait()
        if task := self._probing.pop(name, None):
            task.cancel()
        self._endings.pop(name, None)
        self._parts.launcher.ended(container)
        self._tell(exit_of(container, self.machine.slot(name).spec, self._parts.layout))
        slot = self.machine.slot(name)
        if slot.kind == "init" and slot.phase == "ended" and state.exit_code == 0:
            self._parts.launcher.release_devices(self.uid, name)
        if self.machine.in_backoff(name):
            words = f"Back-off restarting failed container {name} in pod"
            self._events.warning(
                "BackOff", f"{words} {pod_words(self.machine.pod)}", container=name
            )

    # -- probes and hooks ------------------------------------------------------------------------

    def _start_probing(self, name: str, container: Container) -> None:
        spec = self.machine.slot(name).spec
        if not has_probes(spec):
            return

        def report(kind: str, ok: bool) -> None:
            self._tell(Probed(name=name, kind=kind, ok=ok))

        def problem(kind: str, text: str) -> None:
            words = f"{kind.capitalize()} probe failed: {text}"
            self._events.warning("Unhealthy", words, container=name)

        self._probing[name] = self._spawn(
            run_probes(
                spec,
                container,
                self._address(),
                reach=self._reach(),
                report=report,
                problem=problem,
                clock=self._parts.clock,
            ),
            f"probes {name}",
        )

    def _address(self) -> str:
        return self.machine.ips[0] if self.machine.ips else ""

    def _reach(self) -> Reach:
        sandbox = self.stage.sandbox
        return DIRECT if sandbox is None else PodReach(self._parts.network, sandbox)

    async def _post_start(self, name: str) -> None:
        slot, container = self.machine.slot(name), self.containers[name]
        why = await run_hook(
            slot.spec["lifecycle"]["postStart"],
            slot.spec,
            container,
            self._address(),
            reach=self._reach(),
        )
        if self.containers.get(name) is not container:
            return
        if why is not None:
            self._events.warning("FailedPostStartHook", "PostStartHook failed", container=name)
        self._tell(HookDone(name=name, error=why or ""))

    # -- ending ----------------------------------------------------------------------------------

    def _stop(self, action: Stop) -> None:
        name = action.name
        ending = self._endings.get(name)
        if ending is not None:
            ending.shorten(action.grace)
            return
        slot, container = self.machine.slot(name), self.containers[name]
        words = stop_words(slot.spec, action.why, init=slot.kind != "main")
        self._events.normal("Killing", words, container=name)

        def hook_failed(why: str) -> None:
            self._events.warning("FailedPreStopHook", "PreStopHook failed", container=name)

        self._endings[name] = ending = Termination(
            container,
            slot.spec,
            self._address(),
            reach=self._reach(),
            hook_failed=hook_failed,
        )

        async def end() -> None:
            await ending.run(action.grace)

        self._spawn(end(), f"stop {name}")

    async def _finish(self) -> None:
        """Nothing runs any more: say so, and leave nothing behind."""
        self._cancel_timers()
        mine = asyncio.current_task()
        waiting = [task for task in self._tasks if task is not mine]
        for task in waiting:
            if task.get_name().startswith(("prepare", "refresh", "probes", "postStart")):
                task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for name in self.machine.names:
            self._parts.launcher.release_devices(self.uid, name)
        self.over = True
        self._ended(self)
        self._status.changed()
        await self._status.flush()
        await self._clean_up()

    async def _clean_up(self) -> None:
        self.over = True
        await self.stage.close()
        self._clear()
        self.at_rest = True
        if self._gone:
            self._forgotten(self)
        elif self.machine.pod["metadata"].get("deletionTimestamp"):
            self._remove()

    def _clear(self) -> None:
        """Remove what is left here of a pod that is over; its logs stay as long as it does."""
        later, layout = self._parts.sweeper.later, self._parts.layout
        for container in (*self.earlier.values(), *self.containers.values()):
            later(container.remove)
        later(layout.forget_pod, self.uid)
        if self._gone:
            later(layout.forget_logs, self.machine.pod)

    def _remove(self) -> None:
        """Take the pod out of the API, and its logs from here."""
        if not self._removing:
            self._removing = True
            self._spawn(self._delete(), "remove")

    async def _delete(self) -> None:
        meta, wait = self.machine.pod["metadata"], FIRST_RETRY
        while not self._gone:
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

    def _cancel_timers(self) -> None:
        for timer in (self._timer, self._refresh):
            if timer is not None:
                timer.cancel()
        self._timer = self._refresh = None

    async def wait_at_rest(self) -> None:
        """Return when nothing of the pod runs any more, and all that follows is done."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def let_go(self) -> None:
        """Stop caring; what runs goes on."""
        await self._let_go_of_tasks()
        for container in self.containers.values():
            container.release()

    async def _let_go_of_tasks(self) -> None:
        self._finishing = True
        self._cancel_timers()
        await self._status.stop()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _newer(pod: Obj, known: Obj) -> bool:
    try:
        return compare_versions(version_of(pod), version_of(known)) > 0
    except InvalidVersion:
        return True


def interruption(pod: Obj) -> Evicted:
    """What becomes of a pod that must not be started again, when its node stops."""
    return Evicted(
        reason="Terminated",
        message="Pod was terminated in response to imminent node shutdown.",
        grace=float(pod["spec"].get("terminationGracePeriodSeconds") or 30),
    )
