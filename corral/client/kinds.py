"""Every kind of every family as one table: how it is called, and how its objects are read.

A `JobKind` is all that generic code needs to know: where objects are, which pods are theirs and
what part each of them plays, which phase an object is in and why. Kinds are found by any name that
people use (`kind_of`). Nothing here talks to a cluster, and importing it is cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, partial
from typing import Final

from corral.api import names
from corral.client import phases, roles
from corral.client.errors import UnknownKind
from corral.client.roles import Role
from corral.kube.resources import Resource
from corral.kube.types import Obj

__all__ = ["KINDS", "JobKind", "Role", "kind_of", "kind_of_object"]

_GOOD: Final = ("Succeeded", "Completed", "CompletedPodDeleted", "Ready")


@dataclass(frozen=True, slots=True)
class JobKind:
    """A kind and how to read its objects; the functions never raise on odd objects."""

    group: str
    version: str
    plural: str
    kind: str
    singular: str
    short_names: tuple[str, ...]
    family: str
    """``trainingjob``, ``mpijob``, ``spot``, ``federated`` or ``kafkaml``."""
    pod_selector: Callable[[Obj], str] | None
    """The label selector of an object's pods; none where the kind has no pods."""
    role: Callable[[Obj], Role]
    """Of a pod."""
    phase: Callable[[Obj], str]
    message: Callable[[Obj], str]
    """One line: why it is in that phase."""
    finished: Callable[[Obj], bool]
    suspendable: bool = False
    restartable: bool = False
    scalable: bool = False
    phases: tuple[str, ...] = ()
    """Every phase that an object of the kind can be in, in the order of a life."""
    restarts_in_place: bool = False
    """Suspending and resuming it starts it anew from what it has reached."""
    suspend_path: tuple[str, ...] = ()
    """The field that suspends it."""
    scale_path: tuple[str, ...] = ()
    """The field that holds the number of replicas."""
    learns: bool = False
    """Whether it has metrics of rounds and participants."""

    @property
    def resource(self) -> Resource:
        return Resource(self.group, self.version, self.plural, True, self.kind)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}"

    @property
    def qualified(self) -> str:
        """``mpijobs.kubeflow.org``."""
        return f"{self.plural}.{self.group}"

    def succeeded(self, obj: Obj) -> bool:
        """Whether it is over and did what it should."""
        return self.finished(obj) and self.phase(obj) in _GOOD

    def __str__(self) -> str:
        return self.kind


def kind_of(name: str) -> JobKind:
    """The kind that people mean: plural, singular, ``Kind``, short name or ``plural.group``.

    Raises:
        UnknownKind: there is none; the message names those that look alike.
    """
    wanted = name.strip().lower()
    found = _by_name().get(wanted)
    if found is not None:
        return found
    close = get_close_matches(wanted, _by_name(), n=2, cutoff=0.75)
    meant = dict.fromkeys(_by_name()[word].plural for word in close)
    raise UnknownKind(name, close=tuple(meant), known=tuple(kind.plural for kind in KINDS))


def kind_of_object(obj: Obj) -> JobKind | None:
    """The kind of an object by its ``apiVersion`` and ``kind``; none where it is not one of ours.

    Other versions of a group count: a cluster may serve several.
    """
    group = phases.text(obj.get("apiVersion")).rpartition("/")[0]
    wanted = group, obj.get("kind")
    return next((kind for kind in KINDS if (kind.group, kind.kind) == wanted), None)


@cache
def _by_name() -> dict[str, JobKind]:
    out: dict[str, JobKind] = {}
    for kind in KINDS:
        for word in (kind.plural, kind.singular, kind.kind.lower(), *kind.short_names):
            out.setdefault(word, kind)
            out.setdefault(f"{word}.{kind.group}", kind)
            out.setdefault(f"{word}.{kind.version}.{kind.group}", kind)
    return out


# --- how objects of a kind are read --------------------------------------------------------------


def _name(obj: Obj) -> str:
    return phases.text(phases.section(obj, "metadata").get("name"))


