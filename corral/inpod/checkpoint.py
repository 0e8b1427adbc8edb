"""When to save, and what happens when the process is told to stop.

A checkpoint is taken when it is due by time, asked for, forced, or the last chance after SIGTERM.
save() runs in the caller's thread into a hidden folder; when `maybe` returns, the training may
change its state again. One that is due by time is put off while the one before is still being
published; the others wait for that.
"""

from __future__ import annotations

import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from . import values
from .publishing import Saved
from .signals import EXIT_CODE
from .volume.plans import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from .environment import Environment
    from .publishing import Publisher
    from .reporting import Commands
    from .signals import Termination
    from .volume.plans import Plans
    from .volume.staging import Staging
    from .volume.volume import Volume

log = logging.getLogger("corral.inpod")

MARGIN = 2.0
"""Seconds of the grace period that are left for leaving."""
RETRY = 30.0
"""Seconds after which a checkpoint that failed is tried again, if that is before its time."""
FOLLOW = 5.0
"""Seconds that a replica which writes nothing goes on after SIGTERM, so that the writer is not
left alone in the middle of a step."""
HEAD_START = 15.0
"""Seconds that the operator has to plan a sharded checkpoint before the replicas do so."""
_GLANCE = 0.5
"""Seconds between two looks at the volume, where the exact step does not matter."""


class Reason(NamedTuple):
    """Why a checkpoint is taken now."""

    why: str
    request: str | None = None
    waits: bool = True
    """Whether it waits for the one before; else it is put off."""
    final: bool = False
    """Whether the process ends with it."""


