"""Every kind of every family as one table: how it is called, and how its objects are read.

A `JobKind` is all that generic code needs to know: where objects are, which pods are theirs and
what part each of them plays, which phase an object is in and why. Kinds are found by any name that
people use (`kind_of`). Nothing here talks to a cluster, and importing it is cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Final

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
    """The field that holds the number of replicas; empty where ``scale`` is a subresource."""
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


def _in(*words: str) -> Callable[[str], bool]:
    return lambda phase: phase in words


def _never(phase: str) -> bool:
    return False


_no_role = roles.single("pod")
_SUSPEND: Final = ("spec", "runPolicy", "suspend")


def _kind(
    api_version: str,
    plural: str,
    kind: str,
    *,
    family: str,
    short: tuple[str, ...],
    phase: Callable[[Obj], str] = phases.own_phase,
    known: tuple[str, ...],
    ends: Callable[[str], bool],
    message: Callable[[Obj], str] = phases.own_message,
    pods: Callable[[Obj], str] | None = None,
    role: Callable[[Obj], Role] = _no_role,
    suspend: tuple[str, ...] = (),
    restartable: bool = False,
    in_place: bool = False,
    scale: tuple[str, ...] | None = None,
    learns: bool = False,
) -> JobKind:
    group, _, version = api_version.rpartition("/")
    return JobKind(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        singular=kind.lower(),
        short_names=short,
        family=family,
        pod_selector=pods,
        role=role,
        phase=phase,
        message=message,
        finished=lambda obj: ends(phase(obj)),
        suspendable=bool(suspend),
        restartable=restartable,
        scalable=scale is not None,
        phases=known,
        restarts_in_place=in_place,
        suspend_path=suspend,
        scale_path=scale or (),
        learns=learns,
    )


_TRAINING = "training.corral.dev/v1alpha1"
_KUBEFLOW = "kubeflow.org/v2beta1"
_SPOT = "training.training.dcnlab.com/v1alpha1"
_MIGRATION = "migration.dcnlab.com/v1alpha1"
_PROPELLER = "propeller.absmach.io/v1alpha1"
_KAFKAML = "kafkaml.corral.dev/v1alpha1"

_job_ends = _in("Succeeded", "Failed")
_task_ends = _in("Completed", "Failed")

KINDS: Final[tuple[JobKind, ...]] = (
    _kind(
        _TRAINING,
        "trainingjobs",
        "TrainingJob",
        family="trainingjob",
        short=("tj",),
        phase=phases.training_phase,
        known=phases.TRAINING_PHASES,
        ends=_job_ends,
        message=phases.job_message,
        pods=_with_label(roles.TRAINING_JOB_LABEL),
        role=roles.training_role,
        suspend=_SUSPEND,
        restartable=True,
        in_place=True,
        scale=(),
    ),
    _kind(
        _TRAINING,
        "checkpoints",
        "Checkpoint",
        family="trainingjob",
        short=("ckpt",),
        known=phases.CHECKPOINT_PHASES,
        ends=_in("Ready", "Failed", "Deleted"),
    ),
    _kind(
        _KUBEFLOW,
        "mpijobs",
        "MPIJob",
        family="mpijob",
        short=("mpi",),
        phase=phases.mpi_phase,
        known=phases.MPI_PHASES,
        ends=_job_ends,
        message=phases.job_message,
        pods=_with_label(roles.MPI_JOB_LABEL),
        role=roles.mpi_role,
        suspend=_SUSPEND,
        restartable=True,
        scale=("spec", "mpiReplicaSpecs", "Worker", "replicas"),
    ),
    _kind(
        _SPOT,
        "spotinstancejobs",
        "SpotInstanceJob",
        family="spot",
        short=("sij", "spot"),
        phase=phases.spot_phase,
        known=phases.SPOT_PHASES,
        ends=_job_ends,
        pods=_with_label(roles.SPOT_JOB_LABEL),
        role=roles.spot_role,
        suspend=("spec", "suspend"),
        restartable=True,
        in_place=True,
        scale=("spec", "replicas"),
    ),
    _kind(
        _SPOT,
        "spotinstancevms",
        "SpotInstanceVM",
        family="spot",
        short=("sivm",),
        phase=phases.vm_phase,
        known=phases.VM_PHASES,
        ends=_in("Terminated", "Failed"),
    ),
    _kind(
        _MIGRATION,
        "checkpointbackups",
        "CheckpointBackup",
        family="spot",
        short=("cb",),
        known=phases.BACKUP_PHASES,
        ends=_in("Completed", "CompletedPodDeleted", "CompletedWithError", "Failed"),
    ),
    _kind(
        _PROPELLER,
        "federatedjobs",
        "FederatedJob",
        family="federated",
        short=("fj",),
        known=phases.FEDERATED_PHASES,
        ends=_task_ends,
        pods=_federated_pods,
        role=roles.single("participant"),
        suspend=("spec", "suspend"),
        restartable=True,
        learns=True,
    ),
    _kind(
        _PROPELLER,
        "trainingrounds",
        "TrainingRound",
        family="federated",
        short=("round",),
        known=phases.ROUND_PHASES,
        ends=_task_ends,
        pods=_round_pods,
        role=roles.single("participant"),
    ),
    _kind(
        _PROPELLER,
        "wasmtasks",
        "WasmTask",
        family="federated",
        short=("wt", "wasm"),
        known=phases.TASK_PHASES,
        ends=_task_ends,
        pods=_task_pods,
        role=roles.single("task"),
        restartable=True,
    ),
    _kind(
        _PROPELLER,
        "propletgroups",
        "PropletGroup",
        family="federated",
        short=("pg",),
        phase=phases.group_phase,
        known=phases.GROUP_PHASES,
        ends=_never,
    ),
    _kind(
        _PROPELLER,
        "modelcheckpoints",
        "ModelCheckpoint",
        family="federated",
        short=("mc",),
        known=phases.MODEL_CHECKPOINT_PHASES,
        ends=_in("Ready", "Failed"),
    ),
    _kind(
        _KAFKAML,
        "mlmodels",
        "MLModel",
        family="kafkaml",
        short=("mlm",),
        phase=phases.record_phase,
        known=phases.RECORD_PHASES,
        ends=_never,
    ),
    _kind(
        _KAFKAML,
        "mlconfigurations",
        "MLConfiguration",
        family="kafkaml",
        short=("mlc",),
        phase=phases.record_phase,
        known=phases.RECORD_PHASES,
        ends=_never,
    ),
    _kind(
        _KAFKAML,
        "datasources",
        "Datasource",
        family="kafkaml",
        short=("dsrc",),
        phase=phases.record_phase,
        known=phases.RECORD_PHASES,
        ends=_never,
    ),
    _kind(
        _KAFKAML,
        "federateddeployments",
        "FederatedDeployment",
        family="kafkaml",
        short=("fd",),
        known=phases.DEPLOYMENT_PHASES,
        ends=_in("Completed", "Failed"),
        pods=_with_label(roles.DEPLOYMENT_LABEL),
        role=roles.kafka_role,
        restartable=True,
    ),
    _kind(
        _KAFKAML,
        "inferences",
        "Inference",
        family="kafkaml",
        short=("inf",),
        known=phases.INFERENCE_PHASES,
        ends=_in("Stopped", "Failed"),
        pods=_with_label(roles.INFERENCE_LABEL),
        role=roles.labelled("replica", roles.KAFKA_INDEX_LABEL),
        scale=("spec", "replicas"),
    ),
)
"""In the order in which people are shown them."""
