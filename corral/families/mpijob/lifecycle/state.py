"""The life of an MPIJob as a pure function: what is seen goes in, what to do comes out.

Nothing here does I/O or looks at a clock. The order is Kubeflow's: a job that is over is cleaned up
and nothing else; else its objects are there, suspended or not; its workers are there unless it is
suspended; then the launcher is made to agree; then the status says what came of it.

Beyond Kubeflow: dead workers are replaced while the launcher may try again; an evicted worker ends
the job for good; ``WaitForWorkersReady`` holds whenever a launcher would begin, not only the first
time; the time to live is that of the MPIJob.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from corral.api.mpi.kinds import LAUNCHER, WORKER
from corral.families.mpijob import names
from corral.families.mpijob.lifecycle.decision import Decision, Launcher, Observation
from corral.families.mpijob.lifecycle.diagnosis import (
    REASON_PROCESS,
    Trouble,
    is_evicted,
    is_failed,
    launcher_trouble,
    worker_trouble,
)
from corral.families.mpijob.lifecycle.endings import ended_by, is_finished, is_suspended
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.lifecycle.status import Draft, is_over, shortened
from corral.families.mpijob.lifecycle.stranded import stranded
from corral.kube.types import Obj
from corral.runtime.finalizers import is_being_deleted
from corral.runtime.keys import format_time
from corral.runtime.pods.failures import failed_container
from corral.runtime.pods.states import is_ready, moment, unschedulable_since

__all__ = ["decide"]

_BACKOFF_LIMIT: Final = 6
"""Of Jobs that name none."""
_DEADLINE: Final = "DeadlineExceeded"
_EXCEEDED: Final = "BackoffLimitExceeded"
_FINISHED: Final = ("Succeeded", "Failed")


def decide(seen: Observation, settings: MPISettings) -> Decision:
    """What to do about a valid job now."""
    decision = _Step(seen, settings).decide()
    force, again = stranded(seen, settings)
    if again:
        again = min(again, decision.requeue_after or again)
    return replace(decision, force=force, requeue_after=again or decision.requeue_after)


def _phase(pod: Obj) -> str:
    return str((pod.get("status") or {}).get("phase") or "Pending")


class _Step:
    """One decision."""

    def __init__(self, seen: Observation, settings: MPISettings) -> None:
        self.seen = seen
        self.view = seen.view
        self.settings = settings
        self.draft = Draft(seen.job, seen.now)
        self.wanted: dict[int, Obj] = {}
        """The workers that should be there and are, by index."""
        self.surplus: list[Obj] = []
        """Those that should not be there."""
        for pod in seen.workers:
            index = names.worker_index(self.view.name, pod["metadata"]["name"])
            if index is not None and index < self.view.workers:
                self.wanted[index] = pod
            else:
                self.surplus.append(pod)

    def decide(self) -> Decision:
        launcher = self.seen.launcher
        if is_over(self.draft.old):
            return self._after_end()
        self.draft.created()
        if not self.view.suspended:
            self.draft.started()
        if launcher is not None and is_finished(launcher):
            return self._end_with(launcher)
        if self.view.suspended:
            return self._suspended()
        self.draft.resumed()
        evicted = [pod for pod in self.wanted.values() if is_evicted(pod)]
        if evicted:
            return self._evicted(evicted)
        return self._run()

    # --- the end ---------------------------------------------------------------------------------

    def _end_with(self, launcher: Obj) -> Decision:
        """The launcher has succeeded or failed, and the job with it."""
        status = launcher.get("status") or {}
        trouble = None
        if ended_by(launcher, "Complete") is not None:
            self.draft.count_launcher(succeeded=1, failed=int(status.get("failed") or 0))
            self.draft.succeeded(str(status.get("completionTime") or ""))
        else:
            self.draft.count_launcher(failed=int(status.get("failed") or 0))
            reason, message = self._failure_of(launcher)
            trouble = self._trouble() if reason != _DEADLINE else None
            trouble = trouble if self._blame(trouble, reason, message) else None
            self.draft.failed(reason, message)
        self.draft.count_workers()
        return self._after_end(trouble)

    def _failure_of(self, launcher: Obj) -> tuple[str, str]:
        """Reason and message, in Kubeflow's words."""
        condition = ended_by(launcher, "Failed") or {}
        reason = str(condition.get("reason") or "MPIJobFailed")
        message = str(condition.get("message") or f"{self.draft.named} has failed")
        failed = [pod for pod in self.seen.launcher_pods if is_failed(pod)]
        if reason == _EXCEEDED and failed:
            last = max(failed, key=lambda pod: pod["metadata"]["creationTimestamp"])["status"]
            reason = f"{reason}/{last.get('reason') or ''}"
            message = shortened(f"{message}: {last.get('message') or ''}")
        return reason, message

    def _evicted(self, evicted: list[Obj]) -> Decision:
        """Whoever runs the cluster needs the room: the job does not come back by itself."""
        self._count()
        message = f"{len(evicted)}/{self.view.workers} workers are evicted"
        trouble = worker_trouble(self.view.name, evicted)
        self._blame(trouble, "MPIJobEvicted", message)
        self.draft.failed("MPIJobEvicted", message)
        self.draft.count_workers()
        return self._after_end(trouble)

    def _after_end(self, trouble: Trouble | None = None) -> Decision:
        """Clean up as the policy says; nothing is ever made again."""
        policy = self.view.run_policy["cleanPodPolicy"]
        launcher, action = self.seen.launcher, Launcher.LEAVE
        if launcher is not None and not is_finished(launcher) and not is_suspended(launcher):
            action = Launcher.SUSPEND  # its workers are gone: it must not try again
        left = self._time_to_live()
        return Decision(
            self.draft.status,
            status_first=True,
            trouble=trouble,
            pod_group=False if policy in ("All", "Running") else None,
            delete=self._cleaned(policy) if policy in ("All", "Running") else (),
            launcher=action,
            expired=left is not None and left <= 0,
            requeue_after=max(left or 0.0, 0.0),
        )

    def _cleaned(self, policy: str) -> tuple[Obj, ...]:
        """Workers that a policy takes away; those that wait could yet begin."""
        return tuple(
            pod
            for pod in self.seen.workers
            if not is_being_deleted(pod) and (policy != "Running" or _phase(pod) not in _FINISHED)
        )

    def _time_to_live(self) -> float | None:
        """Seconds that are left; None: for ever."""
        limit = self.view.run_policy.get("ttlSecondsAfterFinished")
        ended = moment(self.draft.status.get("completionTime"))
        if limit is None or ended is None:
            return None
        return self.seen.since(ended) + int(limit) - self.seen.now

    # --- suspended -------------------------------------------------------------------------------

    def _suspended(self) -> Decision:
        """Objects and a suspended launcher, but no workers."""
        self.draft.suspended()
        self._count()
        launcher, action = self.seen.launcher, Launcher.LEAVE
        if launcher is None:
            action = Launcher.CREATE
        elif not is_suspended(launcher):
            action = Launcher.SUSPEND
        return Decision(
            self.draft.status,
            objects=True,
            pod_group=False,
            delete=self._cleaned(self.view.run_policy["cleanPodPolicy"]),
            launcher=action,
        )

    # --- running ---------------------------------------------------------------------------------

    def _run(self) -> Decision:
        launcher = self.seen.launcher
        trouble = self._trouble()
        trouble = trouble if self._blame(trouble) else None
        self._count()
        dead, again = self._dead()
        ended = self._launcher_ended()
        if self._all_run():
            self.draft.running()
            self._forgive()
        action, running = Launcher.LEAVE, self._running_names()
        if (launcher is None or is_suspended(launcher)) and self._may_launch():
            action = Launcher.CREATE if launcher is None else Launcher.RESUME
        return Decision(
            self.draft.status,
            status_first=bool(dead),
            trouble=trouble,
            objects=True,
            pod_group=True,
            running=running,
            complete=len(running) == self.view.workers and not ended,
            settles=ended or (not self.draft.ran and not self._is_stuck()),
            create=tuple(i for i in range(self.view.workers) if i not in self.wanted),
            delete=tuple(pod for pod in self.surplus if not is_being_deleted(pod)),
            replace=dead,
            launcher=action,
            requeue_after=again,
        )

    def _may_launch(self) -> bool:
        """Whether the launcher need not wait for workers (any more)."""
        if not self.view.waits_for_workers:
            return True
        ready = [p for p in self.wanted.values() if is_ready(p) and not is_being_deleted(p)]
        return len(ready) == self.view.workers

    def _launcher_ended(self) -> bool:
        """Whether no pod of the launcher is left; its Job will soon say what comes of that."""
        pods = self.seen.launcher_pods
        return bool(pods) and all(_phase(pod) in _FINISHED for pod in pods)

    def _is_stuck(self) -> bool:
        """Whether a pod finds no node: then what runs already is worth telling."""
        pods = (*self.wanted.values(), *self.seen.launcher_pods)
        return any(unschedulable_since(pod) is not None for pod in pods)

    def _all_run(self) -> bool:
        launchers = [pod for pod in self.seen.launcher_pods if _phase(pod) == "Running"]
        workers = [pod for pod in self.wanted.values() if _phase(pod) == "Running"]
        return bool(launchers) and len(workers) == self.view.workers

    def _running_names(self) -> tuple[str, ...]:
        return tuple(
            pod["metadata"]["name"]
            for pod in self.wanted.values()
            if _phase(pod) == "Running" and not is_being_deleted(pod)
        )

    def _dead(self) -> tuple[tuple[Obj, ...], float]:
        """Workers to replace now, and after how many seconds there may be more."""
        if not self._may_retry():
            return (), 0.0
        now, due, waits = self.seen.now, [], []
        for index, pod in self.wanted.items():
            if not self._is_dead(pod) or is_being_deleted(pod):
                continue
            # Some are refused by their node before any container is there.
            ended = failed_container(pod)[1].get("finishedAt")
            ended = moment(ended or pod["metadata"].get("creationTimestamp")) or 0.0
            wait = self.settings.replace_wait(self.seen.replaced.get(index, 0) + 1)
            left = self.seen.since(ended) + wait - now
            if left > 0:
                waits.append(left)
            else:
                due.append(pod)
        return tuple(due), min(waits, default=0.0)

    def _is_dead(self, pod: Obj) -> bool:
        """A worker that ended well before a pause is of no use after it either."""
        launcher = self.seen.launcher
        paused = launcher is not None and is_suspended(launcher)
        return is_failed(pod) or (paused and _phase(pod) == "Succeeded")

    def _may_retry(self) -> bool:
        launcher = self.seen.launcher
        if launcher is None or is_suspended(launcher):
            return True
        limit = launcher["spec"].get("backoffLimit", _BACKOFF_LIMIT)
        return int((launcher.get("status") or {}).get("failed") or 0) < int(limit)

    # --- figures ---------------------------------------------------------------------------------

    def _count(self) -> None:
        launcher = self.seen.launcher
        if launcher is not None:
            self.draft.count_launcher(
                active=sum(_phase(pod) == "Running" for pod in self.seen.launcher_pods),
                failed=int((launcher.get("status") or {}).get("failed") or 0),
            )
        # While a job is suspended, what still runs counts: its room is not free before it ends.
        counted = self.seen.workers if self.view.suspended else self.wanted.values()
        phases = [_phase(pod) for pod in counted]
        self.draft.count_workers(
            active=phases.count("Running"),
            succeeded=phases.count("Succeeded"),
            failed=phases.count("Failed"),
        )

    # --- why -------------------------------------------------------------------------------------

    def _trouble(self) -> Trouble | None:
        """The pod that explains why something failed; workers before the launcher."""
        pods = self.seen.launcher_pods
        began = [moment((pod.get("status") or {}).get("startTime")) or 0.0 for pod in pods]
        since = max(began, default=math.inf)
        found = worker_trouble(self.view.name, self.wanted.values(), since=since)
        if found is not None:
            return found
        known = self.draft.status.get("failure") or {}
        if known.get("replica") == WORKER and known.get("reason") != REASON_PROCESS:
            return None  # the launcher fails because of it
        found = launcher_trouble(self.view.name, pods)
        return None if found is None or found.failure == self.seen.explained else found

    def _blame(self, trouble: Trouble | None, reason: str = "", message: str = "") -> bool:
        """Put a failure into the status; whether it is another one than before."""
        known: Obj = self.draft.status.get("failure") or {}
        if trouble is not None:
            if _is_about(known, trouble.failure):
                return False
            self.draft.status["failure"] = dict(trouble.failure)
            return True
        if reason and (not known or reason == _DEADLINE):
            pods = [pod["metadata"]["name"] for pod in self.seen.launcher_pods]
            pod = pods[0] if pods else names.launcher_name(self.view.name)
            found: Obj = {"replica": LAUNCHER, "pod": pod, "reason": reason, "message": message}
            self.draft.status["failure"] = found
        return False

    def _forgive(self) -> None:
        """Forget a worker's failure once a launcher began after the worker was replaced."""
        known = self.draft.status.get("failure") or {}
        pod = self.wanted.get(known.get("index", -1)) if known.get("replica") == WORKER else None
        if pod is None or is_failed(pod):
            return
        made = pod["metadata"].get("creationTimestamp") or format_time(self.seen.now)
        began = [start for launcher in self.seen.launcher_pods for start in _starts(launcher)]
        if began and max(began) > made and known.get("reason") != REASON_PROCESS:
            del self.draft.status["failure"]


def _starts(pod: Obj) -> list[str]:
    """When the containers that run in a pod began."""
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    states = [(found.get("state") or {}).get("running") or {} for found in containers]
    return [state["startedAt"] for state in states if state.get("startedAt")]


def _is_about(known: Obj, failure: Obj) -> bool:
    """Whether what is known came of the same failure."""
    return {**known, "logTail": None} == {**failure, "logTail": None}
