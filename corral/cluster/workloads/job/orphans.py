"""Which pods a job owns, and which are left with the finalizer of a job that is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.cluster.workloads.job import names
from corral.cluster.workloads.job.state import finished_condition, has_finalizer, managed_by_other
from corral.cluster.workloads.pods import (
    Claims,
    claim,
    controller_of,
    controller_reference,
    finalizer_removal,
    uid,
)
from corral.kube.types import Obj

__all__ = ["FREE_POD", "claim_pods", "is_abandoned"]

FREE_POD: Obj = finalizer_removal(names.TRACKING_FINALIZER)
"""The strategic merge patch that takes the tracking finalizer off a pod."""


def claim_pods(job: Obj, pods: Iterable[Obj]) -> Claims:
    """Sorts pods into the job's own, orphans to adopt and pods to release."""
    return claim(
        job,
        pods,
        controller_reference(job, names.API_VERSION, names.KIND),
        selector=job["spec"].get("selector"),
        finalizers=(names.TRACKING_FINALIZER,),
    )


def is_abandoned(pod: Obj, find_job: Callable[[str, str], Obj | None]) -> bool:
    """No pass over a job will ever take this pod's tracking finalizer off: do it now.

    ``find_job`` finds a job by namespace and name.
    """
    if not has_finalizer(pod):
        return False
    reference = controller_of(pod)
    if reference is None:
        return True
    if (reference.get("kind"), reference.get("apiVersion")) != (names.KIND, names.API_VERSION):
        return False
    job = find_job(pod["metadata"].get("namespace", ""), reference.get("name", ""))
    if job is None or uid(job) != reference.get("uid"):
        return True
    return not managed_by_other(job) and finished_condition(job) is not None
