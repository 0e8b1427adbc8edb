"""A broker as a process of its own, or as a part of ``corral up``, until SIGTERM.

As a part it listens at once and is loaded with the first connection. It listens twice: for those on
the machine, who are told its address on the loopback, and for pods, who reach it through a Service
and are told the name of that.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from corral.cluster.broker.logins import SECRET, load_key
from corral.runtime.serving.listening import (
    Listen,
    bind,
    bind_or_any,
    first_connection,
    keep_facts,
    kept_ports,
    shown,
)

__all__ = ["PREFERRED", "LocalBroker", "choose_ports", "run_part", "serve"]

logger = logging.getLogger(__name__)

PREFERRED: Final = 9092
"""The port where nobody wishes otherwise."""
_LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalBroker:
    """The broker of a cluster on this machine."""

    folder: Path
    """The cluster's data folder."""
    port: int
    pod_port: int
    """Where the Service leads."""
    open: bool = False
    """Whether nobody has to log in, and all see the same."""

    @property
    def addresses(self) -> Path:
        """Where its addresses are written."""
        return self.folder / "broker.json"

    @property
    def key(self) -> Path | None:
        """The key of namespaces' logins; nobody but who runs the cluster reads it."""
        return None if self.open else self.folder / "credentials" / "broker.key"

    @property
    def pods(self) -> str:
        """Bootstrap servers as pods are told them."""
        from corral.cluster.broker.address import POD_ADDRESS

        # pods without a network of their own know no names, and need none
        return f"{POD_ADDRESS},{self.bootstrap}"

    @property
    def secret(self) -> str:
        """The Secret of each namespace with its login; empty where nobody has one."""
        return "" if self.open else SECRET

    @property
    def bootstrap(self) -> str:
        return f"{_LOOPBACK}:{self.port}"


def choose_ports(folder: Path, port: int | None, *, any_port: bool) -> tuple[int, int]:
    """Ports for the machine and for pods: those of the last time, if they are free.

    They are chosen before the broker runs, because others are told. Raises OSError where the port
    that is asked for is taken.
    """
    first, second = kept_ports(folder / "broker.json", 2) or (0 if any_port else PREFERRED, 0)
    wished = Listen(_LOOPBACK, port if port else first)
    with (
        bind(wished) if port else bind_or_any(wished) as own,
        bind_or_any(Listen(_LOOPBACK, second)) as pods,
    ):
        return own.getsockname()[1], pods.getsockname()[1]


async def serve(settings: Any, ready: Callable[[dict[str, Any]], None]) -> None:
    """Serve until SIGTERM; ``ready`` is told the address.

    Raises:
        DataError: the data folder cannot be used.
        OSError: nor can the port.
    """
    from corral.cluster.broker.server import Broker

    stop = _stop_signal()
    broker = Broker(settings)
    try:
        await broker.start()
        ready({"bootstrap": broker.addresses[0]})
        await stop.wait()
    finally:
        await broker.stop()


async def run_part(
    local: LocalBroker, ready: Callable[[dict[str, Any]], None], *, kubeconfig: Path
) -> None:
    """Serve until SIGTERM; ``kubeconfig`` is the administrator's, for the Service.

    Raises:
        DataError: the data folder cannot be used.
        OSError: nor can a port.
        ValueError: nor can the key.
    """
    from corral.cluster.broker.address import POD_ADDRESS
    from corral.cluster.broker.service import look_after

    stop = _stop_signal()
    own = bind(Listen(_LOOPBACK, local.port))
    with own, bind(Listen(_LOOPBACK, local.pod_port)) as pods:
        facts = {
            "bootstrap": f"{shown(_LOOPBACK)}:{local.port}",
            "pods": POD_ADDRESS,
            "secret": local.secret,
        }
        keep_facts(local.addresses, facts, local.port, local.pod_port)
        gone = Gone()
        tasks = [asyncio.create_task(look_after(kubeconfig, _LOOPBACK, local.pod_port))]
        if local.key is not None:
            from corral.cluster.broker.secrets import hand_out

            key = load_key(local.key)
            handing = hand_out(kubeconfig, key, local.pods, gone.add, gone.ask)
            tasks.append(asyncio.create_task(handing))
        ready(facts)
        try:
            await first_connection(own, pods, stop=stop, within=None)
            if not stop.is_set():
                await _load_and_serve(local, gone, (own, ""), (pods, POD_ADDRESS), stop=stop)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


class Gone:
    """Namespaces that were deleted, until there is a broker that forgets them."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._forget: Callable[[str], None] | None = None
        self._exists: Callable[[str], bool | None] = lambda _: None

    def ask(self, exists: Callable[[str], bool | None]) -> None:
        """Who knows from now on which namespaces there are."""
        self._exists = exists

    def exists(self, owner: str) -> bool | None:
        """Whether somebody's namespace is there; None while nobody knows."""
        return self._exists(owner)

    def add(self, owner: str) -> None:
        if self._forget is None:
            self._waiting.append(owner)
        else:
            self._forget(owner)

    def tell(self, forget: Callable[[str], None]) -> None:
        """From now on."""
        self._forget = forget
        while self._waiting:
            forget(self._waiting.pop())


async def _load_and_serve(
    local: LocalBroker, gone: Gone, *sockets: Any, stop: asyncio.Event
) -> None:
    from corral.cluster.broker.server import Broker, Listener
    from corral.cluster.broker.settings import BrokerSettings

    settings = BrokerSettings(data_dir=local.folder / "broker", port=local.port, key_file=local.key)
    broker = Broker(settings)
    broker.exists = gone.exists
    try:
        await broker.start(*(Listener(sock, advertised) for sock, advertised in sockets))
        gone.tell(broker.forget)
        await stop.wait()
    finally:
        await broker.stop()


def _stop_signal() -> asyncio.Event:
    """Set by SIGTERM and SIGINT."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop
