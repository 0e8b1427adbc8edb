"""Judges MPIJobs: structure, Kubeflow's rules, and policy, in ten areas of one module each.

`judge` says everything at once, for webhook and controller alike. It never fails, whatever the
object is like, and what it lets pass the builders can build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from corral.api.mpi.kinds import MPIJOBS, MPIJob
from corral.api.mpi.rules import dotted
from corral.api.structure import touches
from corral.families.mpijob.validation import (
    container_spec,
    implementation,
    labels,
    network_policy,
    quota,
    resources,
    run_policy,
    scheduling_policy,
    security_context,
    slots,
)
from corral.families.mpijob.validation.findings import (
    BASELINE,
    Context,
    Finding,
    Findings,
    Severity,
    Subject,
    errors,
)
from corral.kube.problems import FieldError
from corral.kube.types import Obj

__all__ = ["AREAS", "BASELINE", "Context", "Finding", "Judgement", "Severity", "examine", "judge"]

AREAS: dict[str, Callable[[Subject], Findings]] = {
    "resources": resources.check,
    "slots": slots.check,
    "implementation": implementation.check,
    "network policy": network_policy.check,
    "run policy": run_policy.check,
    "scheduling policy": scheduling_policy.check,
    "container spec": container_spec.check,
    "quota": quota.check,
    "security context": security_context.check,
    "labels": labels.check,
}
_ORDER = (
    "metadata.name",
    "spec.mpiReplicaSpecs[Launcher]",
    "spec.mpiReplicaSpecs[Worker]",
    "spec.slotsPerWorker",
    "spec.runPolicy",
    "spec.sshAuthMountPath",
    "spec.mpiImplementation",
)
"""In which order parts of a job are spoken of; Kubeflow's."""
_SHOWN = 24
"""How many remarks are worth reading at once."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is wrong with a job, and what is only worth a remark."""

    errors: list[FieldError]
    warnings: list[str]

    @property
    def accepted(self) -> bool:
        return not self.errors


def judge(obj: Obj, *, old: Obj | None = None, context: Context = BASELINE) -> Judgement:
    """Judge a job, or the change from ``old`` to it.

    A breach of policy that the old job had already is no reason to refuse a change: whoever
    restricts a namespace does not stop the jobs in it.
    """
    found = examine(obj, old=old, context=context)
    known: set[FieldError] = set()
    if old is not None and context.policy == "restricted":
        known = {finding.problem for finding in examine(old, context=context)}
    refused, remarked = [], []
    for finding in found:
        strict = context.policy == "restricted" and finding.problem not in known
        if finding.severity is Severity.ERROR or (finding.severity is Severity.POLICY and strict):
            refused.append(finding.problem)
        else:
            remarked.append(str(finding.problem))
    return Judgement(refused, _shown(remarked))


def examine(obj: Obj, *, old: Obj | None = None, context: Context = BASELINE) -> list[Finding]:
    """Everything there is to say, in the order of the fields."""
    job, left_out, wrong = MPIJob.salvaged(MPIJOBS.stamp(obj))
    out = list(errors(wrong))
    if job is not None:
        before = MPIJob.salvaged(MPIJOBS.stamp(old))[0] if old is not None else None
        subject = Subject(job, before, context)
        told = [found for area in AREAS.values() for found in area(subject)]
        out += sorted(_sound(told, left_out), key=lambda found: _rank(found.problem.field))
    return out


def _sound(found: Iterable[Finding], left_out: list[str]) -> list[Finding]:
    """Each thing once, and nothing about fields whose value could not be read at all."""
    return [
        finding
        for finding in dict.fromkeys(found)
        if not touches(dotted(finding.problem.field), left_out)
    ]


def _rank(field: str) -> int:
    return next((i for i, part in enumerate(_ORDER) if field.startswith(part)), len(_ORDER))


def _shown(remarks: list[str]) -> list[str]:
    texts = list(dict.fromkeys(remarks))
    more = len(texts) - _SHOWN
    return [*texts[:_SHOWN], f"and {more} more remarks"] if more > 0 else texts
