"""The life of a pod on its node, without any I/O: events in, actions out.

Init containers run one after the other, sidecars among them stay; then all main containers run.
Ended containers are started again by policy, after a back-off. A pod that ends (its containers
are done, it was deleted, evicted, or its deadline has passed) stops its main containers first and
then its sidecars, last one first. ``status`` is at every moment what a kubelet would report.

The agent calls ``handle`` with what happened and carries out what it returns, and ``tick`` at
``wake_at`` at the latest. It is told to start a container once per attempt, and every attempt
ends with exactly one of Exited or StartFailed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from corral.cluster.node.container.backoff import words
from corral.cluster.node.container.restarts import is_sidecar, should_restart
from corral.cluster.node.pod.reports import Report
from corral.cluster.node.pod.slots import LOST_MESSAGE, Slot, container_id
from corral.cluster.node.pod.transitions import (
    Action,
    Deleted,
    Event,
    Evicted,
    Exited,
    HookDone,
    PostStart,
    Probed,
    SandboxReady,
    Start,
    Started,
    StartFailed,
    Stop,
)
from corral.cluster.node.timestamps import format_time, parse_time
from corral.kube.types import Obj

MINIMUM_GRACE: Final = 2.0
"""Seconds that a sidecar has even when the others used up the pod's grace period."""
DEADLINE_MESSAGE: Final = "Pod was active on the node longer than the specified deadline"


Record: TypeAlias = Started | StartFailed | Exited
"""What is known of an attempt that an earlier agent made."""


