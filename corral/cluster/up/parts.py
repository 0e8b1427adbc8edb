"""What each part of a cluster does in its own process: serve until SIGTERM.

Modules are imported where they are used: a part loads no more than it needs, and the process that
forks them decides what is loaded beforehand.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from corral.cluster.up.folder import DataFolder
from corral.cluster.up.objects import initial_objects
from corral.cluster.up.supervisor import Expected, Ready
from corral.cluster.up.trust import load_aiohttp
from corral.files.private import NotPrivate, data_folder

if TYPE_CHECKING:
    from corral.cluster.apiserver.audit.log import LogSettings
    from corral.cluster.node.agent import AgentConfig
    from corral.kube import KubeClient
    from corral.kube.types import Obj
    from corral.runtime import Manager

__all__ = ["ServerSettings", "apiserver", "node", "scheduler", "workloads"]

logger = logging.getLogger(__name__)


class Stop:
    """SIGTERM and SIGINT, as something to wait for."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.hurry = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    def _on_signal(self) -> None:
        if self.asked.is_set():
            self.hurry.set()
        self.asked.set()


# -- the API server ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """How the API server listens, and for whom it writes credentials."""

    folder: DataFolder
    host: str
    port: int
    nodes: Sequence[str] | None = None
    """None: the server stands alone."""
    token_file: Path | None = None
    users: Mapping[str, str] = field(default_factory=dict)
    """Further parts and who they are."""
    definitions: Sequence[Callable[[], Sequence[Obj]]] = ()
    """The kinds that they work on."""
    audit_policy: Path | None = None
    audit_log: LogSettings | None = None
    one_tenant: bool = False
    """As in the API server's own configuration."""


async def apiserver(settings: ServerSettings, ready: Ready) -> None:
    """The API server. Says its port and kubeconfig."""
    load_aiohttp()
    from corral.cluster.apiserver.audit.policy import PolicyError
    from corral.cluster.apiserver.process import Collector, dedicate
    from corral.cluster.apiserver.server import ApiServer, Config
    from corral.cluster.apiserver.store import StoreError
    from corral.cluster.up.credentials import Credentials
    from corral.kube.errors import ApiError

    stop = Stop()
    folder = settings.folder
    try:
        data_folder(folder.path)
    except NotPrivate as err:
        raise Expected(f"cannot use the data folder: {err} (--data-dir)") from err
    except OSError as err:
        raise Expected(f"cannot use {err.filename}: {err.strerror}") from err
    config = Config(
        data_dir=folder.path,
        host=settings.host,
        port=settings.port or folder.last_port(),
        token_file=settings.token_file,
        audit_policy=settings.audit_policy,
        audit_log=settings.audit_log,
        one_tenant=settings.one_tenant,
    )
    credentials = None
    if settings.nodes is not None:
        credentials = Credentials(folder, settings.nodes, settings.users)
        config = replace(
            config,
            objects=initial_objects(),
            definitions=[obj for definitions in settings.definitions for obj in definitions()],
            loopback_endpoints=True,
            socket=credentials.socket,
            users=credentials.tokens(),
        )
    server = ApiServer(config)
    try:
        await server.start()
    except (PolicyError, StoreError) as err:
        raise Expected(str(err)) from err
    except ApiError as err:
        raise Expected(f"an object that the cluster begins with is refused: {err}") from err
    except OSError as err:
        if err.filename:
            raise Expected(f"cannot use {err.filename}: {err.strerror}") from err
        where = f"{settings.host}:{config.port}"
        raise Expected(
            f"cannot listen on {where}: {err.strerror}; choose another port with --port "
            "(0 takes a free one)"
        ) from err
    if credentials is not None:
        folder.keep_port(server.port)
        where = f"https://{settings.host}:{server.port}"
        credentials.write(where, server.pki.ca.cert)
        server.on_renewal = lambda: credentials.write(where, server.pki.ca.cert)
    dedicate()
    collector = Collector()
    collector.start()
    ready({"port": server.port, "kubeconfig": str(server.kubeconfig)})
    await stop.asked.wait()
    collector.stop()
    await server.stop()


# -- what runs on a manager ------------------------------------------------------------------------


async def workloads(
    kubeconfig: Path | None,
    ready: Ready,
    *,
    names: Iterable[str] | None = None,
    claims: Path | None = None,
) -> None:
    """The workload controllers; ``claims`` is where volume claims get their folders."""
    from corral.cluster.workloads.claims import provisioner
    from corral.cluster.workloads.manager import CONTROLLERS, UnknownController, register

    def add(manager: Manager) -> None:
        try:
            register(manager, CONTROLLERS if names is None else names)
        except UnknownController as err:
            raise Expected(str(err)) from err
        if claims is not None:
            provisioner.register(manager, claims)

    await _manage(kubeconfig, add, ready)


async def scheduler(
    kubeconfig: Path | None, ready: Ready, *, name: str = "default-scheduler"
) -> None:
    """The scheduler."""
    from corral.cluster.scheduler import register

    await _manage(kubeconfig, lambda manager: register(manager, scheduler_name=name), ready)


async def _manage(kubeconfig: Path | None, add: Callable[[Manager], object], ready: Ready) -> None:
    from corral.runtime import Manager

    stop = Stop()
    async with _client(kubeconfig) as client:
        manager = Manager(client)
        add(manager)
        running = asyncio.create_task(manager.run())
        synced = asyncio.create_task(manager.wait_ready())
        asked = asyncio.create_task(stop.asked.wait())
        try:
            await asyncio.wait({running, synced, asked}, return_when=asyncio.FIRST_COMPLETED)
            if synced.done():
                ready({})
                await asyncio.wait({running, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            manager.stop()
            synced.cancel()
            asked.cancel()
            await running


def _client(kubeconfig: Path | None) -> KubeClient:
    from corral.kube import ClientSettings, KubeClient

    path = str(kubeconfig) if kubeconfig else None
    return KubeClient.from_kubeconfig(
        path,
        # each new connection costs more than the requests that would wait for one of these
        settings=ClientSettings(max_connections=8),
        # warnings are for people: what a controller sends is not theirs to mend
        on_warning=logger.debug,
    )


# -- nodes -----------------------------------------------------------------------------------------


async def node(
    kubeconfig: Path | None, config: AgentConfig, ready: Ready, *, keep_pods: bool = False
) -> None:
    """A node agent. Ends its pods when it is asked to stop, unless they are to be kept."""
    from corral.cluster.node.agent import Agent, FolderInUse

    stop = Stop()
    async with _client(kubeconfig) as client:
        agent = Agent(config, client)
        try:
            await agent.start()
        except (FolderInUse, OSError) as err:
            raise Expected(str(err)) from err
        ready({"name": config.name, "pid": os.getpid(), "isolation": agent.isolation})
        failed = asyncio.create_task(agent.wait())
        asked = asyncio.create_task(stop.asked.wait())
        await asyncio.wait({failed, asked}, return_when=asyncio.FIRST_COMPLETED)
        if failed.done() and not stop.asked.is_set():
            # what runs goes on: the next agent takes it over
            await agent.stop(end_pods=False)
            failed.result()
            raise RuntimeError("the agent ended")
        failed.cancel()
        stopping = asyncio.create_task(agent.stop(end_pods=not keep_pods))
        hurry = asyncio.create_task(stop.hurry.wait())
        await asyncio.wait({stopping, hurry}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            await agent.hurry()
        hurry.cancel()
        await stopping
