"""Names, labels and paths that a WasmTask's objects have."""

from __future__ import annotations

from typing import Final

from corral.api.propeller.kinds import GROUP
from corral.runtime.pods.couriers import COURIER, FETCHER, FL_DIR

__all__ = [
    "ATTEMPT_LABEL",
    "CANCEL_ANNOTATION",
    "CONTAINER",
    "COURIER",
    "FETCHER",
    "FL_DIR",
    "JOB_LABEL",
    "JOB_NAME_LABEL",
    "MODULE",
    "MODULE_DIR",
    "PROPLET_ID_LABEL",
    "TASK_LABEL",
    "config_name",
    "job_name",
    "module_name",
    "result_name",
]

TASK_LABEL: Final = f"{GROUP}/task"
"""On everything that belongs to a task: its name."""
ATTEMPT_LABEL: Final = f"{GROUP}/attempt"
"""On the Job and its pods: how often the task has begun anew on another proplet."""
PROPLET_ID_LABEL: Final = f"{GROUP}/proplet"
"""On the Job and its pods: the proplet they are bound to."""
JOB_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
"""On pods, also on those of daemons: by this label they are found."""
JOB_LABEL: Final = "federated-job"
"""On tasks of rounds: the FederatedJob."""
CANCEL_ANNOTATION: Final = f"{GROUP}/cancelled"
"""On a task: it is to end at once, for the reason that is written here."""

CONTAINER: Final = "wasm-task"
MODULE_DIR: Final = "/module"
MODULE: Final = "module.wasm"


def config_name(task: str) -> str:
    return f"{task}-config"


def job_name(task: str) -> str:
    return f"{task}-job"


def module_name(task: str) -> str:
    return f"{task}-module"


def result_name(task: str) -> str:
    """The ConfigMap or Secret in which a task may leave its result."""
    return f"{job_name(task)}-result"
