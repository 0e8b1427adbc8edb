"""The names of `corral.kube.pods` where families look for them."""

from corral.kube.pods import (
    PodState,
    conditions_of,
    ended_containers,
    is_deleting,
    is_ready,
    is_scheduled,
    is_terminal,
    pod_state,
    unschedulable_since,
)
from corral.kube.times import parse_time as moment

__all__ = [
    "PodState",
    "conditions_of",
    "ended_containers",
    "is_deleting",
    "is_ready",
    "is_scheduled",
    "is_terminal",
    "moment",
    "pod_state",
    "unschedulable_since",
]
