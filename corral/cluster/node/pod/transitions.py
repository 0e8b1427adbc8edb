"""What a pod's machine is told, and what it asks for; see :mod:`lifecycle`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxReady:
    """The pod has its address and its volumes."""

    ips: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process runs."""

    name: str
    id: str
    at: float
    image_id: str = ""
    attempt: int | None = None
    """For ``restore``, where older attempts may be forgotten: which one this is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFailed:
    """A container could not be made; it is tried again after a while."""

    name: str
    reason: str
    message: str
    terminated: bool = False
    """It was made but its program could not be run (a kubelet shows StartError, 128)."""
    retry_after: float = 10.0
    """Seconds; for a program that could not be run the back-off counts instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """No process of the container is left."""

    name: str
    id: str
    at: float
    exit_code: int
    signal: int = 0
    oom_killed: bool = False
    message: str = ""
    reason: str = ""
    """Where the exit code has a meaning of its own."""
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HookDone:
    """postStart has ended."""

    name: str
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probed:
    """A probe has made up its mind: kind is startup, readiness or liveness."""

    name: str
    kind: str
    ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Deleted:
    """Somebody deleted the pod, or shortened its grace period."""

    grace: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """The node ends the pod."""

    reason: str
    message: str
    grace: float = 0.0
    rejected: bool = False
    """It was not let in: it never had containers here, and the status names none."""


Event: TypeAlias = (
    SandboxReady | Started | StartFailed | Exited | HookDone | Probed | Deleted | Evicted
)

# -- actions --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start a container."""

    name: str
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PostStart:
    """Run the container's postStart hook; answer with HookDone."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """preStop, the stop signal, and after ``grace`` seconds the end. May be said again, shorter."""

    name: str
    grace: float
    why: str


Action: TypeAlias = Start | PostStart | Stop
