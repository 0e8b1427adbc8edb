"""What every cloud can do for us, in one interface.

Guarantees of each provider:

- `create` with the same request makes one VM, however often it is called and whatever answer is
  lost; a VM of the same name that somebody else made is never taken for ours.
- `delete` of what is not there succeeds.
- `list` has every VM with our owner label, or raises: what decides about orphans must see all.
- Errors are those of `errors`; nothing of a cloud's library passes this border.

Times are seconds since the epoch, prices are per hour.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, runtime_checkable

from corral.clouds.errors import BadRequest

__all__ = [
    "OWNER_LABEL",
    "REQUEST_LABEL",
    "CloudProvider",
    "Gpu",
    "Hazard",
    "Notice",
    "NoticeKind",
    "Price",
    "State",
    "Vm",
    "VmRef",
    "VmRequest",
    "checked",
    "labels_of",
    "listed",
    "vm_name",
]

OWNER_LABEL: Final = "corral-owner"
"""On every VM of ours: which installation made it."""
REQUEST_LABEL: Final = "corral-request"
"""On every VM of ours: the request id that it was made for."""
_NAME: Final = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL: Final = re.compile(r"[a-z0-9_-]{0,63}")
MAX_NAME: Final = 63


@dataclass(frozen=True, slots=True)
class Gpu:
    """Accelerators that are attached to a VM."""

    type: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class VmRequest:
    """One VM that is wanted."""

    name: str
    """Lower case letters, digits and hyphens, at most 63: also the node's name."""
    request_id: str
    """A UUID; the same one for every attempt to make this VM."""
    owner: str
    """The installation; what `list` and the sweeper go by."""
    zone: str
    machine_type: str
    image: str = ""
    spot: bool = True
    gpu: Gpu | None = None
    disk_gb: int = 100
    disk_type: str = ""
    """The cloud's own word; empty takes its plainest."""
    labels: Mapping[str, str] = field(default_factory=dict)
    network_tags: Sequence[str] = ()
    service_account: str = ""
    startup_script: str = ""
    """Never holds a secret: every process on the VM can read it."""
    ssh_user: str = ""
    ssh_public_key: str = ""
    max_price: float | None = None
    """Per hour; None pays what it costs."""
    max_run_s: int | None = None
    notice_s: int | None = None
    """Asks for so long a notice, where the cloud lets one choose."""


class State(StrEnum):
    """Of a VM, in the words of all clouds together."""

    PENDING = "Pending"
    RUNNING = "Running"
    STOPPING = "Stopping"
    TERMINATED = "Terminated"


@dataclass(frozen=True, slots=True)
class VmRef:
    """The name of one VM, enough to look it up or delete it."""

    name: str
    zone: str
    id: str = ""
    """The cloud's own, where known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vm:
    """A VM as the cloud describes it."""

    name: str
    zone: str
    id: str = ""
    machine_type: str = ""
    state: State
    raw_state: str = ""
    """In the cloud's own word."""
    spot: bool = True
    preempted: bool | None = None
    """Whether the cloud took it; None where the cloud does not tell."""
    internal_ip: str = ""
    external_ip: str = ""
    created: float | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    metadata: str = ""
    """Where its metadata can be read from outside; of local VMs only."""

    @property
    def ref(self) -> VmRef:
        return VmRef(self.name, self.zone, self.id)

    @property
    def request_id(self) -> str:
        return self.labels.get(REQUEST_LABEL, "")

    @property
    def alive(self) -> bool:
        """Whether it runs or will."""
        return self.state in (State.PENDING, State.RUNNING)


