"""The containers of one pod: started, followed, probed, hooked and ended, as its machine asks.

What happens to them is told to the machine; what they leave behind is kept for the present attempt
and the one before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Literal

from corral.cluster.node.container import logs
from corral.cluster.node.container.hooks import Termination, run_hook
from corral.cluster.node.container.images import Image, ImageNotMapped
from corral.cluster.node.container.launcher import PulledModule
from corral.cluster.node.container.processes import Container, ContainerError
from corral.cluster.node.parts import NodeParts
from corral.cluster.node.pod.adoption import exit_of
from corral.cluster.node.pod.events import PodEvents, pod_words, stop_words
from corral.cluster.node.pod.lifecycle import PodMachine
from corral.cluster.node.pod.sandbox import Stage
from corral.cluster.node.pod.tasks import PodTasks
from corral.cluster.node.pod.transitions import Event, HookDone, Probed, Started, StartFailed, Stop
from corral.cluster.node.probes.reach import DIRECT, Reach
from corral.cluster.node.probes.runner import PodReach, has_probes, run_probes
from corral.cluster.node.pulling.cache import Pulled
from corral.cluster.node.pulling.errors import PullError
from corral.cluster.node.resources import NoDevice
from corral.cluster.node.volumes.sources import ConfigError
from corral.kube.types import Obj

__all__ = ["ContainerRuns"]

logger = logging.getLogger(__name__)

IMAGE_RETRY: Final = 60.0
"""Seconds after which an image that the node does not know is looked for again."""


class ContainerRuns:
    """Of one pod."""

    def __init__(
        self,
        machine: PodMachine,
        parts: NodeParts,
        *,
        stage: Stage,
        tasks: PodTasks,
        events: PodEvents,
        tell: Callable[[Event], None],
    ) -> None:
        self._machine = machine
        self._parts = parts
        self._stage = stage
        self._tasks = tasks
        self._events = events
        self._tell = tell
        self._uid: str = machine.pod["metadata"]["uid"]
        self.present: dict[str, Container] = {}
        """The present attempt of each container."""
        self.earlier: dict[str, Container] = {}
        """The attempt before."""
        self._endings: dict[str, Termination] = {}
        self._probing: dict[str, asyncio.Task[None]] = {}
        self._pulling: set[asyncio.Future[Pulled | None]] = set()

    def running(self) -> list[Container]:
        return [container for container in self.present.values() if container.state.running]

    # -- starting --------------------------------------------------------------------------------

    async def start(self, name: str, attempt: int) -> None:
        """Run one attempt, and tell how that went."""
        spec = self._machine.slot(name).spec
        try:
            pulled = await self._pull(name, spec)
            container = await self._parts.launcher.start(
                spec, attempt, self._stage.scene(), pulled=pulled
            )
        except PullError as err:
            self._tell(
                StartFailed(
                    name=name, reason=err.reason, message=str(err), retry_after=err.retry_after
                )
            )
        except ImageNotMapped as err:
            self._events.warning("ErrImageNeverPull", str(err), container=name)
            self._refuse(name, "ErrImageNeverPull", str(err), retry_after=IMAGE_RETRY)
        except (ConfigError, NoDevice) as err:
            self._refuse(name, "CreateContainerConfigError", str(err))
        except Exception as err:
            if not isinstance(err, ContainerError | OSError):
                logger.exception("container %s of %s", name, pod_words(self._machine.pod))
            self._refuse(name, "CreateContainerError", str(err))
        else:
            self._started(name, container, pulled=pulled is not None)

    async def _pull(self, name: str, spec: Obj) -> PulledModule | None:
        """The module of the container's image, unless the pod ends meanwhile. Raises PullError."""
        scene = self._stage.scene()
        puller = self._parts.puller

        def say(kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
            self._events.say(kind, reason, message, container=name)

        task = asyncio.ensure_future(puller.ensure(spec, scene.context.pod, scene.sources, say=say))
        self._pulling.add(task)
        try:
            found = await task
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is not None and own.cancelling():
                raise
            raise PullError("the pod ends", reason="ContainerCreating", retry_after=10.0) from None
        finally:
            self._pulling.discard(task)
        if found is None:
            return None
        image = Image(
            pattern="wasm", entrypoint=found.entrypoint, cmd=found.cmd, env=dict(found.env)
        )
        file = str(puller.path(found))
        return PulledModule(file=file, image=image, image_id=found.reference)

    def give_up_pulls(self) -> None:
        """The pod ends: what is being pulled is not waited for."""
        for task in self._pulling:
            task.cancel()

    def _refuse(self, name: str, reason: str, message: str, *, retry_after: float = 10.0) -> None:
        self._events.warning("Failed", f"Error: {message}", container=name)
        self._tell(StartFailed(name=name, reason=reason, message=message, retry_after=retry_after))

    def _started(self, name: str, container: Container, *, pulled: bool) -> None:
        problem = container.state.error
        if container.state.unmade:
            self._parts.launcher.ended(container)
            container.remove()
            self._refuse(name, "CreateContainerError", problem)
            return
        self.keep(container)
        if not pulled:
            image = self._machine.slot(name).spec.get("image", "")
            words = f'Container image "{image}" already present on machine'
            self._events.normal("Pulled", f"{words} and can be accessed by the pod", container=name)
        self._events.normal("Created", "Container created", container=name)
        if problem:
            self._parts.launcher.ended(container)
            self._events.warning("Failed", f"Error: {problem}", container=name)
            reason = "RunContainerError"
            self._tell(StartFailed(name=name, reason=reason, message=problem, terminated=True))
            return
        began = container.state.started_at / 1e9
        image_id = container.labels.get("image", "")
        self._tell(Started(name=name, id=container.id, at=began, image_id=image_id))
        self._events.normal("Started", "Container started", container=name)
        self.follow(container)

    def keep(self, container: Container) -> None:
        """Remember this attempt and the one before; older ones go."""
        name = container.labels["container"]
        last = self.present.get(name)
        if last is not None:
            if name in self.earlier:
                self._parts.sweeper.later(self._forget, self.earlier[name])
            self.earlier[name] = last
        self.present[name] = container

    def _forget(self, container: Container) -> None:
        """An attempt that nobody asks for any more."""
        name, attempt = container.labels["container"], int(container.labels["attempt"])
        container.remove()
        logs.remove(self._parts.layout.log(self._machine.pod, name, attempt))
        self._parts.layout.message(self._uid, name, attempt).unlink(missing_ok=True)

    # -- following -------------------------------------------------------------------------------

    def follow(self, container: Container) -> None:
        """Wait for a running container's end, and probe it until then."""
        name = container.labels["container"]
        self._tasks.spawn(self._await_end(name, container), "wait", name)
        if has_probes(self._machine.slot(name).spec):
            self._probing[name] = self._tasks.spawn(self._probe(name, container), "probe", name)

    async def _await_end(self, name: str, container: Container) -> None:
        state = await container.wait()
        if probing := self._probing.pop(name, None):
            probing.cancel()
        self._endings.pop(name, None)
        self._parts.launcher.ended(container)
        slot = self._machine.slot(name)
        self._tell(exit_of(container, slot.spec, self._parts.layout))
        if slot.kind == "init" and slot.phase == "ended" and state.exit_code == 0:
            self._parts.launcher.release_devices(self._uid, name)
        if self._machine.in_backoff(name):
            words = f"Back-off restarting failed container {name} in pod"
            who = pod_words(self._machine.pod)
            self._events.warning("BackOff", f"{words} {who}", container=name)

    async def _probe(self, name: str, container: Container) -> None:
        def report(kind: str, ok: bool) -> None:
            self._tell(Probed(name=name, kind=kind, ok=ok))

        def problem(kind: str, text: str) -> None:
            words = f"{kind.capitalize()} probe failed: {text}"
            self._events.warning("Unhealthy", words, container=name)

        await run_probes(
            self._machine.slot(name).spec,
            container,
            self._address(),
            reach=self._reach(),
            report=report,
            problem=problem,
            clock=self._parts.clock,
        )

    def _address(self) -> str:
        return self._machine.ips[0] if self._machine.ips else ""

    def _reach(self) -> Reach:
        sandbox = self._stage.sandbox
        return DIRECT if sandbox is None else PodReach(self._parts.network, sandbox)

    async def post_start(self, name: str) -> None:
        """Run the hook, and tell how that went."""
        spec, container = self._machine.slot(name).spec, self.present[name]
        hook = spec["lifecycle"]["postStart"]
        why = await run_hook(hook, spec, container, self._address(), reach=self._reach())
        if self.present.get(name) is not container:
            return  # that attempt is over
        if why is not None:
            self._events.warning("FailedPostStartHook", "PostStartHook failed", container=name)
        self._tell(HookDone(name=name, error=why or ""))

    # -- ending ----------------------------------------------------------------------------------

    def stop(self, action: Stop) -> None:
        """Begin to end a container, or end it sooner."""
        name = action.name
        ending = self._endings.get(name)
        if ending is not None:
            ending.shorten(action.grace)
            return
        slot = self._machine.slot(name)
        words = stop_words(slot.spec, action.why, init=slot.kind != "main")
        self._events.normal("Killing", words, container=name)
        self._endings[name] = self._termination(self.present[name])
        self._tasks.spawn(self._end(name, action.grace), "stop", name)

    def _termination(self, container: Container) -> Termination:
        name = container.labels["container"]

        def hook_failed(why: str) -> None:
            self._events.warning("FailedPreStopHook", "PreStopHook failed", container=name)

        return Termination(
            container,
            self._machine.slot(name).spec,
            self._address(),
            reach=self._reach(),
            hook_failed=hook_failed,
        )

    async def _end(self, name: str, grace: float) -> None:
        await self._endings[name].run(grace)

    async def end_all(self, grace: float) -> None:
        """End whatever runs, and tell nobody."""
        running = self.running()
        await asyncio.gather(*(self._termination(container).run(grace) for container in running))
        for container in running:
            self._parts.launcher.ended(container)

    async def kill_all(self) -> None:
        """The same at once."""
        await asyncio.gather(*(container.kill() for container in self.running()))
        for container in self.present.values():
            self._parts.launcher.ended(container)

    def release(self) -> None:
        """Watch no container any more; they go on."""
        for container in self.present.values():
            container.release()

    def remove(self) -> None:
        """Forget all; none runs."""
        for container in (*self.earlier.values(), *self.present.values()):
            self._parts.sweeper.later(container.remove)
        for name in self._machine.names:
            self._parts.launcher.release_devices(self._uid, name)
        self._parts.puller.forget(self._uid)
