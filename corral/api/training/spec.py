"""The parts of ``training.corral.dev/v1alpha1``: what a TrainingJob asks for.

Texts have limits because the API server must know what a rule over them may cost at most.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, StringConstraints

from corral.api.fields import (
    AnyObject,
    Int32,
    LocalReference,
    Model,
    PodTemplate,
    Procs,
    QuantityText,
    Seconds,
    Span,
    Text,
    cel,
    immutable,
    section,
)

__all__ = [
    "FRAMEWORKS",
    "AzureStorage",
    "BucketStorage",
    "CheckpointSpec",
    "ClaimStorage",
    "Elastic",
    "Framework",
    "KeepBest",
    "LocalStorage",
    "Network",
    "ObjectStorage",
    "Restore",
    "Retention",
    "RunPolicy",
    "Scheduling",
    "ServiceAccount",
    "Storage",
    "TrainingJobSpec",
]

Framework = Literal["pytorch", "tensorflow", "jax", "xgboost", "custom"]
FRAMEWORKS: tuple[str, ...] = ("pytorch", "tensorflow", "jax", "xgboost", "custom")
MAX_REPLICAS = 10_000

Replicas = Annotated[Int32, Field(ge=1, le=MAX_REPLICAS)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Count = Annotated[Int32, Field(ge=0)]
Path = Annotated[str, StringConstraints(pattern="^/", max_length=4096)]

_AT_LEAST = "must be less than or equal to spec.elastic.maxReplicas"
_KINDS_OF_STORAGE = ("pvc", "s3", "gcs", "azure", "local")
_ONE_STORAGE = " + ".join(f"(has(self.{kind}) ? 1 : 0)" for kind in _KINDS_OF_STORAGE)


class EnvVar(Model):
    """An environment variable of every replica (core/v1 EnvVar)."""

    name: Annotated[str, StringConstraints(min_length=1)]
    value: str | None = None
    value_from: AnyObject | None = None


class Resources(Model):
    """What every replica needs (core/v1 ResourceRequirements)."""

    limits: dict[str, QuantityText] | None = None
    requests: dict[str, QuantityText] | None = None
    claims: list[AnyObject] | None = None


class Metric(Model):
    """A metric to scale by (autoscaling/v2 MetricSpec)."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )
    type: Literal["ContainerResource", "External", "Object", "Pods", "Resource"]


class Elastic(Model):
    """The set of replicas may shrink and grow between two bounds while it trains."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel("self.minReplicas <= self.maxReplicas", _AT_LEAST, field=".minReplicas")
            ]
        }
    )
    min_replicas: Replicas = 1
    """Training waits when fewer replicas than this can run."""
    max_replicas: Replicas
    """Never more replicas than this."""
    metrics: Annotated[list[Metric], Field(max_length=32)] = Field(default_factory=list)
    """What to scale by; empty: free capacity and preemptions."""


class RunPolicy(Model):
    """How the job is run, repeated, ended and cleaned up."""

    suspend: bool = False
    """Whether the pods are taken away until this is false again; progress is kept."""
    backoff_limit: Count = 3
    """How many restarts are tried before the job fails."""
    active_deadline_seconds: Annotated[Seconds, Field(ge=1)] | None = None
    """How long the job may run, restarts included; time in suspension does not count."""
    ttl_seconds_after_finished: Annotated[Int32, Field(ge=0)] | None = None
    """How long the job is kept when it has finished; for ever if absent."""
    clean_pod_policy: Literal["Running", "All", "None"] = "Running"
    """Which pods are deleted when the job has finished."""
    restart_scope: Literal["All", "Replica"] = "All"
    """Whether all replicas begin anew when one fails, or that one alone."""


class ClaimStorage(Model):
    """A PersistentVolumeClaim, made for the job."""

    size: QuantityText
    """How much to ask for."""
    storage_class_name: Annotated[str, StringConstraints(max_length=253)] | None = None
    """The class of the volume; the cluster's default if absent."""
    access_modes: (
        Annotated[
            list[Literal["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"]],
            Field(min_length=1, max_length=3),
        ]
        | None
    ) = None
    """How it may be mounted; ReadWriteMany for several replicas if absent."""


class BucketStorage(Model):
    """A bucket of Google Cloud Storage, or what speaks its protocol."""

    bucket: Word
    prefix: Text = ""
    endpoint: Text | None = None
    """Another server than the provider's."""
    secret_ref: LocalReference | None = None
    """The Secret with the credentials; those of the operator if absent."""


class ObjectStorage(BucketStorage):
    """A bucket of S3, or what speaks its protocol."""

    region: Annotated[str, StringConstraints(max_length=64)] | None = None


class AzureStorage(Model):
    """A container of Azure Blob Storage."""

    account: Word
    container: Word
    prefix: Text = ""
    endpoint: Text | None = None
    """Another server than the provider's."""
    secret_ref: LocalReference | None = None
    """The Secret with the credentials; those of the operator if absent."""


class LocalStorage(Model):
    """A folder of the machine; for embedded clusters only."""

    path: Path | None = None
    """The folder; one of the cluster's own if absent."""


class Storage(Model):
    """Where checkpoints are kept: exactly one of these."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel(
                    f"{_ONE_STORAGE} == 1",
                    "must have exactly one of pvc, s3, gcs, azure, local",
                ),
                cel("self == oldSelf", "field is immutable"),
            ]
        }
    )
    pvc: ClaimStorage | None = None
    s3: ObjectStorage | None = None
    gcs: BucketStorage | None = None
    azure: AzureStorage | None = None
    local: LocalStorage | None = None

    def chosen(self) -> list[str]:
        """The names of those that are set."""
        return [kind for kind in _KINDS_OF_STORAGE if getattr(self, kind) is not None]


class KeepBest(Model):
    """Keep the checkpoint with the best value of a metric that was reported."""

    metric: Word
    mode: Literal["min", "max"] = "min"
    """Whether the least or the greatest value is the best."""


class Retention(Model):
    """Which checkpoints are kept; one that any of the rules names stays."""

    keep_last: Annotated[Int32, Field(ge=1)] = 3
    """The newest ones."""
    keep_every: Annotated[Int32, Field(ge=1)] | None = None
    """Every n-th one, for good."""
    keep_best: KeepBest | None = None
    max_age: Span | None = None
    """None older than this, but the newest."""


class Restore(Model):
    """What training starts from."""

    from_: Annotated[str, StringConstraints(min_length=1, max_length=2048)] = Field(
        default="Latest", alias="from"
    )
    """Latest, None, the name of a Checkpoint, or a URI."""


class CheckpointSpec(Model):
    """When checkpoints are made, where they are kept and for how long."""

    interval: Span = "10m"
    """The time between two."""
    mount_path: Annotated[Path, Field(json_schema_extra=immutable())] = "/checkpoints"
    """Where pods find them."""
    storage: Storage
    retention: Retention = section(Retention)
    restore: Restore = section(Restore)


class Topology(Model):
    """Which nodes the replicas should share."""

    key: Annotated[str, StringConstraints(min_length=1, max_length=317)]
    """The label of nodes; equal values are near each other."""
    mode: Literal["Preferred", "Required"] = "Preferred"


class Gpu(Model):
    """Which GPUs will do."""

    model: Annotated[str, StringConstraints(max_length=63)] = ""
    """As nodes are labelled; any if empty."""
    mig: Annotated[str, StringConstraints(max_length=63)] = ""
    """The profile of a part of a GPU, such as 1g.10gb; whole GPUs if empty."""


class Scheduling(Model):
    """Where and when the replicas run."""

    queue: Annotated[str, StringConstraints(max_length=63)] | None = None
    """The queue that admits the job; the namespace's default if absent."""
    priority_class_name: Annotated[str, StringConstraints(max_length=253)] | None = None
    gang: bool = False
    """Whether a PodGroup has the replicas scheduled all at once or not at all."""
    topology: Topology | None = None
    gpu: Gpu | None = None


class Network(Model):
    """Who may talk to the replicas."""

    policy: Literal["Isolated", "None"] = "Isolated"
    """Isolated: a NetworkPolicy lets replicas of the job alone reach each other."""
    mesh: Literal["Disabled", "Enabled"] = "Disabled"
    """Whether a service mesh may put its sidecars into the pods."""


class ServiceAccount(Model):
    """Who the replicas are."""

    create: bool = True
    """Whether the job has a ServiceAccount of its own, of the job's name."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """For the ServiceAccount: roles of a cloud, for example."""


class TrainingJobSpec(Model):
    """What is to be trained, by how many replicas, and how."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel(
                    "!has(self.elastic) || self.replicas >= self.elastic.minReplicas",
                    "must be greater than or equal to spec.elastic.minReplicas",
                    field=".replicas",
                ),
                cel(
                    "!has(self.elastic) || self.replicas <= self.elastic.maxReplicas",
                    "must be less than or equal to spec.elastic.maxReplicas",
                    field=".replicas",
                ),
            ]
        }
    )
    framework: Annotated[Framework, Field(json_schema_extra=immutable())] = "custom"
    """Which environment for finding each other is given to the replicas."""
    replicas: Replicas = 1
    """One pod each; the one with index 0 is the master."""
    procs_per_replica: Procs = 1
    """Processes in each pod, or auto: as many as it has GPUs."""
    template: PodTemplate = Field(default_factory=dict, json_schema_extra={"default": {}})
    """The pod of a replica (core/v1 PodTemplateSpec)."""
    image: Text | None = None
    """Short for the image of the first container of the template."""
    command: list[str] | None = None
    """Short for the command of the first container of the template."""
    args: list[str] | None = None
    """Short for the arguments of the first container of the template."""
    env: (
        Annotated[
            list[EnvVar],
            Field(
                json_schema_extra={
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                }
            ),
        ]
        | None
    ) = None
    """Added to the environment of the first container of the template."""
    resources: Resources | None = None
    """Short for the resources of the first container of the template."""
    elastic: Elastic | None = None
    run_policy: RunPolicy = section(RunPolicy)
    checkpoint: CheckpointSpec | None = None
    scheduling: Scheduling = section(Scheduling)
    network: Network = section(Network)
    service_account: ServiceAccount = section(ServiceAccount)

    def shorthand(self) -> dict[str, Any]:
        """The fields that stand for parts of the first container, as on the wire."""
        fields = {"image", "command", "args", "env", "resources"}
        return self.model_dump(by_alias=True, include=fields, exclude_none=True)
