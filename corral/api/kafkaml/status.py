"""What is known of objects of ``kafkaml.corral.dev``: their ``status``."""

from __future__ import annotations

from typing import Literal

from corral.api.fields import AnyObject, Conditions, Int32, Int64, Model, Timestamp

__all__ = [
    "ClientStatus",
    "DatasourceStatus",
    "FederatedDeploymentStatus",
    "InferenceStatus",
    "LayerStatus",
    "MLConfigurationStatus",
    "MLModelStatus",
    "MatchStatus",
    "ResultStatus",
    "RoundStatus",
]


class LayerStatus(Model):
    """One array of a model's weights."""

    shape: list[Int64]
    dtype: str


class MLModelStatus(Model):
    """What checking the code found."""

    phase: Literal["Pending", "Ready", "Failed"] | None = None
    observed_generation: Int64 | None = None
    input_shape: str | None = None
    """As datasources spell it: ``28 28``."""
    output_shape: str | None = None
    parameters: Int64 | None = None
    layers: list[LayerStatus] | None = None
    weights_ref: str | None = None
    """The artifact with the first weights and the architecture."""
    error: str | None = None
    conditions: Conditions | None = None


class MLConfigurationStatus(Model):
    """What its models have in common."""

    phase: Literal["Pending", "Ready", "Failed"] | None = None
    observed_generation: Int64 | None = None
    frameworks: list[str] | None = None
    distributed: bool | None = None
    error: str | None = None
    conditions: Conditions | None = None


class MatchStatus(Model):
    """A deployment that the data is used by."""

    deployment: str
    result: Int64 | None = None
    client_id: str
    job: str | None = None


class DatasourceStatus(Model):
    """Who uses the data."""

    phase: Literal["Pending", "Ready", "Failed"] | None = None
    observed_generation: Int64 | None = None
    matches: list[MatchStatus] | None = None
    error: str | None = None
    conditions: Conditions | None = None


class ClientStatus(Model):
    """One client of a deployment."""

    client_id: str
    result: Int64 | None = None
    """Which of the deployment's models it trains."""
    datasource: str | None = None
    job: str | None = None
    phase: Literal["Pending", "Running", "Completed", "Failed"] | None = None
    samples: Int64 | None = None
    version: Int64 | None = None
    """The last version of the model that it gave an update to."""
    training_seconds: float | None = None
    """How long it has trained, in all rounds."""
    metrics: AnyObject | None = None
    """Of its last update."""
    rejected: Int32 | None = None
    message: str | None = None


class RoundStatus(Model):
    """One version of the model."""

    version: Int64
    """What the clients began from."""
    updates: Int32
    clients: list[str]
    samples: Int64
    metrics: AnyObject | None = None
    started: Timestamp | None = None
    finished: Timestamp | None = None
    digest: str | None = None
    """Of the weights that the round gave."""


class ResultStatus(Model):
    """The training of one model of the configuration."""

    id: Int64
    model: str
    federated_string_id: str
    status: Literal["created", "deployed", "stopped", "finished"]
    version: Int64 | None = None
    rounds: list[RoundStatus] | None = None
    """The last hundred."""
    train_metrics: AnyObject | None = None
    val_metrics: AnyObject | None = None
    test_metrics: AnyObject | None = None
    """Of the final model on all clients' test data; ``confusion_matrix`` where it has classes."""
    training_seconds: float | None = None
    """From the first version sent to the last one made."""
    model_ref: str | None = None
    """The artifact of the last version."""
    message: str | None = None


class FederatedDeploymentStatus(Model):
    """How far a deployment is."""

    phase: Literal["Pending", "Running", "Suspended", "Completed", "Failed"] | None = None
    observed_generation: Int64 | None = None
    federated_string_id: str | None = None
    current_round: Int64 | None = None
    completed_rounds: Int64 | None = None
    clients: list[ClientStatus] | None = None
    results: list[ResultStatus] | None = None
    start_time: Timestamp | None = None
    finish_time: Timestamp | None = None
    conditions: Conditions | None = None


class InferenceStatus(Model):
    """Whether a model answers."""

    phase: Literal["Pending", "Running", "Stopped", "Failed"] | None = None
    observed_generation: Int64 | None = None
    ready_replicas: Int32 | None = None
    model_ref: str | None = None
    group_id: str | None = None
    error: str | None = None
    conditions: Conditions | None = None
