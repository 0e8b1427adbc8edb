"""What the operator tells a pod about itself, read from the environment once.

Nothing here fails: a variable that is absent or nonsense leaves its default, so that the same
script runs in a pod, on a laptop, and in a test. Without any of them the package does nothing.
"""

from __future__ import annotations

import logging
import math
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("corral.inpod")

INTERVAL = 600.0
"""Seconds between checkpoints where nobody says otherwise."""
GRACE = 30.0
"""Seconds from SIGTERM to the end; the default of Kubernetes."""


class Environment(NamedTuple):
    """The place of this process in its job."""

    job: str = ""
    namespace: str = ""
    job_uid: str = ""
    framework: str = ""
    replica: int = 0
    replicas: int = 1
    attempt: int = 0
    """Counts the generations of pods; a higher one fences off the lower ones."""
    process: int = 0
    """Of all processes of the job; the same as `replica` where a replica has one process."""
    processes: int = 1
    report_url: str = ""
    token_file: str = ""
    ca: str = ""
    """Certificates of the report endpoint's authority, PEM; empty: the system's."""
    checkpoint_dir: str = ""
    remote: bool = False
    """Whether `checkpoint_dir` is only for staging, and the operator hands out places to put."""
    peers: str = ""
    """The folder with the checkpoints of all copies of the job, one folder each; `checkpoint_dir`
    is one of them. A start takes the newest of any copy. Empty: there are no copies."""
    keep: int = 0
    """How many checkpoints stay on a volume; 0: the operator says which go."""
    interval: float = INTERVAL
    restore_from: str = "latest"
    grace: float = GRACE

    @property
    def is_writer(self) -> bool:
        """Whether this process writes the checkpoints that are not sharded."""
        return self.process == 0


def read(env: Mapping[str, str] | None = None) -> Environment:
    """The environment of this process."""
    env = os.environ if env is None else env
    replica = _count(env, "CORRAL_REPLICA", 0)
    replicas = max(_count(env, "CORRAL_REPLICAS", 1), replica + 1)
    local, locals_ = _local(env)
    return Environment(
        job=env.get("CORRAL_JOB", ""),
        namespace=env.get("CORRAL_NAMESPACE", ""),
        job_uid=env.get("CORRAL_JOB_UID", ""),
        framework=env.get("CORRAL_FRAMEWORK", ""),
        replica=replica,
        replicas=replicas,
        attempt=_count(env, "CORRAL_ATTEMPT", 0),
        process=replica * locals_ + local,
        processes=replicas * locals_,
        report_url=env.get("CORRAL_REPORT_URL", "").rstrip("/"),
        token_file=env.get("CORRAL_REPORT_TOKEN_FILE", ""),
        ca=env.get("CORRAL_REPORT_CA", ""),
        checkpoint_dir=env.get("CORRAL_CHECKPOINT_DIR", ""),
        remote=env.get("CORRAL_CHECKPOINT_STORE", "volume") == "remote",
        peers=env.get("CORRAL_CHECKPOINT_PEERS", ""),
        keep=_count(env, "CORRAL_CHECKPOINT_KEEP", 0),
        interval=_seconds(env, "CORRAL_CHECKPOINT_INTERVAL", INTERVAL),
        restore_from=env.get("CORRAL_RESTORE_FROM", "") or "latest",
        grace=_seconds(env, "CORRAL_GRACE_SECONDS", GRACE),
    )


def _local(env: Mapping[str, str]) -> tuple[int, int]:
    """Which of how many processes of this pod: launchers like torchrun set both."""
    count = max(_count(env, "LOCAL_WORLD_SIZE", 1), 1)
    rank = _count(env, "LOCAL_RANK", 0)
    return (rank, count) if rank < count else (0, 1)


def _count(env: Mapping[str, str], name: str, default: int) -> int:
    value = _seconds(env, name, default)
    return int(value)


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        log.warning("%s=%r is not a number >= 0; %s is used", name, text, default)
        return default
    return value
