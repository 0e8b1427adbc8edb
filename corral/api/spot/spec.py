"""What a SpotInstanceJob asks for; the fields of the group's manifests first, then our own."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, StringConstraints

from corral.api.fields import AnyObject, Int32, Int64, Model, Timestamp, section

__all__ = [
    "AUTO",
    "ENGINES",
    "CheckpointConfig",
    "CheckpointStorage",
    "Engine",
    "Placement",
    "SecretReference",
    "SpotInstanceJobSpec",
    "VMReference",
]

AUTO: Final = "auto"
"""The interval of least expected cost, from measured checkpoints and observed losses."""
Engine = Literal["Application", "Directory", "Kubelet"]
ENGINES: Final = ("Application", "Directory", "Kubelet")
Name = Annotated[str, StringConstraints(max_length=253)]


class SecretReference(Model):
    """Names a Secret; in the namespace of the object if none is said."""

    name: Name | None = None
    namespace: Name | None = None


class VMReference(Model):
    """Names a SpotInstanceVM of the job's namespace."""

    name: Name = ""


class CheckpointStorage(Model):
    """Where application-level checkpoints go."""

    type: str | None = None
    """gcs, s3, azure, pvc or local."""
    bucket: str | None = None
    path_prefix: str | None = None


class CheckpointConfig(Model):
    """How and how often the job is saved."""

    checkpoint_image_repo: str
    """Repository of checkpoint images: registry.host/path, or a path on docker.io."""
    checkpoint_interval: str
    """Time between checkpoints, such as 30m; auto: the one of least expected cost."""
    checkpoint_repo_credential_ref: SecretReference | None = None
    """Secret with username, password and registry."""
    checkpoint_storage: CheckpointStorage | None = None
    engine: Engine = "Application"
    """Who saves: the program itself, a snapshot of a directory, or the kubelet."""
    directory: Annotated[str, StringConstraints(pattern="^/", max_length=4096)] | None = None
    """What the Directory engine packs into an image."""
    timeout_seconds: Annotated[Int32, Field(ge=1)] = 600
    """A checkpoint that takes longer has failed, and blocks nothing."""
    keep: Annotated[Int32, Field(ge=1)] = 3
    """How many verified checkpoints are kept."""


class Placement(Model):
    """Where the job may run, and until when it must be done."""

    deadline: Timestamp | None = None
    """When the job must be done; machines on demand are used to keep it."""
    on_demand: Literal["Deadline", "Never", "Always"] = "Deadline"
    """When machines on demand are used instead of spot ones."""
    provisioner: Literal["Corral", "External"] = "Corral"
    """Who makes machines: we, or an autoscaler that answers our pods' labels and tolerations."""
    expected_seconds: Annotated[Int64, Field(ge=1)] | None = None
    """About how long the job runs undisturbed, until its own reports say."""
    checkpoint_gib: Annotated[Int32, Field(ge=0)] | None = Field(
        default=None, alias="checkpointGiB"
    )
    """About how large a checkpoint is, until one was made."""


class SpotInstanceJobSpec(Model):
    """Redundant copies of one job on machines that may be taken at any time."""

    replicas: Annotated[Int32, Field(ge=1)] = 2
    """How many copies of the same job run; not ranks of one."""
    job_template: AnyObject
    """A batch/v1 JobTemplateSpec."""
    checkpoint_config: CheckpointConfig
    spot_instance_vm_ref: VMReference = Field(alias="spotInstanceVMRef")
    """The machines to use."""
    alternative_vm_refs: Annotated[list[VMReference], Field(max_length=32)] | None = Field(
        default=None, alias="alternativeVMRefs"
    )
    """Other machines that the job may be placed on."""
    gcp_credentials_secret_ref: SecretReference | None = None
    """Secret with credentials.json; the older name of credentialsSecretRef."""
    credentials_secret_ref: SecretReference | None = None
    """Secret with what the cloud wants: credentials.json, or access and secret keys."""
    placement: Placement = section(Placement)
    suspend: bool = False
    """Save, stop all copies and give the machines back; go on from there when it is false again."""

    @property
    def vm_names(self) -> list[str]:
        """The machines that may be used, in the order in which they are named."""
        found = [self.spot_instance_vm_ref, *(self.alternative_vm_refs or ())]
        return list(dict.fromkeys(reference.name for reference in found if reference.name))

    @property
    def credentials(self) -> SecretReference | None:
        return self.credentials_secret_ref or self.gcp_credentials_secret_ref
