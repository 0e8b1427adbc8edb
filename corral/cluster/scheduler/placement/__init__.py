"""The scheduler's decisions, as pure functions over plain objects.

Nodes, pods and the rest go into a ``ClusterState`` as watches bring them; out come decisions:
``schedule`` names the node for one pod, or the pods to evict for it, or the reason in
kube-scheduler's own words; ``place_group`` does the same for an all-or-nothing PodGroup;
``SchedulingQueue`` says whose turn it is and what makes another try worthwhile.

Filters, scores, weights, messages and preemption are those of kube-scheduler 1.37 with its default
configuration, less storage capacities, images and dynamic resources. No I/O, no clock and no
chance of its own: time and randomness are given by the caller. Start reading at ``cycle``.
"""

from corral.cluster.scheduler.placement.cycle import Cycle, Placement, find_node
from corral.cluster.scheduler.placement.events import (
    Action,
    GroupEvent,
    NodeEvent,
    PodEvent,
    StorageEvent,
)
from corral.cluster.scheduler.placement.gangs.gang import GangRejection, place_gang, place_group
from corral.cluster.scheduler.placement.gangs.groups import (
    COSCHEDULING,
    VOLCANO,
    GroupKey,
    PodGroup,
    group_of,
    missing_members,
    placed_members,
)
from corral.cluster.scheduler.placement.gangs.preemption import (
    GangPreemption,
    awaits_victims,
    schedule_group,
)
from corral.cluster.scheduler.placement.pods import PodInfo, is_terminal, pod_key
from corral.cluster.scheduler.placement.preemption import Preemption, Victims, schedule
from corral.cluster.scheduler.placement.queue import (
    BackoffPolicy,
    SchedulingQueue,
    gate_message,
    queue_order,
)
from corral.cluster.scheduler.placement.rejections import FitError, Rejection
from corral.cluster.scheduler.placement.state import ClusterState
from corral.cluster.scheduler.placement.storage import SELECTED_NODE, is_bound
from corral.cluster.scheduler.placement.volumes import VolumePlan

__all__ = [
    "COSCHEDULING",
    "SELECTED_NODE",
    "VOLCANO",
    "Action",
    "BackoffPolicy",
    "ClusterState",
    "Cycle",
    "FitError",
    "GangPreemption",
    "GangRejection",
    "GroupEvent",
    "GroupKey",
    "NodeEvent",
    "Placement",
    "PodEvent",
    "PodGroup",
    "PodInfo",
    "Preemption",
    "Rejection",
    "SchedulingQueue",
    "StorageEvent",
    "Victims",
    "VolumePlan",
    "awaits_victims",
    "find_node",
    "gate_message",
    "group_of",
    "is_bound",
    "is_terminal",
    "missing_members",
    "place_gang",
    "place_group",
    "placed_members",
    "pod_key",
    "queue_order",
    "schedule",
    "schedule_group",
]
