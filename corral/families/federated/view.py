"""FederatedJobs and TrainingRounds as their controllers read them. No I/O.

A round carries everything that it needs in its own spec: a job that is changed changes the rounds
that are still to come, never one that is on. A round that somebody made by hand takes what it does
not say from its job, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from corral.api.propeller.strategies import FORMAT, MAX_SAMPLES, canonical
from corral.families.federated.envelopes import round_number
from corral.kube.types import Obj

__all__ = ["JOB_LABEL", "Privacy", "RoundView", "is_over", "phase_of", "round_view", "status_of"]

JOB_LABEL: Final = "federated-job"
"""On rounds, tasks and checkpoints of a job: its name."""
_OVER: Final = ("Completed", "Failed")


def status_of(obj: Obj) -> Obj:
    """The status; an empty one where there is none."""
    return obj.get("status") or {}


def phase_of(obj: Obj) -> str:
    return str(status_of(obj).get("phase") or "")


def is_over(obj: Obj) -> bool:
    """Whether a job, round or task has ended, well or not."""
    return phase_of(obj) in _OVER


@dataclass(frozen=True, slots=True)
class Privacy:
    """What is asked for; see `corral.learning.privacy`."""

    clip: float
    noise: float
    epsilon: float | None = None
    delta: float = 1e-5
    secret: str = ""
    """The Secret with the seed; empty: one of the job's own."""

    @classmethod
    def read(cls, aggregator: Obj) -> Privacy | None:
        found = aggregator.get("privacy")
        if not isinstance(found, dict):
            return None
        epsilon = found.get("epsilon")
        return cls(
            clip=float(found["clip"]),
            noise=float(found.get("noise") or 0.0),
            epsilon=float(epsilon) if epsilon is not None else None,
            delta=float(found.get("delta") or 1e-5),
            secret=str((found.get("seedSecretRef") or {}).get("name") or ""),
        )


@dataclass(frozen=True, slots=True)
class RoundView:
    """One round: who takes part, how many updates make it, and how they become a model."""

    name: str
    namespace: str
    round_id: str
    number: int
    job: str
    """The name of the FederatedJob; the round's own name where it has none."""
    experiment: str
    """``FL_JOB_ID``; empty where the job is absent."""
    participants: tuple[str, ...]
    """Each once, in the order of the spec."""
    needed: int
    timeout: float
    """Seconds; 0: no limit."""
    on_timeout: str
    min_updates: int
    max_extensions: int
    parallel: bool
    algorithm: str
    config: Mapping[str, Any]
    """The parameters of the algorithm alone."""
    format: str
    """As the aggregator says beforehand; mostly empty."""
    privacy: Privacy | None
    model_ref: str
    image: str
    hyperparams: Any = None
    template: Obj = field(default_factory=dict)
    templates: Mapping[str, Obj] = field(default_factory=dict)
    repository: str = ""
    secret: str = ""
    """The Secret with the credentials of the registry."""
    max_samples: int = 0
    """That one participant may say it has; 0: none was declared."""


def round_view(round_: Obj, job: Obj | None) -> RoundView:
    """A round as it is to be run; the job fills in what the round does not say."""
    spec, metadata = round_["spec"], round_["metadata"]
    job_spec: Obj = job["spec"] if job is not None else {}
    aggregator: Obj = spec.get("aggregator") or job_spec.get("aggregator") or {}
    config = aggregator.get("config")
    parameters = dict(config) if isinstance(config, dict) else {}
    format_ = str(parameters.pop(FORMAT, "") or "")
    most = parameters.pop(MAX_SAMPLES, 0)
    registry: Obj = spec.get("registry") or job_spec.get("registry") or {}
    named = str((spec.get("federatedJobRef") or {}).get("name") or "")
    return RoundView(
        name=metadata["name"],
        namespace=metadata["namespace"],
        round_id=str(spec["roundId"]),
        number=round_number(spec["roundId"]) or 1,
        job=named or metadata["name"],
        experiment=str(job_spec.get("experimentId") or ""),
        participants=tuple(dict.fromkeys(spec.get("participants") or ())),
        needed=int(spec.get("kOfN") or 0),
        timeout=max(float(spec.get("timeoutSeconds") or 0), 0.0),
        on_timeout=str(spec.get("onTimeout") or "fail"),
        min_updates=max(int(spec.get("minUpdates") or 1), 1),
        max_extensions=int(spec.get("maxExtensions") or 3),
        parallel=spec.get("strategy") == "parallel",
        algorithm=canonical(str(aggregator.get("algorithm") or "")),
        config=parameters,
        format=format_,
        privacy=Privacy.read(aggregator),
        max_samples=int(most) if isinstance(most, int | float) else 0,
        model_ref=str(spec.get("modelRef") or ""),
        image=str(spec.get("taskWasmImage") or ""),
        hyperparams=spec.get("hyperparams"),
        template=spec.get("template") or {},
        templates=spec.get("participantTemplates") or {},
        repository=str(registry.get("repository") or ""),
        secret=str((registry.get("secretRef") or {}).get("name") or ""),
    )
