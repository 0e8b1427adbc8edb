"""What a SpotInstanceVM asks for: machines of one cloud, or of several to choose from."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from corral.api.fields import Int32, LocalReference, Model

__all__ = [
    "CLOUDS",
    "AwsMachine",
    "AzureMachine",
    "GcpMachine",
    "Gpu",
    "KubeadmJoinConfig",
    "LocalMachine",
    "Machine",
    "SpotInstanceVMSpec",
    "Ssh",
]

CLOUDS: Final = ("gcp", "aws", "azure", "local")
Word = Annotated[str, StringConstraints(min_length=1, max_length=253)]
Words = Annotated[list[Word], Field(max_length=64)]


class Gpu(Model):
    """Accelerators of each machine."""

    type: Word
    """The cloud's word, such as nvidia-tesla-t4."""
    count: Annotated[Int32, Field(ge=1)]


class Machine(Model):
    """What machines of every cloud have."""

    zones: Words | None = None
    """Other zones that are as good, of the same region."""
    machine_types: Words | None = None
    """Other machine types that are as good."""
    image: str | None = None
    """Instead of vmImage, on this cloud."""
    disk_size_gb: Annotated[Int32, Field(ge=1)] = Field(default=100, alias="diskSizeGB")
    external_ip: bool = Field(default=False, alias="externalIP")

    def places(self, zone: str, machine_type: str) -> list[tuple[str, str]]:
        """Every zone with every machine type, those named first first."""
        zones = list(dict.fromkeys([zone, *(self.zones or ())]))
        types = list(dict.fromkeys([machine_type, *(self.machine_types or ())]))
        return [(each, kind) for each in zones if each for kind in types if kind]


class GcpMachine(Machine):
    """Machines of Google Cloud."""

    project: Word
    zone: Word
    region: str | None = None
    """Derived from the zone if absent."""
    machine_type: Word
    disk_type: str = "pd-standard"
    network_tags: Words | None = None
    service_account: str | None = None
    """An e-mail address; it gets the cloud-platform scope."""
    network: str | None = None
    subnetwork: str | None = None


class AwsMachine(Machine):
    """Machines of AWS."""

    region: Word
    zone: Word
    machine_type: Word
    """The instance type."""
    disk_type: str = "gp3"
    subnets: dict[str, Word] | None = None
    """Of each zone; the default subnet if absent."""
    security_groups: Words | None = None
    key_name: str | None = None
    instance_profile: str | None = None


class AzureMachine(Machine):
    """Machines of Azure."""

    subscription: Word
    resource_group: Word
    region: Word
    zone: str | None = None
    """Number of the zone; none for a region without zones."""
    machine_type: Word
    """The VM size."""
    disk_type: str = "StandardSSD_LRS"
    subnet_id: Word = Field(alias="subnetID")
    security_group_id: str | None = Field(default=None, alias="securityGroupID")
    identity: str | None = None


class LocalMachine(Machine):
    """Node agents on the operator's own machine, taken away and given like machines of a cloud."""

    zone: Word = "local-a"
    machine_type: Word = "local"
    notice_seconds: Annotated[Int32, Field(ge=0)] = 30
    capacity: dict[str, Annotated[Int32, Field(ge=0)]] | None = None
    """How many machines each zone has; any number if absent."""


class KubeadmJoinConfig(Model):
    """How machines join the cluster."""

    token_secret_ref: str | None = None
    """Secret with token, ca-cert-hash and control-plane-endpoint; kubeadm-join-token if absent.

    Without such a Secret a short-lived token is made for each machine.
    """
    ca_cert_hash: Annotated[str, StringConstraints(pattern="^(sha256:[0-9a-f]{64})?$")] | None = (
        None
    )
    control_plane_endpoint: str | None = None


class Ssh(Model):
    """How machines are reached for joining them."""

    user: Annotated[str, StringConstraints(min_length=1, max_length=32)] = "corral"
    private_key_secret_ref: LocalReference
    """Secret with ssh-privatekey."""
    port: Annotated[Int32, Field(ge=1, le=65535)] = 22


class SpotInstanceVMSpec(Model):
    """Machines that jobs are placed on."""

    vm_image: str | None = None
    """The machines' image, in the cloud's words."""
    gpu: Gpu | None = None
    gcp: GcpMachine | None = None
    aws: AwsMachine | None = None
    azure: AzureMachine | None = None
    local: LocalMachine | None = None
    startup_script: str | None = None
    """Every process of the machine can read it: no place for secrets."""
    kubeadm_join_config: KubeadmJoinConfig | None = None
    ssh: Ssh | None = None

    @property
    def clouds(self) -> list[str]:
        """Those that have machines here."""
        return [cloud for cloud in CLOUDS if getattr(self, cloud) is not None]
