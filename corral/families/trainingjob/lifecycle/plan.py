"""What a valid TrainingJob asks for, as far as its life is concerned. No I/O."""

from __future__ import annotations

from dataclasses import dataclass

from corral.kube.types import Obj

__all__ = ["Plan"]


@dataclass(frozen=True, slots=True)
class Plan:
    """The parts of a spec that decisions go by, with defaults for what is absent."""

    replicas: int
    minimum: int
    """The fewest replicas that may train; equal to ``replicas`` unless the job is elastic."""
    suspend: bool
    backoff_limit: int
    deadline: int | None
    ttl: int | None
    clean_pods: str
    alone: bool
    """Whether a replica that fails is restarted alone (``restartScope: Replica``)."""

    @classmethod
    def of(cls, job: Obj) -> Plan:
        spec = job["spec"]
        policy, elastic = spec.get("runPolicy") or {}, spec.get("elastic")
        replicas = int(spec.get("replicas", 1))
        return cls(
            replicas=replicas,
            minimum=replicas if elastic is None else int(elastic.get("minReplicas", 1)),
            suspend=bool(policy.get("suspend", False)),
            backoff_limit=int(policy.get("backoffLimit", 3)),
            deadline=policy.get("activeDeadlineSeconds"),
            ttl=policy.get("ttlSecondsAfterFinished"),
            clean_pods=str(policy.get("cleanPodPolicy", "Running")),
            alone=policy.get("restartScope", "All") == "Replica",
        )
