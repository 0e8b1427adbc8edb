"""Deployments and the replica sets they are made of: decisions without I/O.

``sync_deployment`` yields the steps of one pass over a deployment; ``plan_replicas`` and
``replica_status`` are the whole of a replica set.
"""

from __future__ import annotations

from corral.cluster.workloads.deployment.replicaset import (
    ReplicaPlan,
    claim_pods,
    is_available,
    next_availability,
    plan_replicas,
    replica_status,
    terminating_count,
)
from corral.cluster.workloads.deployment.steps import (
    CreateSet,
    DeleteSet,
    Pass,
    Step,
    UpdateDeployment,
    UpdateSet,
    WriteStatus,
)
from corral.cluster.workloads.deployment.sync import claim_sets, sync_deployment
from corral.cluster.workloads.steps import Answer, Emit, Verdict

__all__ = [
    "Answer",
    "CreateSet",
    "DeleteSet",
    "Emit",
    "Pass",
    "ReplicaPlan",
    "Step",
    "UpdateDeployment",
    "UpdateSet",
    "Verdict",
    "WriteStatus",
    "claim_pods",
    "claim_sets",
    "is_available",
    "next_availability",
    "plan_replicas",
    "replica_status",
    "sync_deployment",
    "terminating_count",
]
