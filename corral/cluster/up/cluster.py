"""``corral up`` and ``corral down``: the parts of a cluster, started and stopped in order.

Stop: first those who would react to pods that end (additions, controllers, scheduler), then the
nodes with their pods, last the API server.
"""

from __future__ import annotations

import gc
import os
import select
import signal
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from corral.cluster.up import parts
from corral.cluster.up.folder import DataFolder
from corral.cluster.up.supervisor import Part, Ready, Supervisor
from corral.cluster.up.trust import load_aiohttp

if TYPE_CHECKING:
    from corral.cluster.apiserver.audit.log import LogSettings
    from corral.cluster.node.agent import AgentConfig
    from corral.cluster.node.container.images import ImageMap
    from corral.cluster.node.isolation import Mode
    from corral.cluster.node.resources import Gpu
    from corral.kube.types import Obj

__all__ = ["Addition", "Facts", "NotStopped", "Settings", "down", "up"]

_SHARED: Final = (
    "corral.kube.connection.kubeconfig",
    "corral.kube.connection.transport",
    "corral.cluster.streaming",
    "cryptography.hazmat.primitives.serialization",
    "cryptography.x509",
)
"""What the API server and the others need: loaded before it is forked, once for all."""
_LOADED: Final = (
    "corral.kube",
    "corral.runtime.manager",
    "corral.cluster.node.agent",
    "corral.cluster.scheduler",
    "corral.cluster.workloads.claims.provisioner",
    "corral.cluster.workloads.manager",
)
"""Loaded while the API server starts, so that the other parts have them when they are forked."""


Facts = Mapping[str, Mapping[str, Any]]
"""By the name of a part."""


class NotStopped(Exception):
    """The cluster did not stop in time."""


@dataclass(frozen=True, slots=True)
class Addition:
    """A part that is not the cluster's own: a client of the API."""

    name: str
    """Of its log and its credentials."""
    user: str
    """Who it is to the API server; empty: nobody, and it has no credentials."""
    run: Callable[[DataFolder, Ready], Coroutine[Any, Any, None]]
    """Serve until SIGTERM."""
    modules: tuple[str, ...] = ()
    """Loaded while the API server starts."""
    definitions: Callable[[], Sequence[Obj]] = tuple
    """The kinds that it works on: the API server serves them before the part is started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to run a cluster."""

    folder: DataFolder
    host: str = "127.0.0.1"
    port: int = 6443
    nodes: int = 1
    isolation: Mode | None = None
    images: ImageMap | None = None
    gpus: Sequence[Gpu] | None = None
    """None: those of this machine."""
    max_pods: int = 250
    """On each node."""
    token_file: Path | None = None
    expose: Sequence[Path] = ()
    """Paths of the machine that pods see, read-only."""
    host_access: Sequence[str] = ()
    """What pods may have of the machine."""
    audit_policy: Path | None = None
    audit_log: LogSettings | None = None
    """None: in the data folder."""
    share_without_isolation: bool = False
    """Take a second tenant even where pods are not kept apart."""
    registries: Mapping[str, str] = field(default_factory=dict)
    """Where nodes reach registries: name → URL."""
    allowed_endpoints: Sequence[str] = ()
    """Registries that pods may name though they are not public."""
    additions: Sequence[Addition] = ()
    verbose: bool = False

    @property
    def node_names(self) -> list[str]:
        return [f"corral-{number}" for number in range(1, self.nodes + 1)]


