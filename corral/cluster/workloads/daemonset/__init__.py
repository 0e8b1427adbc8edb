"""Daemon sets: one pod on every node that wants one; decisions without I/O.

A pass: ``plan_history`` first, then ``plan_pods`` with the hash of the current revision, then
``revisions_to_drop`` and ``daemon_status``. Nothing at all while the set is being deleted.
"""

from __future__ import annotations

from corral.cluster.workloads.daemonset.history import (
    HistoryPlan,
    plan_history,
    revisions_to_drop,
)
from corral.cluster.workloads.daemonset.nodes import node_check, target_node
from corral.cluster.workloads.daemonset.plan import (
    DaemonPlan,
    NodeBackoff,
    claim_pods,
    daemon_status,
    next_look,
    plan_pods,
)

__all__ = [
    "DaemonPlan",
    "HistoryPlan",
    "NodeBackoff",
    "claim_pods",
    "daemon_status",
    "next_look",
    "node_check",
    "plan_history",
    "plan_pods",
    "revisions_to_drop",
    "target_node",
]
