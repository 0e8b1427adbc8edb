"""One training process: its environment and everything that works for it.

It is put together on first use, so that importing the package costs nothing and does nothing.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

from . import values
from .checkpoint import Checkpointer
from .client import Client
from .errors import CheckpointError, CorralError, Fenced
from .patience import Backoff, Patience
from .publishing import Publisher
from .remote import Downloads, RemoteTarget
from .reporting import PACE, Commands, Reporter
from .restoring import Restorer
from .signals import Termination
from .volume.local import LocalTarget
from .volume.plans import Plans
from .volume.staging import Staging
from .volume.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from .environment import Environment
    from .restoring import Restored

log = logging.getLogger("corral.inpod")

REPORT_PATIENCE = 2.0
"""Seconds that reports get at exit."""
ANNOUNCE_PATIENCE = 10.0
"""Seconds that the announcement of a checkpoint gets at exit."""
RESTORE_PATIENCE = 120.0
"""Seconds that the operator and the store may be away when training starts."""


class Replica:
    """What a training process does with Corral."""

    def __init__(
        self,
        environment: Environment,
        *,
        pace: float = PACE,
        backoff: Callable[[], Backoff] = Backoff,
    ) -> None:
        """Reads and starts nothing yet.

        Args:
            environment: the place of the process in its job.
            pace: seconds between two reports at least.
            backoff: delays between the tries of whatever is not answered.
        """
        self._environment = environment
        self._backoff = backoff
        self._lock = threading.Lock()
        self._begun = False
        self._termination = Termination()
        self._volume = _volume(environment)
        self._reporter = self._make_reporter(pace)
        self._local, self._checkpointer = self._make_checkpointer()

    def report(
        self,
        step: int,
        *,
        total: int | None = None,
        epoch: float | None = None,
        metrics: Mapping[str, Any],
    ) -> None:
        """Says how far the training is; never raises."""
        if self._reporter is None:
            return
        sample = {
            "step": values.count("step", step),
            "total": values.count("total", total),
            "epoch": values.count("epoch", epoch),
            "metrics": values.metrics(metrics),
        }
        self._reporter.report({name: value for name, value in sample.items() if value is not None})

    def restore(self) -> Restored | None:
        """What to start from.

        Raises:
            RestoreError: see `Restorer.restore`.
        """
        self._begin()
        environment = self._environment
        downloads = None
        if environment.report_url:
            downloads = Downloads(environment)
        restorer = Restorer(
            environment,
            downloads=downloads,
            patience=lambda: Patience(RESTORE_PATIENCE, backoff=self._backoff()),
        )
        try:
            found = restorer.restore()
        finally:
            if downloads is not None:
                downloads.close()
            self._tell_rejected(restorer)
        if found is not None and self._reporter is not None:
            self._reporter.tell(restored={"id": found.id, "step": found.step})
        return found

    def maybe_checkpoint(
        self,
        save: Callable[[Path], object],
        *,
        step: int,
        metrics: Mapping[str, Any] | None = None,
        sharded: bool = False,
        force: bool = False,
    ) -> bool:
        """Save a checkpoint if one is due, as described at `corral.inpod.maybe_checkpoint`."""
        at = values.count("step", step)
        if at is None:
            raise CheckpointError(f"step={step!r} is not a whole number >= 0")
        if self._reporter is not None:
            self._reporter.note_step(at, sharded=sharded)
        if self._checkpointer is None:
            return False
        self._termination.install()
        self._begin()
        return self._checkpointer.maybe(
            save, step=at, metrics=metrics or {}, sharded=sharded, force=force
        )

    def flush(self) -> None:
        """Finishes what is under way, in bounded time where somebody else must answer."""
        if self._checkpointer is not None:
            self._checkpointer.finish()
        if self._reporter is None:
            return
        waits = ANNOUNCE_PATIENCE if self._reporter.unannounced else REPORT_PATIENCE
        self._reporter.flush(waits)
        if self._reporter.unannounced:
            log.warning(
                "the operator does not know of %d checkpoints; the next start tells it again",
                self._reporter.unannounced,
            )

    def close(self) -> None:
        """`flush`, then leaves everything as it was before the first use."""
        self.flush()
        if self._checkpointer is not None:
            self._checkpointer.give_up()
        if self._reporter is not None:
            self._reporter.close()
        self._termination.uninstall()

    def _begin(self) -> None:
        """What the first use of the checkpoints does: claim the attempt, clean up, announce."""
        with self._lock:
            begun, self._begun = self._begun, True
        if begun or self._local is None or self._volume is None:
            return
        try:
            self._volume.claim(self._environment.attempt)
            # By all of them before they restore, or one might not see what another completes.
            self._local.complete_sets()
            if self._environment.is_writer:
                Staging(self._volume.root, self._environment.attempt).sweep()
                self._local.sweep()
                self._local.announce_all()
        except Fenced as error:
            log.error("no checkpoints will be written: %s", error)
        except (CorralError, OSError) as error:
            log.warning("%s cannot be prepared: %s", self._volume.root, error)

    def _make_reporter(self, pace: float) -> Reporter | None:
        environment = self._environment
        if not environment.report_url:
            return None
        return Reporter(
            environment,
            Client(environment),
            on_delete=self._delete,
            pace=pace,
            backoff=self._backoff(),
        )

    def _make_checkpointer(self) -> tuple[LocalTarget | None, Checkpointer | None]:
        environment = self._environment
        if not environment.checkpoint_dir:
            return None, None
        local: LocalTarget | None = None
        if self._volume is not None:
            local = LocalTarget(environment, self._volume, self._announce)
            publish = local.publish
        elif environment.report_url:
            publish = RemoteTarget(environment).publish
        else:
            log.warning("CORRAL_CHECKPOINT_STORE=remote needs CORRAL_REPORT_URL: no checkpoints")
            return None, None
        return local, Checkpointer(
            environment,
            staging=Staging(environment.checkpoint_dir, environment.attempt),
            publisher=Publisher(publish, backoff=self._backoff),
            commands=self._reporter.commands if self._reporter is not None else Commands(),
            termination=self._termination,
            plans=Plans(self._volume.root) if self._volume is not None else None,
            volume=self._volume,
        )

    def _announce(self, body: dict[str, Any]) -> None:
        if self._reporter is not None:
            self._reporter.announce("checkpoints", body)

    def _tell_rejected(self, restorer: Restorer) -> None:
        if self._reporter is None or not restorer.rejected:
            return
        rejected = [
            {"id": item.checkpoint, "reason": item.reason, "message": item.message}
            for item in restorer.rejected[:100]
        ]
        self._reporter.tell(rejected=rejected)

    def _delete(self, identifiers: list[str]) -> None:
        """Retention on a volume: the operator says what, the writer does it."""
        if self._volume is None or not self._environment.is_writer or self._reporter is None:
            return
        deleted = []
        for identifier in identifiers:
            try:
                self._volume.delete(identifier)
                deleted.append(identifier)
            except (OSError, ValueError) as error:
                message = f"checkpoint {identifier} cannot be deleted: {error}"
                values.warn_once(f"delete {identifier}", message)
        if deleted:
            self._reporter.tell(deleted=deleted)


def _volume(environment: Environment) -> Volume | None:
    if not environment.checkpoint_dir or environment.remote:
        return None
    return Volume(environment.checkpoint_dir)