def up(
    settings: Settings,
    *,
    ready: Callable[[Path, Facts], None],
    say: Callable[[str], None],
) -> None:
    """Run a cluster until a signal; ``ready`` is called once everything serves.

    It is told the kubeconfig, and what each part said when it was ready.

    Raises FolderError, PartFailed.
    """
    folder = settings.folder
    lock = folder.take()
    gc.disable()  # nothing of what is loaded is garbage
    with Supervisor(say=say, verbose=settings.verbose, keep=(lock,)) as supervisor:
        server = _server(settings)
        load_aiohttp()
        _import(_SHARED)
        supervisor.start([server], meanwhile=partial(_load, settings.additions))
        controllers = [*_additions(settings), *_controllers(folder)]
        nodes = _nodes(settings)
        if not supervisor.signals:
            supervisor.start([*controllers, *nodes])
        gc.freeze()
        gc.enable()
        if not supervisor.signals:
            ready(folder.kubeconfig, {part.name: part.facts or {} for part in supervisor.parts})
            supervisor.watch()
        for wave in (controllers, nodes, [server]):
            supervisor.stop(wave)


def _load(additions: Sequence[Addition]) -> None:
    _import((*_LOADED, *(module for addition in additions for module in addition.modules)))
    from corral.cluster.workloads.manager import CONTROLLERS

    _import(CONTROLLERS.values())


def _import(modules: Iterable[str]) -> None:
    for name in modules:
        import_module(name)


def _server(settings: Settings) -> Part:
    listen = parts.ServerSettings(
        settings.folder,
        settings.host,
        settings.port,
        settings.node_names,
        settings.token_file,
        users={addition.name: addition.user for addition in settings.additions if addition.user},
        definitions=[addition.definitions for addition in settings.additions],
        audit_policy=settings.audit_policy,
        audit_log=settings.audit_log,
        one_tenant=not settings.share_without_isolation,
    )
    run = partial(parts.apiserver, listen)
    return Part("API server", run, settings.folder.log("apiserver"))


def _controllers(folder: DataFolder) -> list[Part]:
    run = partial(parts.workloads, folder.credentials("workloads"), claims=folder.claims)
    schedule = partial(parts.scheduler, folder.credentials("scheduler"))
    return [
        Part("workload controllers", run, folder.log("workloads")),
        Part("scheduler", schedule, folder.log("scheduler")),
    ]


def _additions(settings: Settings) -> list[Part]:
    folder = settings.folder
    return [
        Part(addition.name, partial(addition.run, folder), folder.log(addition.name))
        for addition in settings.additions
    ]


def _nodes(settings: Settings) -> list[Part]:
    folder = settings.folder
    return [
        Part(
            f"node {config.name}",
            partial(parts.node, folder.credentials(config.name), config),
            folder.log(config.name),
        )
        for config in _agents(settings)
    ]


def _agents(settings: Settings) -> list[AgentConfig]:
    """The nodes share the machine; a GPU belongs to one of them."""
    from corral.cluster.node.agent import AgentConfig
    from corral.cluster.node.container.images import ImageMap
    from corral.cluster.node.resources import discover_gpus

    gpus = discover_gpus() if settings.gpus is None else settings.gpus
    return [
        AgentConfig(
            name=name,
            data_dir=settings.folder.node(name),
            isolation=settings.isolation,
            images=settings.images or ImageMap(),
            gpus=tuple(gpus[number :: settings.nodes]),
            max_pods=settings.max_pods,
            expose=settings.expose,
            host_access=settings.host_access,
            job_folders=(settings.folder.checkpoints,),
            registries=settings.registries,
            allowed_endpoints=settings.allowed_endpoints,
            client_ca_file=settings.folder.path / "pki" / "ca.crt",
        )
        for number, name in enumerate(settings.node_names)
    ]


def down(folder: DataFolder, *, timeout: float) -> bool:
    """Stop the cluster on a folder and wait for it; whether there was one. Raises NotStopped."""
    from corral.files.temporary import sweep

    owner = folder.owner()
    if not owner:
        sweep()  # what the parts of one that was killed had for a while
        return False
    try:
        pidfd = os.pidfd_open(owner)
    except ProcessLookupError:
        return False
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        ended, _, _ = select.select([pidfd], [], [], timeout)
    finally:
        os.close(pidfd)
    if not ended:
        raise NotStopped(
            f"the cluster on {folder.path} (process {owner}) has not stopped within {timeout:g} s: "
            f"its pods may need longer to end; see {folder.path / 'logs'}"
        )
    return True
