"""Connections into pods, from the agent's own process: for probes, hooks and port-forwarding."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Any

import aiohttp

from corral.cluster.node.isolation import Sandbox
from corral.cluster.node.network.grounds import connect_from_machine
from corral.cluster.node.network.namespaces import make_socket, open_namespace
from corral.cluster.node.network.services.targets import Target

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LOCAL = ("", "localhost", "127.0.0.1")


async def dial(sandbox: Sandbox, port: int, host: str = "") -> Streams:
    """Connect to a port as from inside the pod. Raises OSError when nobody listens there."""
    problem: OSError = ConnectionRefusedError("nobody listens")
    for address in _candidates(sandbox, host):
        try:
            sock = await _connect(sandbox, Target(address, port))
        except OSError as err:
            problem = err
        else:
            return await asyncio.open_connection(sock=sock)
    raise problem


def _candidates(sandbox: Sandbox, host: str) -> tuple[str, ...]:
    if host not in _LOCAL:
        return (host,)
    if sandbox.network or sandbox.host_network:
        return ("127.0.0.1", sandbox.address)
    # all pods share one 127.0.0.1: what listens at the pod's own address comes first
    return (sandbox.address, "127.0.0.1")


async def _connect(sandbox: Sandbox, target: Target) -> socket.socket:
    """From inside the pod, whatever the address: a probe may name any host, and is the pod's."""
    if not sandbox.network:
        return await connect_from_machine(target, socket.SOCK_STREAM)
    family = socket.AF_INET6 if ":" in target.address else socket.AF_INET
    sock = pod_socket(sandbox, family)
    try:
        await asyncio.get_running_loop().sock_connect(sock, tuple(target))
    except BaseException:
        sock.close()
        raise
    return sock


def pod_socket(sandbox: Sandbox, family: int = socket.AF_INET) -> socket.socket:
    """A socket of the pod's network namespace. Raises OSError."""
    namespace = open_namespace(sandbox.network)
    try:
        return make_socket(namespace, socket.SOCK_STREAM, family)
    finally:
        os.close(namespace)


def http_connector(sandbox: Sandbox) -> aiohttp.BaseConnector:
    """For requests as from inside the pod; each has a connection of its own."""

    def make(info: Any) -> socket.socket:
        family, kind, protocol, *_ = info
        if sandbox.network:
            return pod_socket(sandbox, family)
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        return sock

    return aiohttp.TCPConnector(socket_factory=make, force_close=True)


def machine_address() -> str:
    """The address by which others reach this machine; that of the loopback if there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("198.51.100.1", 9))  # sends nothing: only a route is looked up
            return str(sock.getsockname()[0])
        except OSError:
            return "127.0.0.1"
