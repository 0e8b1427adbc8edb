"""What is told about machines when something has become of them: events, and figures."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from corral.api.spot.vm import CLOUDS
from corral.families.spot.machines.entries import RUNNING, STATES, TERMINATED, is_over
from corral.kube.types import Obj
from corral.runtime.conditions import set_condition
from corral.runtime.events.recorder import EventRecorder
from corral.runtime.informers.informer import Informer
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment

__all__ = ["LIMITED", "MachineMetrics", "Teller", "within_limits"]

_BUCKETS: Final = (1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0)
_ORDERLY: Final = "Deleted"
LIMITED: Final = "WithinLimits"
"""The condition that says whether machines were refused for their number."""


def _count(vms: Informer, cloud: str, state: str) -> float:
    found = (
        entry
        for vm in vms.store.objects()
        for entry in (vm.get("status") or {}).get("provisionedInstances") or ()
    )
    return float(
        sum(
            entry.get("state") == state and entry.get("cloud") == cloud and not is_over(entry)
            for entry in found
        )
    )


def within_limits(
    status: Obj, old: Sequence[Obj], new: Sequence[Obj], *, now: float, generation: int | None
) -> None:
    """Write down which limit a machine was refused for, until one is made again."""
    before = {entry["name"]: entry for entry in old}
    conditions = status.setdefault("conditions", [])
    for entry in new:
        was = before.get(entry["name"], {})
        refused = entry.get("reason") == "QuotaExceeded" != was.get("reason")
        made = entry.get("state") == RUNNING != was.get("state")
        if refused or (made and any(each["type"] == LIMITED for each in conditions)):
            set_condition(
                conditions,
                LIMITED,
                status="False" if refused else "True",
                reason="QuotaExceeded" if refused else "MachinesMade",
                message=str(entry.get("message") or "") if refused else "",
                now=format_time(now),
                observed_generation=generation,
            )


class MachineMetrics:
    """In the registry that is passed in; once a process."""

    def __init__(self, registry: CollectorRegistry, vms: Informer) -> None:
        count = Gauge(
            "corral_spot_machines",
            "Machines of spot jobs that there are, by state",
            ["cloud", "state"],
            registry=registry,
        )
        for cloud in CLOUDS:
            for state in STATES:
                count.labels(cloud, state).set_function(partial(_count, vms, cloud, state))
        self.made = Counter(
            "corral_spot_machines_made_total",
            "Machines that clouds have made for spot jobs",
            ["cloud", "model"],
            registry=registry,
        )
        self.ended = Counter(
            "corral_spot_machines_ended_total",
            "Machines of spot jobs that have ended or were refused, by reason",
            ["cloud", "reason"],
            registry=registry,
        )
        self.notices = Counter(
            "corral_spot_preemption_notices_total",
            "Machines of spot jobs whose clouds have announced that they take them",
            ["cloud"],
            registry=registry,
        )
        self.ready = Histogram(
            "corral_spot_machine_ready_seconds",
            "From the wish for a machine to a node that is ready",
            ["cloud"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self.swept = Counter(
            "corral_spot_machines_swept_total",
            "Machines that nothing owned any more, and that were deleted",
            ["cloud"],
            registry=registry,
        )


class Teller:
    """Tells what has changed, after it was written."""

    def __init__(self, recorder: EventRecorder, metrics: MachineMetrics | None) -> None:
        self._recorder = recorder
        self._metrics = metrics

    def changed(self, vm: Obj, old: Sequence[Obj], new: Sequence[Obj], *, now: float) -> None:
        """A status was written."""
        before = {entry["name"]: entry for entry in old}
        for entry in new:
            known = before.get(entry["name"], {})
            if known.get("requestID") != entry.get("requestID"):
                known = {}
            self._of_one(vm, known, entry, now=now)

    def _of_one(self, vm: Obj, old: Obj, new: Obj, *, now: float) -> None:
        name, cloud = new["name"], new.get("cloud") or ""
        metrics = self._metrics
        if new.get("instanceID") and not old.get("instanceID"):
            where = f"{new.get('machineType')} in {new.get('zone')} of {cloud}"
            self._recorder.normal(vm, "MachineCreated", f"machine {name}: {where}")
            if metrics:
                metrics.made.labels(cloud, new.get("provisioningModel") or "").inc()
        if new.get("joinedCluster") and not old.get("joinedCluster"):
            self._recorder.normal(vm, "MachineReady", f"machine {name} is a node")
            wished = moment(new.get("creationTime"))
            if metrics and wished is not None:
                metrics.ready.labels(cloud).observe(max(now - wished, 0.0))
        if new.get("preemptionDeadline") and not old.get("preemptionDeadline"):
            words = f"machine {name} will be taken at {new['preemptionDeadline']}"
            self._recorder.warning(vm, "PreemptionNotice", words)
            if metrics:
                metrics.notices.labels(cloud).inc()
        if new.get("state") == TERMINATED and old.get("state") != TERMINATED:
            self._of_end(vm, new, cloud)

    def _of_end(self, vm: Obj, entry: Obj, cloud: str) -> None:
        reason = entry.get("reason") or _ORDERLY
        words = f"machine {entry['name']}: {entry.get('message') or reason}"
        if reason == _ORDERLY:
            self._recorder.normal(vm, "MachineDeleted", f"machine {entry['name']} is gone")
        else:
            self._recorder.warning(vm, f"Machine{reason}", words)
        if self._metrics:
            self._metrics.ended.labels(cloud, reason).inc()
