"""Pods in network namespaces of their own, joined by a bridge. Needs root, ``ip`` and ``nsenter``.

A namespace lives as long as the pod's sandbox; with it go the pod's end of the cable and the
node's. The bridge has the network's first address: pods reach the node there, and each other;
nothing is routed further.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
from collections.abc import Sequence
from ipaddress import IPv4Network


class NetworkError(Exception):
    """A network could not be set up."""


def tools_present() -> bool:
    return shutil.which("ip") is not None and shutil.which("nsenter") is not None


class Bridge:
    """The network of one node."""

    def __init__(self, name: str, network: str, *, namespace: str = "") -> None:
        """``namespace`` is the path of the one the bridge is in; empty for our own."""
        if len(name) > 15:
            raise ValueError(f"{name} is too long for a network device")
        self.name = name
        self._net = IPv4Network(network)
        self._namespace = namespace
        self.gateway = str(self._net.network_address + 1)

    async def open(self) -> None:
        """Make the bridge, unless it is there. Raises NetworkError."""
        try:
            await _ip([f"link add name {self.name} type bridge"], self._namespace)
        except NetworkError as err:
            if "File exists" not in str(err):
                raise
        address = f"{self.gateway}/{self._net.prefixlen}"
        await _ip(
            [f"addr replace {address} dev {self.name}", f"link set {self.name} up"], self._namespace
        )

    async def close(self) -> None:
        """Remove the bridge."""
        await _ip([f"link del {self.name}"], self._namespace)

    async def attach(self, pid: int, address: str, owner: str) -> None:
        """Give the network namespace of process ``pid`` an address. Raises NetworkError."""
        cable = "cv" + hashlib.sha256(owner.encode()).hexdigest()[:10]
        await _ip(
            [
                f"link add {cable} type veth peer name eth0 netns {pid}",
                f"link set {cable} master {self.name} up",
            ],
            self._namespace,
        )
        await _ip(
            [
                "link set lo up",
                f"addr add {address}/{self._net.prefixlen} dev eth0",
                "link set eth0 up",
                f"route add default via {self.gateway}",
            ],
            f"/proc/{pid}/ns/net",
        )


async def _ip(commands: Sequence[str], namespace: str) -> None:
    enter = ["nsenter", f"--net={namespace}"] if namespace else []
    process = await asyncio.create_subprocess_exec(
        *enter,
        "ip",
        "-batch",
        "-",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, problem = await process.communicate("\n".join(commands).encode())
    if process.returncode:
        raise NetworkError(problem.decode(errors="replace").strip())
