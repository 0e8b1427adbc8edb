"""The parts of a pod template that MPIJobs are built from and judged by.

Fields named here have the type that core/v1 gives them, in the definition as well, so that a server
refuses what no pod could be made of. All other fields are kept as they are.
"""

from __future__ import annotations

from pydantic import ConfigDict, Field
from pydantic.alias_generators import to_camel

from corral.api.fields import AnyObject, Int32, Int64, Model, QuantityText

__all__ = [
    "Capabilities",
    "Container",
    "ContainerPort",
    "ContainerSecurity",
    "DnsConfig",
    "EnvVar",
    "PodSecurity",
    "PodSpec",
    "PodTemplateSpec",
    "Resources",
    "SeccompProfile",
    "TemplateMetadata",
    "Volume",
    "VolumeMount",
]


class Open(Model):
    """A part whose other fields are kept."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="allow",
        json_schema_extra={"x-kubernetes-preserve-unknown-fields": True},
    )


class EnvVar(Open):
    """A variable of a container."""

    name: str | None = None
    value: str | None = None
    value_from: AnyObject | None = None


class VolumeMount(Open):
    """Where a container finds a volume."""

    name: str | None = None
    mount_path: str | None = None


class ContainerPort(Open):
    """A port that a container listens on."""

    container_port: Int32 | None = None
    host_port: Int32 | None = None


class Resources(Open):
    """What a container needs and may use."""

    limits: dict[str, QuantityText] | None = None
    requests: dict[str, QuantityText] | None = None


class Capabilities(Open):
    """Which rights of root a container has."""

    add: list[str] | None = None
    drop: list[str] | None = None


class SeccompProfile(Open):
    """Which system calls are filtered."""

    type: str | None = None


class ContainerSecurity(Open):
    """The securityContext of a container."""

    run_as_user: Int64 | None = None
    run_as_non_root: bool | None = None
    privileged: bool | None = None
    allow_privilege_escalation: bool | None = None
    capabilities: Capabilities | None = None
    seccomp_profile: SeccompProfile | None = None


class PodSecurity(Open):
    """The securityContext of a pod."""

    run_as_user: Int64 | None = None
    run_as_non_root: bool | None = None
    fs_group: Int64 | None = None
    seccomp_profile: SeccompProfile | None = None


class Container(Open):
    """A container; the first one of a pod is the one that MPI is set up in."""

    name: str | None = None
    image: str | None = None
    image_pull_policy: str | None = None
    command: list[str] | None = None
    args: list[str] | None = None
    env: list[EnvVar] | None = None
    ports: list[ContainerPort] | None = None
    volume_mounts: list[VolumeMount] | None = None
    resources: Resources | None = None
    security_context: ContainerSecurity | None = None


class Volume(Open):
    """A volume of a pod."""

    name: str | None = None
    host_path: AnyObject | None = None


class DnsConfig(Open):
    """How names are resolved in a pod."""

    nameservers: list[str] | None = None
    searches: list[str] | None = None


class PodSpec(Open):
    """The pod."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[Volume] | None = None
    restart_policy: str | None = None
    hostname: str | None = None
    subdomain: str | None = None
    host_network: bool | None = None
    host_pid: bool | None = Field(default=None, alias="hostPID")
    host_ipc: bool | None = Field(default=None, alias="hostIPC")
    dns_policy: str | None = None
    dns_config: DnsConfig | None = None
    node_selector: dict[str, str] | None = None
    tolerations: list[AnyObject] | None = None
    scheduling_gates: list[AnyObject] | None = None
    scheduler_name: str | None = None
    priority_class_name: str | None = None
    security_context: PodSecurity | None = None


class TemplateMetadata(Open):
    """Labels and annotations of the pods."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class PodTemplateSpec(Open):
    """A core/v1 PodTemplateSpec."""

    metadata: TemplateMetadata | None = None
    spec: PodSpec | None = None

    @property
    def pod(self) -> PodSpec:
        """The pod, an empty one where there is none."""
        return self.spec or PodSpec()

    @property
    def containers(self) -> list[Container]:
        return self.pod.containers or []