class Checkpointer:
    """Decides for one process; used from one thread."""

    def __init__(
        self,
        environment: Environment,
        *,
        staging: Staging,
        publisher: Publisher,
        commands: Commands,
        termination: Termination,
        plans: Plans | None,
        volume: Volume | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._environment = environment
        self._staging = staging
        self._publisher = publisher
        self._commands = commands
        self._termination = termination
        self._plans = plans
        self._volume = volume
        self._clock = clock
        self._last = clock()
        self._last_step: int | None = None
        self._glanced = -_GLANCE
        self._planned: Plan | None = None
        self._answered: set[str] = set()
        self._previous: tuple[int, float] | None = None
        self._step_seconds = 0.0
        # The published checkpoint when SIGTERM came; a later one means that the writer is done.
        self._latest_then: str | None = None
        self._following = False

    def maybe(
        self,
        save: Callable[[Path], object],
        *,
        step: int,
        metrics: Mapping[str, Any],
        sharded: bool,
        force: bool,
    ) -> bool:
        """Takes a checkpoint if there is a reason to.

        Raises:
            SystemExit: after the last one, if the process was told to stop.
            Exception: whatever `save` raises.
        """
        self._measure(step)
        if self._commands.stop:
            self._termination.request()
        if self._commands.fenced or self._publisher.fenced:
            return self._leave_if_stopped()
        shared = sharded and self._environment.processes > 1
        if not shared and not self._environment.is_writer:
            return self._follow()
        reason = self._shared_reason(step, force) if shared else self._reason(step, force)
        if reason is None or not self._make_room(reason):
            return False
        if not (reason.final and step == self._last_step and not self._publisher.failed):
            self._take(save, step, metrics, shared, reason)
        if reason.final:
            self._leave(f"step {step} is saved")
        return True

    def finish(self) -> None:
        """Waits for the work in the background; after SIGTERM only as long as there is time."""
        in_time = self._publisher.wait(self._left())
        if not in_time or self._publisher.unfinished:
            log.error("the last checkpoint was not finished; the one before is the newest")

    def give_up(self) -> None:
        """Ends what is still being tried."""
        self._publisher.cancel()

    def _take(
        self,
        save: Callable[[Path], object],
        step: int,
        metrics: Mapping[str, Any],
        sharded: bool,
        reason: Reason,
    ) -> None:
        began = time.time()
        folder = self._staging.open()
        try:
            save(folder.path)
        except BaseException:
            folder.discard()
            raise
        # Only now: reading a metric may mean to wait for an accelerator.
        numbers = values.metrics(metrics)
        self._publisher.submit(Saved(folder, step, numbers, sharded, reason.request, began))
        self._last, self._last_step = self._clock(), step
        if reason.request is not None:
            self._answered.add(reason.request)
        log.info("saved step %d (%s) in %.2f s", step, reason.why, time.time() - began)

    def _reason(self, step: int, force: bool) -> Reason | None:
        request = self._open_request()
        if self._termination.since is not None:
            return Reason("told to stop", request, final=True)
        if force:
            return Reason("forced", request)
        if request is not None:
            return Reason("asked for", request)
        if self._is_requested():
            return Reason("another replica stops")
        return Reason("due", waits=False) if self._is_due() else None

    def _shared_reason(self, step: int, force: bool) -> Reason | None:
        """All processes must come to the same answer at the same step."""
        stopping = self._termination.since is not None
        plan = self._plans.read(self._environment.attempt) if self._plans is not None else None
        if force or step == self._commands.checkpoint_at:
            return Reason("planned", self._open_request(), final=stopping)
        if plan is not None and plan.step == step:
            return Reason("planned", plan.request, final=stopping)
        if stopping and (self._plans is None or self._has_no_time()):
            return Reason("told to stop", final=True)
        agreed = plan is not None and plan.step is not None and plan.step > step
        if stopping or (self._environment.is_writer and self._is_planning_due(step)):
            if not agreed:
                self._agree(step + 1)
        return None

    def _is_planning_due(self, step: int) -> bool:
        at = self._commands.checkpoint_at
        if self._plans is None or (at is not None and at > step):
            return False
        # The operator plans as well; it gets a head start as long as it answers.
        heard = self._commands.answered
        slack = HEAD_START if heard is not None and self._clock() - heard < HEAD_START else 0.0
        return self._is_due(slack) or (not slack and self._open_request() is not None)

    def _agree(self, step: int) -> None:
        if self._plans is not None:
            with _warned("the others cannot be told of the checkpoint"):
                plan = Plan(self._environment.attempt, step, self._open_request())
                self._plans.write(plan)

    def _has_no_time(self) -> bool:
        """Whether another step would take what is left for saving."""
        left = self._left()
        return left is not None and self._step_seconds > left / 2

    def _is_due(self, slack: float = 0.0) -> bool:
        interval = self._commands.interval or self._environment.interval
        if self._publisher.failed:
            interval = min(interval, RETRY)
        return self._clock() - self._last >= interval + slack

    def _open_request(self) -> str | None:
        request = self._commands.checkpoint_now
        return request if request is not None and request not in self._answered else None

    def _is_requested(self) -> bool:
        """Whether a replica that does not write has asked for one through the volume."""
        if self._plans is None or self._environment.processes == 1 or not self._may_glance():
            return False
        plan = self._plans.read(self._environment.attempt)
        if plan is None or plan.step is not None or plan == self._planned:
            return False
        self._planned = plan
        return True

    def _follow(self) -> bool:
        """A replica that writes nothing: after SIGTERM it stays until the writer has saved."""
        since = self._termination.since
        if since is None:
            return False
        if not self._following:
            self._following = True
            self._latest_then = self._volume.latest() if self._volume is not None else None
            if self._plans is not None:
                with _warned("the writer cannot be asked for a checkpoint"):
                    wish = Plan(self._environment.attempt, None, None)
                    self._plans.write(wish)
            return False
        if self._volume is None:
            if self._clock() - since >= FOLLOW:
                self._leave("this replica writes no checkpoints")
        elif self._may_glance() and self._volume.latest() != self._latest_then:
            self._leave("the checkpoint is there")
        elif (self._left() or 0.0) < FOLLOW:
            self._leave("the writer has not saved, and there is no more time")
        return False

    def _leave_if_stopped(self) -> bool:
        if self._termination.since is not None:
            self._leave("a newer attempt of the job has begun")
        return False

    def _leave(self, why: str) -> None:
        self.finish()
        log.info("leaving as SIGTERM asked: %s", why)
        raise SystemExit(EXIT_CODE)

    def _make_room(self, reason: Reason) -> bool:
        if not reason.waits:
            return not self._publisher.busy
        self._publisher.wait(self._left())
        return True

    def _left(self) -> float | None:
        """Seconds of the grace period, or of the machine; None while nobody asked to stop."""
        since = self._termination.since
        if since is None:
            return None
        left = since + self._environment.grace - self._clock()
        if self._commands.deadline is not None:
            left = min(left, self._commands.deadline - time.time())
        return max(left - MARGIN, 0.0)

    def _may_glance(self) -> bool:
        now = self._clock()
        if now - self._glanced < _GLANCE:
            return False
        self._glanced = now
        return True

    def _measure(self, step: int) -> None:
        now = self._clock()
        if self._previous is not None and step > self._previous[0]:
            self._step_seconds = (now - self._previous[1]) / (step - self._previous[0])
        self._previous = (step, now)


@contextlib.contextmanager
def _warned(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        log.warning("%s: %s", what, error)