class PodMachine:
    """One pod."""

    def __init__(self, pod: Obj, now: float) -> None:
        self.pod = pod
        spec = pod["spec"]
        self._slots: dict[str, Slot] = {}
        for container in spec.get("initContainers") or ():
            kind = "sidecar" if is_sidecar(container, init=True) else "init"
            self._slots[container["name"]] = Slot(container, kind)
        for container in spec["containers"]:
            self._slots[container["name"]] = Slot(container, "main")
        started = pod.get("status", {}).get("startTime")
        self.start_time = parse_time(started) if started else now
        self.ips: tuple[str, ...] = ()
        self._sandbox = False
        self._ending = ""
        """Why the pod ends; empty while it does not."""
        self._end_by = 0.0
        self._failure: tuple[str, str] | None = None
        """Reason and message of a pod that was failed from outside."""
        self._rejected = False

    # -- what the agent asks ---------------------------------------------------------------------

    @property
    def ending(self) -> bool:
        return bool(self._ending)

    @property
    def finished(self) -> bool:
        """Nothing runs and nothing will: the sandbox can go."""
        return self.ending and not any(slot.alive for slot in self._slots.values())

    def slot(self, name: str) -> Slot:
        return self._slots[name]

    @property
    def names(self) -> list[str]:
        """Of all containers."""
        return list(self._slots)

    def in_backoff(self, name: str) -> bool:
        """Whether a container waits because it keeps ending."""
        waiting = self._slots[name].waiting
        return waiting is not None and waiting["reason"] == "CrashLoopBackOff"

    def retry(self, reason: str, now: float) -> list[Action]:
        """Start now what waits for this reason; what it lacked may be there."""
        for slot in self._slots.values():
            if slot.waiting is not None and slot.waiting["reason"] == reason:
                slot.not_before = now
        return self.tick(now)

    def wake_at(self) -> float | None:
        """When ``tick`` has something to do, if nothing else happens."""
        times: list[float] = []
        if not self.ending:
            times += [
                slot.not_before
                for slot in self._slots.values()
                if slot.phase in ("waiting", "ended") and slot.not_before
            ]
            if (deadline := self._deadline()) is not None:
                times.append(deadline)
        elif any(slot.alive and not slot.stopping for slot in self._slots.values()):
            times.append(self._end_by)
        return min(times, default=None)

    def update(self, pod: Obj) -> None:
        """Take a newer version of the pod (its metadata and status; containers do not change)."""
        self.pod = pod

    # -- what happens ----------------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Action]:
        """Take note of an event; the actions that follow from it."""
        match event:
            case SandboxReady():
                self.ips, self._sandbox = event.ips, True
            case Started():
                return self._on_started(event) + self.tick(now)
            case StartFailed():
                self._on_start_failed(event, now)
            case Exited():
                self._on_exited(event, now)
            case HookDone():
                return self._on_hook(event) + self.tick(now)
            case Probed():
                return self._on_probe(event) + self.tick(now)
            case Deleted():
                return self._end("deleted", event.grace, now)
            case Evicted():
                self._failure = (event.reason, event.message)
                self._rejected = event.rejected
                return self._end("evicted", event.grace, now)
        return self.tick(now)

    def tick(self, now: float) -> list[Action]:
        """What is to be done at this time."""
        deadline = self._deadline()
        if deadline is not None and now >= deadline and not self.ending:
            self._failure = ("DeadlineExceeded", DEADLINE_MESSAGE)
            return self._end("deadline", self._grace(), now)
        if self.ending:
            return list(self._stops(now))
        if not self._sandbox:
            return []
        actions = list(self._starts(now))
        if not actions and self._is_done():
            return self._end("done", self._grace(), now)
        return actions

    def _on_started(self, event: Started) -> list[Action]:
        slot = self._slots[event.name]
        slot.phase, slot.id, slot.image_id = "running", event.id, event.image_id
        slot.started_at, slot.restarts = event.at, slot.attempt - 1
        if slot.terminated is not None:
            slot.last, slot.terminated = slot.terminated, None
        slot.waiting = None
        slot.hooked = "postStart" not in (slot.spec.get("lifecycle") or {})
        slot.started = slot.hooked and "startupProbe" not in slot.spec
        slot.ready = slot.started and "readinessProbe" not in slot.spec
        return [] if slot.hooked else [PostStart(name=slot.name)]

    def _on_start_failed(self, event: StartFailed, now: float) -> None:
        slot = self._slots[event.name]
        if slot.terminated is not None:
            slot.last, slot.terminated = slot.terminated, None
        slot.ended_at = now
        if event.terminated:
            slot.phase, slot.restarts = "ended", slot.attempt - 1
            slot.terminated = {
                "exitCode": 128,
                "reason": "StartError",
                "message": event.message,
                "startedAt": "1970-01-01T00:00:00Z",
                "finishedAt": format_time(now),
            }
            self._after_end(slot, now)
            if slot.waiting is None and self._restarts(slot):
                self._hold(slot, event.reason, event.message)
            return
        slot.phase, slot.attempt = "waiting", slot.attempt - 1
        slot.waiting = {"reason": event.reason, "message": event.message}
        slot.not_before = now + event.retry_after

    def _on_exited(self, event: Exited, now: float) -> None:
        slot = self._slots[event.name]
        slot.phase, slot.started, slot.ready, slot.stopping = "ended", False, False, False
        slot.id, slot.ended_at = event.id, event.at
        slot.terminated = self._termination(slot, event)
        self._after_end(slot, now)

    def _termination(self, slot: Slot, event: Exited) -> Obj:
        reason = event.reason or ("Completed" if event.exit_code == 0 else "Error")
        if event.oom_killed:
            reason = "OOMKilled"
        message = event.message
        if event.lost:
            reason, message = "ContainerStatusUnknown", LOST_MESSAGE
        result: Obj = {"exitCode": event.exit_code, "reason": reason}
        if message:
            result["message"] = message
        result["startedAt"] = format_time(slot.started_at)
        result["finishedAt"] = format_time(event.at)
        result["containerID"] = container_id(event.id)
        return result

    def _after_end(self, slot: Slot, now: float) -> None:
        """Decide when it may start again; in a back-off it waits where everybody sees it."""
        if self.ending or not self._restarts(slot):
            return
        slot.not_before = slot.backoff.until(slot.ended_at)
        if slot.not_before > now:
            metadata = self.pod["metadata"]
            who = f"{metadata['name']}_{metadata.get('namespace', '')}({metadata.get('uid', '')})"
            text = f"back-off {words(slot.backoff.seconds)} restarting failed"
            self._hold(slot, "CrashLoopBackOff", f"{text} container={slot.name} pod={who}")

    def _hold(self, slot: Slot, reason: str, message: str) -> None:
        slot.last, slot.terminated = slot.terminated, None
        slot.phase = "waiting"
        slot.waiting = {"reason": reason, "message": message}

    def _on_hook(self, event: HookDone) -> list[Action]:
        slot = self._slots[event.name]
        if slot.phase != "running":
            return []
        slot.hooked = True
        if event.error:
            slot.stopping = True
            return [Stop(name=slot.name, grace=self._grace(), why="FailedPostStartHook")]
        slot.started = "startupProbe" not in slot.spec
        slot.ready = slot.started and "readinessProbe" not in slot.spec
        return []

    def _on_probe(self, event: Probed) -> list[Action]:
        slot = self._slots[event.name]
        if slot.phase != "running":
            return []
        if event.kind == "readiness":
            slot.ready = slot.started and event.ok
        elif event.ok and event.kind == "startup":
            slot.started = slot.hooked
            slot.ready = slot.started and "readinessProbe" not in slot.spec
        elif not event.ok and not slot.stopping:
            slot.stopping = True
            probe = slot.spec.get(f"{event.kind}Probe") or {}
            grace = float(probe.get("terminationGracePeriodSeconds") or self._grace())
            return [Stop(name=slot.name, grace=grace, why=f"{event.kind} probe failed")]
        return []

    # -- beginning -------------------------------------------------------------------------------

    def _starts(self, now: float) -> Iterator[Action]:
        main = [slot for slot in self._slots.values() if slot.kind == "main"]
        initialized = any(slot.attempt for slot in main)
        for slot in self._slots.values():
            if slot.kind == "main":
                break
            if slot.kind == "sidecar":
                yield from self._start(slot, now)
                if not slot.started and not initialized:
                    return
            elif not initialized and not (slot.phase == "ended" and slot.code == 0):
                yield from self._start(slot, now)
                return
        for slot in main:
            yield from self._start(slot, now)

    def _start(self, slot: Slot, now: float) -> Iterator[Action]:
        if slot.alive or now < slot.not_before:
            return
        ended = slot.terminated or (slot.last if slot.waiting else None)
        if slot.phase == "ended" or (slot.waiting and slot.last):
            if not self._restarts(slot, ended):
                return
            if slot.ended_at > slot.backoff.since or not slot.backoff.seconds:
                slot.backoff.restarted(slot.ended_at, now)
        slot.phase, slot.not_before = "starting", 0.0
        slot.attempt += 1
        yield Start(name=slot.name, attempt=slot.attempt - 1)

    def _restarts(self, slot: Slot, ended: Obj | None = None) -> bool:
        ended = ended or slot.terminated
        code = int(ended["exitCode"]) if ended else 0
        if slot.kind == "sidecar":
            return True
        if slot.kind == "init" and code == 0:
            return False
        return should_restart(slot.spec, self.pod["spec"], code)

    def _is_done(self) -> bool:
        """Whether no main container runs or will run again."""
        for slot in self._slots.values():
            if slot.kind == "init" and slot.phase == "ended" and slot.code != 0:
                if not self._restarts(slot):
                    return True
            elif slot.kind == "main" and (slot.phase != "ended" or self._restarts(slot)):
                return False
        return True

    # -- ending ----------------------------------------------------------------------------------

    def _end(self, why: str, grace: float, now: float) -> list[Action]:
        """Begin to end, or end sooner than was said before."""
        if self._ending:
            if now + grace < self._end_by:
                self._end_by = now + grace
                return [
                    Stop(name=slot.name, grace=grace, why=why)
                    for slot in self._slots.values()
                    if slot.phase == "running" and slot.stopping
                ] + list(self._stops(now))
            return list(self._stops(now))
        self._ending, self._end_by = why, now + grace
        for slot in self._slots.values():
            if slot.phase == "waiting" and slot.last is not None and slot.attempt:
                # it will not be started again: what it was is what it is
                slot.phase, slot.terminated, slot.waiting = "ended", slot.last, None
                slot.last = None
            slot.stopping = False
        return list(self._stops(now))

    def _stops(self, now: float) -> Iterator[Action]:
        """Main and init containers first; a sidecar when all that came after it have ended."""
        left = max(self._end_by - now, 0.0)
        late = now >= self._end_by
        blocked = False
        for slot in reversed(self._slots.values()):
            if not slot.alive:
                continue
            wait = slot.kind == "sidecar" and blocked and not late
            if slot.phase == "running" and not slot.stopping and not wait:
                slot.stopping = True
                grace = max(left, MINIMUM_GRACE) if slot.kind == "sidecar" else left
                yield Stop(name=slot.name, grace=grace, why=self._ending)
            blocked = True

    def _grace(self) -> float:
        grace = self.pod["spec"].get("terminationGracePeriodSeconds")
        return 30.0 if grace is None else float(grace)

    def _deadline(self) -> float | None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        return None if seconds is None else self.start_time + float(seconds)

    # -- what is reported ------------------------------------------------------------------------

    def status(self, now: float, *, host_ips: tuple[str, ...] = ()) -> Obj:
        """The pod's status as it is to be written."""
        report = Report(
            pod=self.pod,
            slots=self._slots,
            finished=self.finished,
            sandbox=self._sandbox,
            failure=self._failure,
            rejected=self._rejected,
            start_time=self.start_time,
            ips=self.ips,
        )
        return report.status(now, host_ips)

    # -- after the agent was restarted -------------------------------------------------------------

    def restore(
        self, records: Mapping[str, list[Record]], now: float, *, ips: tuple[str, ...]
    ) -> list[Action]:
        """Take over containers that an earlier agent started: per name all attempts, in order.

        An attempt that has ended is given by its Started and its Exited, one whose program could
        not be run by a StartFailed. Call it instead of handling SandboxReady, before anything
        else; the actions are those that are due.
        """
        self.ips, self._sandbox = ips, True
        for name, events in records.items():
            slot = self._slots[name]
            for event in events:
                match event:
                    case Started():
                        if slot.attempt:
                            slot.backoff.restarted(slot.ended_at, event.at)
                        known = event.attempt
                        slot.attempt = (slot.attempt if known is None else known) + 1
                        self._on_started(event)
                        self._restore_health(slot)
                    case StartFailed():
                        slot.attempt += 1
                        self._on_start_failed(event, now)
                    case Exited():
                        self._on_exited(event, now)
        return self.tick(now)

    def _restore_health(self, slot: Slot) -> None:
        """What was reported before holds until a probe says otherwise; hooks do not run again."""
        said = self._said(slot)
        slot.hooked = True
        slot.started = "startupProbe" not in slot.spec or bool(said.get("started"))
        slot.ready = slot.started and ("readinessProbe" not in slot.spec or bool(said.get("ready")))

    def _said(self, slot: Slot) -> Obj:
        """What the API has about this very attempt."""
        status = self.pod.get("status") or {}
        for kind in ("containerStatuses", "initContainerStatuses"):
            for one in status.get(kind) or ():
                if one["name"] == slot.name and one.get("containerID") == container_id(slot.id):
                    found: Obj = one
                    return found
        return {}