class NoticeKind(StrEnum):
    """What a cloud tells about a VM."""

    PREEMPTION = "Preemption"
    """It will be taken at the deadline."""
    MAINTENANCE = "Maintenance"
    """It will be stopped, moved or started anew at the deadline, for the cloud's own reasons."""
    REBALANCE = "Rebalance"
    """It is more likely than others to be taken; there is no deadline."""
    GONE = "Gone"
    """It is stopping, has stopped, or is no longer there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One piece of news about one VM."""

    kind: NoticeKind
    vm: str
    """Its name; empty from a VM's own metadata where that does not say."""
    deadline: float | None = None
    seen: float
    id: str = ""
    """The cloud's own, where it has one: to acknowledge."""
    source: str = "metadata"
    """``metadata``: told inside the VM; ``state``: seen from outside."""
    preempted: bool | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a machine type costs an hour."""

    machine_type: str
    zone: str
    """A zone, or a region where all its zones cost the same."""
    spot: bool
    per_hour: float
    currency: str = "USD"
    at: float | None = None
    """When the price was observed, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """How often spot VMs of a type are taken."""

    machine_type: str
    zone: str
    """A zone, or a region where nothing finer is published."""
    per_hour: float
    """The expected number of preemptions in an hour."""
    source: str
    at: float | None = None


@runtime_checkable
class CloudProvider(Protocol):
    """The VMs of one account in one cloud."""

    name: str
    """gcp, aws, azure or local."""

    async def create(self, request: VmRequest) -> Vm:
        """Make a VM, or find the one this request made before. Returns when the cloud has decided.

        Raises:
            Transient: among others when the cloud takes longer than the provider waits: ask again.
            StockOut, QuotaExceeded, AccountRefused, BadRequest: nothing was left behind. Another
                attempt needs a new request id: clouds repeat their answer to an old one.
        """
        ...

    async def delete(self, ref: VmRef) -> None:
        """See that a VM goes; what is not there is gone already."""
        ...

    async def get(self, ref: VmRef) -> Vm | None:
        """A VM as it is now; None when there is none."""
        ...

    async def list(self, owner: str) -> Sequence[Vm]:
        """All VMs of an owner, stopped ones too."""
        ...

    def notices(self, owner: str) -> AsyncIterator[Notice]:
        """What can be seen from outside about the VMs of an owner, for as long as one listens."""
        ...

    async def prices(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Price]:
        """What is known of these; not every pair need be there."""
        ...

    async def hazards(self, machine_types: Sequence[str], zones: Sequence[str]) -> Sequence[Hazard]:
        """What the provider publishes about these; not every pair need be there."""
        ...

    async def host_keys(self, ref: VmRef) -> Sequence[str]:
        """Public SSH host keys by a way that is not the network to the VM; empty: not yet known."""
        ...

    async def close(self) -> None:
        """Close connections to the cloud; VMs are left as they are."""
        ...


def checked(request: VmRequest) -> VmRequest:
    """The request, if every cloud would take its names. Raises BadRequest."""
    if not _NAME.fullmatch(request.name):
        raise BadRequest(
            f"{request.name!r} cannot be a VM's name: use at most {MAX_NAME} lower case letters, "
            "digits and hyphens, a letter first and no hyphen last"
        )
    for key, value in labels_of(request).items():
        if not key or not _LABEL.fullmatch(key) or not _LABEL.fullmatch(value):
            raise BadRequest(
                f"label {key}={value} cannot be on a VM: use at most 63 lower case letters, "
                "digits, hyphens and underscores"
            )
    if not request.owner or not request.request_id:
        raise BadRequest("a VM needs an owner and a request id, or it could never be found again")
    return request


def labels_of(request: VmRequest) -> dict[str, str]:
    """All labels of the VM, ours among them."""
    ours = {OWNER_LABEL: request.owner, REQUEST_LABEL: request.request_id}
    return {**request.labels, **ours}


def vm_name(*parts: str) -> str:
    """A name of these parts that every cloud takes; shortened ones stay different."""
    name = re.sub(r"[^a-z0-9]+", "-", "-".join(parts).lower()).strip("-")
    if not name[:1].isalpha():
        name = f"vm-{name}" if name else "vm"
    if len(name) <= MAX_NAME:
        return name
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9].rstrip('-')}-{digest}"


def listed(
    per_hour: Mapping[str, float], machine_types: Sequence[str], zones: Sequence[str]
) -> list[Price]:
    """Prices on demand that somebody wrote down, the same in every zone."""
    return [
        Price(machine_type=kind, zone=zone, spot=False, per_hour=per_hour[kind])
        for zone in zones
        for kind in machine_types
        if kind in per_hour
    ]
