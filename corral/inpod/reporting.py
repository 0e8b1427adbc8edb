"""Reports in the background: the newest one wins, and training never waits for it.

A thread of its own posts at most one report a second over one connection, repeats what was not
answered with back-off, and reads commands from the answers. Announcements of checkpoints go the
same way, but each of them until it is answered. Where the endpoint is away for long, only
progress is lost; at exit both get a bounded time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from .errors import CorralError, Fenced, Refused, Unavailable
from .patience import Backoff
from .values import warn_once

if TYPE_CHECKING:
    from collections.abc import Callable

    from .client import Client
    from .environment import Environment

log = logging.getLogger("corral.inpod")

PACE = 1.0
"""Seconds between two reports at least."""
HEARTBEAT = 10.0
"""Seconds after which the last report is repeated, for the sake of the commands."""


class Commands:
    """What the operator asked for last. Written by one thread, each member at once."""

    checkpoint_at: int | None = None
    """The step at which all replicas shall save. It stays until the next one is named: the
    answer to a report of that very step does not name it any more."""
    checkpoint_now: str | None = None
    """The request that a checkpoint shall answer."""
    interval: float | None = None
    """Seconds between two checkpoints, as the operator wants it."""
    deadline: float | None = None
    """When the machine will be taken, in seconds since the epoch."""
    stop: bool = False
    fenced: bool = False
    """A newer attempt has begun: nothing that this process does counts any more."""
    answered: float | None = None
    """When the operator answered last, on the monotonic clock."""

    def read(self, answer: dict[str, Any]) -> None:
        """Takes over an answer; what is not understood counts as absent."""
        at, now = answer.get("checkpointAt"), answer.get("checkpointNow")
        interval = answer.get("interval")
        if isinstance(at, int) and not isinstance(at, bool):
            self.checkpoint_at = at
        if isinstance(interval, (int, float)) and interval > 0:
            self.interval = float(interval)
        self.checkpoint_now = now if isinstance(now, str) and now else None
        deadline = answer.get("deadline")
        self.deadline = float(deadline) if isinstance(deadline, (int, float)) else None
        self.stop = answer.get("stop") is True
        self.answered = time.monotonic()


class Reporter:
    """The background thread and what it has to say. All members are guarded by the condition."""

    def __init__(
        self,
        environment: Environment,
        client: Client,
        *,
        on_delete: Callable[[list[str]], None] | None = None,
        pace: float = PACE,
        heartbeat: float = HEARTBEAT,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.commands = Commands()
        self._environment = environment
        self._client = client
        self._on_delete = on_delete
        self._pace = pace
        self._heartbeat = heartbeat
        self._backoff = backoff or Backoff()
        self._clock = clock
        self._changed = threading.Condition()
        self._sample: dict[str, Any] = {}
        self._facts: dict[str, Any] = {}
        self._sharded: bool | None = None
        # What was said, and what of it was heard.
        self._reported = 0
        self._acknowledged = 0
        self._outbox: deque[tuple[str, dict[str, Any]]] = deque()
        self._next = 0.0
        self._hurry = False
        self._failing = False
        self._closed = False
        self._thread: threading.Thread | None = None

    def report(self, sample: dict[str, Any]) -> None:
        """Replaces what was to be reported so far."""
        with self._changed:
            self._sample = {**sample, "time": time.time()}
            self._say()

    def note_step(self, step: int, *, sharded: bool) -> None:
        """The training has come to this step, even if it reports nothing else."""
        with self._changed:
            self._sharded = sharded
            if self._sample.get("step") != step:
                self._sample = {**self._sample, "step": step, "time": time.time()}
                self._say()

    def tell(self, **facts: Any) -> None:
        """Adds facts that are told once: restored, rejected, deleted. Lists grow."""
        with self._changed:
            for name, value in facts.items():
                if isinstance(value, list):
                    value = [*self._facts.get(name, []), *value]
                self._facts[name] = value
            self._say()

    def announce(self, path: str, body: dict[str, Any]) -> None:
        """Queues a call that must not be lost."""
        with self._changed:
            self._outbox.append((path, body))
            self._say()

    def flush(self, timeout: float) -> bool:
        """Waits until all is said, without regard to the pace; whether it was."""
        with self._changed:
            self._hurry = True
            self._changed.notify_all()
            return self._changed.wait_for(self._is_idle, timeout)

    def close(self) -> None:
        """Ends the thread, unless the call that is under way takes long: then it ends later."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(2.0)

    @property
    def unannounced(self) -> int:
        """How many calls of the outbox were not answered yet."""
        with self._changed:
            return len(self._outbox)

    def _is_idle(self) -> bool:
        settled = self._acknowledged == self._reported and not self._outbox
        return settled or self._is_over() or self._thread is None

    def _is_over(self) -> bool:
        return self.commands.fenced or self._closed

    def _say(self) -> None:
        # A thread that has something to say already waits for its time: leave it asleep.
        asleep = self._reported != self._acknowledged
        self._reported += 1
        if self._thread is None and not self._is_over():
            # A daemon: it must not keep the process alive; `flush` at exit is what waits for it.
            self._thread = threading.Thread(target=self._run, name="corral-report", daemon=True)
            self._thread.start()
        if not asleep:
            self._changed.notify_all()

    def _run(self) -> None:
        while not self._is_over():
            with self._changed:
                if not self._is_due() and self._wait() > 0:
                    self._changed.wait(self._wait())
                    continue
                self._hurry = False
                reported = self._reported
                call = self._outbox[0] if self._outbox else ("report", self._body())
            self._exchange(call, reported)
        self._client.close()
        with self._changed:
            self._changed.notify_all()

    def _is_due(self) -> bool:
        waiting = self._reported != self._acknowledged or bool(self._outbox)
        return waiting and (self._hurry or self._clock() >= self._next)

    def _wait(self) -> float:
        waiting = self._reported != self._acknowledged or bool(self._outbox)
        until = self._next if waiting else self._next + self._heartbeat
        return max(until - self._clock(), 0.0)

    def _body(self) -> dict[str, Any]:
        place = {"replica": self._environment.replica, "attempt": self._environment.attempt}
        sharded = {} if self._sharded is None else {"sharded": self._sharded}
        return {**self._sample, **sharded, **self._facts, **place}

    def _exchange(self, call: tuple[str, dict[str, Any]], reported: int) -> None:
        try:
            answer = self._client.post(*call)
        except Fenced as error:
            log.error("this attempt of the job is over: %s", error)
            self.commands.fenced = True
        except Refused as error:
            if call[0] == "report" and error.status in (403, 404):
                self._postpone(error)  # the job may be on its way in or out: no reason to hammer
                return
            warn_once(call[0], f"the operator refused {call[0]}: {error}")
            self._settle(call, reported)
        except Unavailable as error:
            self._postpone(error)
        except Exception:
            log.exception("a report could not be made")
            self._settle(call, reported)
        else:
            self._settle(call, reported)
            if call[0] == "report":
                self._obey(answer)

    def _obey(self, answer: dict[str, Any]) -> None:
        self.commands.read(answer)
        doomed = answer.get("delete")
        if self._on_delete is not None and isinstance(doomed, list) and doomed:
            self._on_delete([name for name in doomed if isinstance(name, str)])

    def _settle(self, call: tuple[str, dict[str, Any]], reported: int) -> None:
        with self._changed:
            if self._failing:
                log.info("the operator answers again")
                self._failing = False
            self._backoff.reset()
            if call[0] == "report":
                self._acknowledged = reported
                self._forget(call[1])
                self._next = self._clock() + self._pace
            else:
                self._outbox.popleft()
            self._changed.notify_all()

    def _forget(self, body: dict[str, Any]) -> None:
        """Drops the facts that were told; those that came meanwhile stay."""
        for name, delivered in body.items():
            now = self._facts.get(name)
            if isinstance(now, list) and isinstance(delivered, list):
                now = now[len(delivered) :]
            if not now or now is delivered:
                self._facts.pop(name, None)
            else:
                self._facts[name] = now

    def _postpone(self, error: CorralError) -> None:
        with self._changed:
            if not self._failing:
                log.warning("reports wait for the operator; training goes on: %s", error)
                self._failing = True
            self._next = self._clock() + self._backoff.next()
