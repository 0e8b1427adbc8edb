"""What is known of a spot job when it is looked at: machines, Jobs, pods and nodes. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, Self

from corral.api.spot.kinds import PREEMPTION_TAINT, SpotInstanceJob, SpotInstanceVM
from corral.api.spot.spec import SpotInstanceJobSpec
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, is_condition_true
from corral.runtime.pods.states import conditions_of, is_terminal, moment

__all__ = ["REFUSALS", "Machine", "World", "condition_time", "is_complete", "is_failed"]

REFUSALS: Final = ("StockOut", "QuotaExceeded", "AccountRefused", "BadRequest", "NotJoined")
"""Reasons for which a machine was never given, or never became a node."""
_GONE: Final = "TERMINATED"
_TAKEN: Final = (
    "ToBeDeletedByClusterAutoscaler",
    "aws-node-termination-handler/spot-itn",
    "cloud.google.com/impending-node-termination",
    "karpenter.sh/disrupted",
)
"""Taints by which autoscalers and the clouds' own agents say that a node is about to go."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine as its controller tells."""

    name: str
    state: str = ""
    joined: bool = False
    node: str = ""
    price: float | None = None
    deadline: float | None = None
    """When it will be taken, if a notice came."""
    noticed: float | None = None
    """When that came."""
    reason: str = ""
    message: str = ""

    @property
    def gone(self) -> bool:
        return self.state == _GONE

    @property
    def refused(self) -> bool:
        """Whether there was never a machine that could be used."""
        return self.gone and self.reason in REFUSALS

    @classmethod
    def read(cls, obj: Obj) -> Self:
        price = obj.get("pricePerHour")
        deadline = moment(obj.get("preemptionDeadline"))
        noticed = moment(obj.get("preemptionNotice"))
        return cls(
            name=str(obj.get("name") or ""),
            state=str(obj.get("state") or ""),
            joined=bool(obj.get("joinedCluster")),
            node=str(obj.get("nodeName") or ""),
            price=float(price) if price is not None else None,
            deadline=deadline if deadline is not None else noticed,
            noticed=noticed,
            reason=str(obj.get("reason") or ""),
            message=str(obj.get("message") or ""),
        )


class Nodes(Protocol):
    """Nodes by their names: a cache, or a plain dictionary."""

    def get(self, key: str, /) -> Obj | None:
        """The node; None where there is none."""


@dataclass(frozen=True, slots=True)
class World:
    """One job and everything that belongs to it."""

    job: Obj
    spec: SpotInstanceJobSpec
    vms: Mapping[str, Obj]
    """The SpotInstanceVMs that it names and that are there."""
    kinds: Mapping[str, SpotInstanceVMSpec]
    """What these ask for, by their names."""
    machines: Mapping[str, Machine]
    """By name."""
    jobs: Mapping[str, Obj]
    """The batch/v1 Jobs that it controls, by name."""
    pods: Mapping[str, Sequence[Obj]]
    """Of each of these, by its name."""
    nodes: Nodes
    backups: Sequence[Obj] = ()
    """CheckpointBackups of its copies."""

    @classmethod
    def of(
        cls,
        job: Obj,
        *,
        vms: Iterable[Obj],
        jobs: Iterable[Obj],
        pods: Iterable[Obj],
        nodes: Nodes,
        backups: Iterable[Obj] = (),
    ) -> Self:
        """Put together what caches hold."""
        found = {vm["metadata"]["name"]: vm for vm in vms}
        machines = [
            Machine.read(each)
            for vm in found.values()
            for each in (vm.get("status") or {}).get("provisionedInstances") or ()
        ]
        by_job: dict[str, list[Obj]] = {}
        for pod in pods:
            labels = pod["metadata"].get("labels") or {}
            by_job.setdefault(str(labels.get("batch.kubernetes.io/job-name")), []).append(pod)
        for some in by_job.values():
            some.sort(key=lambda pod: str(pod["metadata"].get("creationTimestamp") or ""))
        return cls(
            job=job,
            spec=SpotInstanceJob.read(job).spec,
            vms=found,
            kinds={name: SpotInstanceVM.read(vm).spec for name, vm in found.items()},
            machines={machine.name: machine for machine in machines},
            jobs={each["metadata"]["name"]: each for each in jobs},
            pods=by_job,
            nodes=nodes,
            backups=tuple(backups),
        )

    @property
    def external(self) -> bool:
        """Whether somebody else makes the machines."""
        return self.spec.placement.provisioner == "External"

    def live_pods(self, name: str) -> list[Obj]:
        """Pods of a Job that have not ended."""
        return [pod for pod in self.pods.get(name, ()) if not is_terminal(pod)]

    def node_alive(self, name: str) -> bool:
        """Whether a node is there and does not say that it is in trouble."""
        node = self.nodes.get(name)
        ready = find_condition((node or {}).get("status", {}).get("conditions"), "Ready")
        return node is not None and (ready is None or ready.get("status") == "True")

    def node_deadline(self, name: str) -> float | None:
        """When a node will be taken, by its taints; 0: nobody says when."""
        taints = ((self.nodes.get(name) or {}).get("spec") or {}).get("taints") or ()
        found: list[float] = []
        for taint in taints:
            value = str(taint.get("value") or "")
            if taint.get("key") == PREEMPTION_TAINT:
                found.append(float(value) if value.replace(".", "", 1).isdigit() else 0.0)
            elif taint.get("key") in _TAKEN:
                found.append(0.0)
        return max(found) if found else None


def is_complete(job: Obj) -> bool:
    return is_condition_true(conditions_of(job), "Complete") or is_condition_true(
        conditions_of(job), "SuccessCriteriaMet"
    )


def is_failed(job: Obj) -> bool:
    return is_condition_true(conditions_of(job), "Failed") or is_condition_true(
        conditions_of(job), "FailureTarget"
    )


def condition_time(job: Obj, kind: str) -> float | None:
    """Since when a condition is as it is."""
    return moment((find_condition(conditions_of(job), kind) or {}).get("lastTransitionTime"))
