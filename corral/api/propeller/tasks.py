"""What a WasmTask and a PropletGroup ask for: their ``spec``, as the contract has it and more.

A WasmTask runs one WebAssembly module (or any image) on one proplet. A PropletGroup says which pods
or nodes are proplets and how tasks are spread over them.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, StringConstraints, WithJsonSchema

from corral.api.fields import AnyObject, Int32, Int64, Model, QuantityText, cel

__all__ = [
    "ALGORITHMS",
    "Algorithm",
    "AnyJson",
    "GroupSelector",
    "MonitoringProfile",
    "Placement",
    "Preference",
    "PropletGroupSpec",
    "Reference",
    "Resources",
    "Scheduling",
    "TaskTemplate",
    "WasmTaskSpec",
    "Weights",
]

Algorithm = Literal[
    "round-robin",
    "least-loaded",
    "random",
    "affinity",
    "data-locality",
    "advanced",
]
ALGORITHMS: Final[tuple[str, ...]] = (
    "round-robin",
    "least-loaded",
    "random",
    "affinity",
    "data-locality",
    "advanced",
)

AnyJson = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
"""Any JSON value; kept as it is."""
Weight = Annotated[Int32, Field(ge=0, le=100)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class Reference(Model):
    """Names an object of the same namespace; may be empty."""

    name: Annotated[str, StringConstraints(max_length=253)] = ""


class Resources(Model):
    """What the task needs (core/v1 ResourceRequirements)."""

    limits: dict[str, QuantityText] | None = None
    requests: dict[str, QuantityText] | None = None
    claims: list[AnyObject] | None = None


class MonitoringProfile(Model):
    """What is measured while the task runs."""

    enabled: bool | None = None
    interval: Annotated[Int64, Field(ge=0)] | None = None
    """Seconds between two readings; 10 if absent or 0."""
    metrics: list[str] | None = None
    """Which readings; all there are if absent."""


class Preference(Model):
    """Proplets with these labels are liked by this much."""

    weight: Weight = 1
    match_labels: dict[str, str]


class Placement(Model):
    """Which proplets of the group suit the task."""

    match_labels: dict[str, str] | None = None
    """Only proplets with all of these labels."""
    preferred: Annotated[list[Preference], Field(max_length=32)] | None = None
    """Liked, by the algorithms affinity and advanced."""
    datasets: Annotated[list[Word], Field(max_length=64)] | None = None
    """Where this data is, the task is liked, by the algorithms data-locality and advanced."""


class TaskTemplate(Model):
    """How tasks are run, beyond the module and its environment."""

    cli_args: list[str] | None = None
    env: dict[str, str] | None = None
    resources: Resources | None = None
    restart_policy: Literal["", "Always", "OnFailure", "Never"] | None = None
    """OnFailure if absent; a daemon's is Always."""
    backoff_limit: Annotated[Int32, Field(ge=0)] | None = None
    """How many failures are answered by another try; Kubernetes' own limit if absent."""
    active_deadline_seconds: Annotated[Int64, Field(ge=1)] | None = None
    """How long it may run."""
    volumes: list[AnyObject] | None = None
    """Volumes of the pod (core/v1 Volume)."""
    volume_mounts: list[AnyObject] | None = None
    """Where the task finds them (core/v1 VolumeMount)."""
    image_pull_secrets: list[Reference] | None = None
    """Credentials for the registries of the image and of the updates."""
    service_account_name: Annotated[str, StringConstraints(max_length=253)] | None = None
    runtime_class_name: Annotated[str, StringConstraints(max_length=253)] | None = None
    """What runs it; wasm if absent and the image is a module, and empty for ordinary images."""


class WasmTaskSpec(TaskTemplate):
    """One module, its input, and where it runs."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel("has(self.imageUrl) || has(self.file)", "imageUrl or file is required"),
            ]
        }
    )
    image_url: Annotated[str, StringConstraints(max_length=2048)] | None = None
    """The module or image, as oci://registry/name:tag; needed where there is no file."""
    file: str | None = None
    """The module itself in base64; it takes precedence over imageUrl."""
    inputs: list[Int64] | None = None
    """Arguments of the function that the module exports."""
    daemon: bool | None = None
    """Whether it runs until it is deleted."""
    proplet_id: Annotated[str, StringConstraints(max_length=253)] | None = None
    """The proplet to run on; it takes precedence over the group."""
    proplet_group_ref: Reference | None = None
    mode: Literal["", "infer", "train"] | None = None
    monitoring_profile: MonitoringProfile | None = None
    placement: Placement | None = None


class GroupSelector(Model):
    """Pods, or else nodes, with all of these labels are proplets."""

    match_labels: dict[str, str] | None = None


class Weights(Model):
    """How much each score counts where the algorithm is advanced."""

    load: Weight = 1
    affinity: Weight = 1
    data_locality: Weight = 1


class Scheduling(Model):
    """How tasks are spread over the proplets."""

    algorithm: Algorithm
    max_tasks_per_proplet: Annotated[Int32, Field(ge=0)] | None = None
    """Never more tasks than this at once on a proplet; any number if absent or 0."""
    weights: Weights | None = None


class PropletGroupSpec(Model):
    """Which proplets there are, and how tasks are spread over them."""

    selector: GroupSelector
    scheduling: Scheduling
    heartbeat_timeout_seconds: Annotated[Int32, Field(ge=5)] | None = None
    """A proplet that has not been alive for this long loses its tasks; 40 if absent. One that
    writes heartbeats is not alive when the last one is older."""