def _with_label(label: str) -> Callable[[Obj], str]:
    return lambda obj: f"{label}={_name(obj)}"


def _of_jobs(names: list[str]) -> str:
    """The pods of Jobs; a selector that matches nothing where there are none."""
    return f"batch.kubernetes.io/job-name in ({', '.join(names or ['none.'])})"


def _task_pods(task: Obj) -> str:
    return _of_jobs([f"{_name(task)}-job"])


def _round_pods(round_: Obj) -> str:
    found = phases.section(round_, "spec").get("participants")
    participants = found if isinstance(found, list) else []
    return _of_jobs([f"{_name(round_)}-{p}-job" for p in participants if phases.text(p)])


def _federated_pods(job: Obj) -> str:
    """Of the round that is on: those before are over, and their pods may be gone."""
    current = phases.status_of(job).get("currentRound")
    participants = phases.sections(phases.section(job, "spec"), "participants")
    ids = [phases.text(p.get("propletId")) for p in participants]
    return _of_jobs([f"round-{current or 1}-{_name(job)}-{p}-job" for p in ids if p])


_no_role = roles.single("pod")


def _kind(
    known: names.Names,
    *,
    family: str,
    short: tuple[str, ...] = (),
    phase: Callable[[Obj], str] = phases.own_phase,
    message: Callable[[Obj], str] = phases.own_message,
    pods: Callable[[Obj], str] | None = None,
    role: Callable[[Obj], Role] = _no_role,
    restartable: bool = False,
    in_place: bool = False,
    learns: bool = False,
) -> JobKind:
    return JobKind(
        group=known.group,
        version=known.version,
        plural=known.plural,
        kind=known.kind,
        singular=known.kind.lower(),
        short_names=known.short + short,
        family=family,
        pod_selector=_with_label(known.pod_label) if known.pod_label else pods,
        role=role,
        phase=phase,
        message=message,
        finished=lambda obj: phase(obj) in known.final,
        suspendable=bool(known.suspend),
        restartable=restartable,
        scalable=bool(known.replicas),
        phases=known.phases,
        restarts_in_place=in_place,
        suspend_path=known.suspend,
        scale_path=known.replicas,
        learns=learns,
    )


_training = partial(_kind, family="trainingjob")
_spot = partial(_kind, family="spot")
_federated = partial(_kind, family="federated")
_kafkaml = partial(_kind, family="kafkaml")
_record = partial(_kafkaml, phase=phases.record_phase)

KINDS: Final[tuple[JobKind, ...]] = (
    _training(
        names.TRAININGJOB,
        phase=phases.training_phase,
        message=phases.job_message,
        role=roles.training_role,
        restartable=True,
        in_place=True,
    ),
    _training(names.CHECKPOINT),
    _kind(
        names.MPIJOB,
        family="mpijob",
        short=("mpi",),
        phase=phases.mpi_phase,
        message=phases.job_message,
        role=roles.mpi_role,
        restartable=True,
    ),
    _spot(
        names.SPOTINSTANCEJOB,
        phase=phases.spot_phase,
        role=roles.spot_role,
        restartable=True,
        in_place=True,
    ),
    _spot(names.SPOTINSTANCEVM, phase=phases.vm_phase),
    _spot(names.CHECKPOINTBACKUP),
    _federated(
        names.FEDERATEDJOB,
        pods=_federated_pods,
        role=roles.single("participant"),
        restartable=True,
        learns=True,
    ),
    _federated(names.TRAININGROUND, pods=_round_pods, role=roles.single("participant")),
    _federated(names.WASMTASK, pods=_task_pods, role=roles.single("task"), restartable=True),
    _federated(names.PROPLETGROUP, phase=phases.group_phase),
    _federated(names.MODELCHECKPOINT),
    _record(names.MLMODEL),
    _record(names.MLCONFIGURATION),
    _record(names.DATASOURCE),
    _kafkaml(names.FEDERATEDDEPLOYMENT, role=roles.kafka_role, restartable=True),
    _kafkaml(names.INFERENCE, role=roles.inference_role),
)
"""In the order in which people are shown them."""
