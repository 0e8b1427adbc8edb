"""What FederatedJob, TrainingRound and ModelCheckpoint ask for: their ``spec``.

Fields of the contract that must be there are required and may be empty: what is wrong with them
beyond that is told by the job's phase (`propeller_rules.invalid_spec`), as the contract says.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from corral.api.fields import Int32, Int64, Model
from corral.api.propeller.tasks import AnyJson, Reference, TaskTemplate

__all__ = [
    "ON_TIMEOUT",
    "Aggregator",
    "CheckpointMetadata",
    "FederatedJobSpec",
    "ModelCheckpointSpec",
    "Participant",
    "Privacy",
    "Registry",
    "Rounds",
    "TrainingRoundSpec",
]

OnTimeout = Literal["fail", "aggregate", "extend"]
ON_TIMEOUT: Final[tuple[str, ...]] = ("fail", "aggregate", "extend")
Strategy = Literal["", "sequential", "parallel"]
Address = Annotated[str, StringConstraints(max_length=2048)]
Count = Annotated[Int32, Field(ge=1)]


class Participant(Model):
    """A proplet that takes part."""

    proplet_id: Annotated[str, StringConstraints(min_length=1, max_length=253)]
    namespace: Annotated[str, StringConstraints(max_length=63)] | None = None
    """Where the proplet is; its tasks are in the job's own namespace."""
    template: TaskTemplate | None = None
    """How this participant's tasks are run: added to the job's template, and before it."""


class TimeoutPolicy(Model):
    """What becomes of a round whose time is over."""

    on_timeout: OnTimeout = "fail"
    """fail; aggregate what there is, if at least minUpdates; or extend by the same time again."""
    min_updates: Count | None = None
    """The fewest updates to aggregate when the time is over; 1 if absent."""
    max_extensions: Count = 3
    """How often a round is extended before it fails."""


class Rounds(TimeoutPolicy):
    """How many rounds there are, and how they follow each other."""

    total: Int32
    """Less than 1 counts as 1."""
    strategy: Strategy | None = None
    """sequential if absent."""


class Privacy(Model):
    """Differential privacy of the participants: clipping, noise, and a budget."""

    clip: Annotated[float, Field(gt=0)]
    """The most that one participant's change may measure."""
    noise: Annotated[float, Field(ge=0)]
    """The noise multiplier."""
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """The budget: the job ends before a round that would cost more. None if absent."""
    delta: Annotated[float, Field(gt=0, lt=1)] = 1e-5
    seed_secret_ref: Reference | None = None
    """A Secret whose key ``seed`` is the seed of the noise; one is made if absent."""


class Aggregator(Model):
    """How the updates of a round become a model."""

    algorithm: Annotated[str, StringConstraints(max_length=64)]
    """fedavg if empty."""
    config: AnyJson = None
    """The parameters of the algorithm, and format: how payloads are encoded."""
    privacy: Privacy | None = None


class Registry(Model):
    """Where models and updates are kept."""

    repository: Address = ""
    """As oci://registry/name; the operator's own if empty."""
    secret_ref: Reference | None = None
    """The Secret with the credentials (kubernetes.io/dockerconfigjson)."""


class FederatedJobSpec(Model):
    """A model that is trained where the data is, round by round."""

    experiment_id: Annotated[str, StringConstraints(max_length=253)]
    model_ref: Address
    """What the first round starts from."""
    task_wasm_image: Address
    """The module that every participant runs."""
    participants: Annotated[list[Participant], Field(max_length=10_000)]
    hyperparams: AnyJson = None
    """Given to the participants as they are."""
    k_of_n: Int32
    """How many updates make a round."""
    timeout_seconds: Int64
    """Of a round; no limit if 0."""
    rounds: Rounds
    aggregator: Aggregator
    template: TaskTemplate | None = None
    """How the participants' tasks are run."""
    registry: Registry | None = None
    suspend: bool | None = None
    """No further round begins while it is true; the one that is on goes on to its end."""


class TrainingRoundSpec(TimeoutPolicy):
    """One round: who takes part, and how many updates make it."""

    round_id: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    """``round-<n>``."""
    federated_job_ref: Reference
    model_ref: Address
    task_wasm_image: Address
    participants: Annotated[list[str], Field(max_length=10_000)]
    hyperparams: AnyJson = None
    k_of_n: Int32
    timeout_seconds: Int64
    strategy: Strategy | None = None
    """parallel: tasks that are late are left to run, and count in a later round."""
    aggregator: Aggregator | None = None
    """That of the job if absent; fedavg where there is no job."""
    template: TaskTemplate | None = None
    participant_templates: dict[str, TaskTemplate] | None = None
    """By propletId: added to the template, and before it."""
    registry: Registry | None = None


class CheckpointMetadata(Model):
    """What the model was made of."""

    total_samples: Int64 | None = None
    num_participants: Int32 | None = None
    metrics: AnyJson = None


class ModelCheckpointSpec(Model):
    """The model that a round gave."""

    federated_job_ref: Reference
    round_ref: Reference | None = None
    model_ref: Address
    """Where it can be pulled."""
    algorithm: Annotated[str, StringConstraints(max_length=64)]
    metadata: CheckpointMetadata
    round: Int32 | None = None
    """The number of the round."""
    digest: Annotated[str, StringConstraints(max_length=255)] | None = None
    registry: Registry | None = None
