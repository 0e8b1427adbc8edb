"""What a CheckpointBackup asks for: both shapes that there are of it, in one.

The flat one (podName, imageRepo, immediate) is what spot controllers write; the nested one (podRef,
resourceRef, registry, schedule) is that of the migration operator's v1. `Backup.pod` and
`Backup.repository` are the same for both.
"""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from corral.api.fields import Int32, Model
from corral.api.spot.spec import Engine, SecretReference

__all__ = [
    "IMMEDIATELY",
    "BackupContainer",
    "BackupRegistry",
    "CheckpointBackupSpec",
    "PodReference",
    "ResourceReference",
]

IMMEDIATELY: Final = "immediately"
Name = Annotated[str, StringConstraints(max_length=253)]
Needed = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class PodReference(Model):
    """Which pod."""

    name: Needed
    namespace: Name | None = None


class ResourceReference(Model):
    """What the pod belongs to."""

    api_version: str | None = None
    kind: str | None = None
    name: Needed
    namespace: Name | None = None


class NamedSecret(Model):
    """A Secret that must be named."""

    name: Needed
    namespace: Name | None = None


class BackupRegistry(Model):
    """Where images are pushed."""

    url: Needed
    repository: Needed
    secret_ref: NamedSecret | None = None


class BackupContainer(Model):
    """A container that is saved, and the image that it becomes."""

    name: Needed
    image: Needed


class CheckpointBackupSpec(Model):
    """One pod to be saved, at once or again and again."""

    pod_name: Name | None = None
    node_name: Name | None = None
    image_repo: str | None = None
    immediate: bool | None = None
    """The machine is about to be lost: before everything else."""
    image_repo_credentials: SecretReference | None = None

    schedule: str | None = None
    """Five fields of cron, or immediately: once."""
    stop_pod: bool | None = None
    """Whether the pod is deleted when it is saved."""
    pod_ref: PodReference | None = None
    resource_ref: ResourceReference | None = None
    registry: BackupRegistry | None = None
    """Without one, and without imageRepo, the image stays on the node."""
    containers: Annotated[list[BackupContainer], Field(max_length=64)] | None = None

    engine: Engine | None = None
    """Who saves; the kubelet if absent."""
    directory: Annotated[str, StringConstraints(pattern="^/", max_length=4096)] | None = None
    """What the Directory engine packs; if absent, what the spot job of the pod says."""
    timeout_seconds: Annotated[Int32, Field(ge=1)] = 600
    """A backup that takes longer has failed."""

    @property
    def pod(self) -> str:
        """The pod's name, however it was said."""
        return self.pod_ref.name if self.pod_ref is not None else self.pod_name or ""

    @property
    def repository(self) -> str:
        """Where the image goes, without a tag; empty: it stays on the node."""
        if self.registry is not None:
            return f"{self.registry.url.rstrip('/')}/{self.registry.repository.strip('/')}"
        return self.image_repo or ""

    @property
    def credentials(self) -> tuple[str, str | None] | None:
        """Name and namespace of the Secret for the registry."""
        if self.registry is not None and self.registry.secret_ref is not None:
            return self.registry.secret_ref.name, self.registry.secret_ref.namespace
        if self.image_repo_credentials is not None and self.image_repo_credentials.name:
            return self.image_repo_credentials.name, self.image_repo_credentials.namespace
        return None

    @property
    def once(self) -> bool:
        return self.schedule in (None, "", IMMEDIATELY)
