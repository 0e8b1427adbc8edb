"""The network of a cluster on this machine, where pods have network namespaces of their own.

One namespace, the gateway, holds a bridge and one end of every pod's cable; nothing is in the
machine's own network. All agents of a cluster on a machine share it: each has its keeper hold it,
and it is gone with the last of them, with everything in it. Clusters do not see each other.

Pods reach pods, service addresses and the API server (see ``proxy``); nothing is routed further.
All methods block for some milliseconds at most.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import threading
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Final

from corral.cluster.node.network import netlink
from corral.cluster.node.network.errors import NetworkError
from corral.cluster.node.network.holding import Keeper
from corral.cluster.node.network.namespaces import (
    inode_of,
    inside,
    make_namespace,
    open_namespace,
    quiet_links,
)
from corral.cluster.node.network.slots import locked

BRIDGE: Final = "corral0"
_HELD: Final = "gateway"
_LO: Final = 1
_ETH0: Final = 2
"""Index of a pod's device: the first that a namespace gets after its loopback."""


class Gateway:
    """The cluster's network as one agent uses it; ``namespace`` is the gateway's descriptor."""

    def __init__(self, shared: Path, keeper: Keeper, *, network: IPv4Network) -> None:
        """``shared`` is the folder in which the agents of this cluster find each other."""
        self._shared = shared
        self._keeper = keeper
        self._network = network
        self.address = str(network.network_address + 1)
        self.namespace = -1
        self._bridge = 0
        self._netlink: socket.socket | None = None
        self._lock = threading.Lock()
        self._routes: set[str] = set()
        self._own: dict[str, int] = {}
        """Pod → its namespace: our own descriptors, for the day that the keeper is killed."""

    # -- the gateway itself ----------------------------------------------------------------------

    def open(self) -> None:
        """Find the cluster's gateway or make it. Raises NetworkError."""
        try:
            with locked(self._shared):
                self.namespace = self._found()
                if self.namespace < 0:
                    self.namespace = make_namespace()
                self._set_up()
                self._publish(self._keeper.hold(_HELD, self.namespace))
        except OSError as err:
            raise NetworkError(f"the pod network cannot be made: {err}") from err

    def _found(self) -> int:
        own = self._keeper.find(_HELD)
        if own:
            return open_namespace(own)
        for record in self._shared.glob("gateway-*"):
            fd = _open_recorded(record)
            if fd >= 0:
                return fd
            record.unlink(missing_ok=True)
        return -1

    def _set_up(self) -> None:
        address = netlink.add_address
        with inside(self.namespace):
            quiet_links()
            netlink.send([netlink.set_up(_LO), netlink.add_bridge(BRIDGE, _mac(self.address))])
            self._bridge = socket.if_nametoindex(BRIDGE)
            netlink.send([address(self._bridge, self.address, self._network.prefixlen)])
            _answer_strays()
            self._netlink = netlink.open_socket()

    def _publish(self, path: str) -> None:
        number = int(path.rpartition("/")[2])
        content = {"pid": self._keeper.pid, "fd": number, "inode": inode_of(self.namespace)}
        self._record().write_text(json.dumps(content))

    def _record(self) -> Path:
        return self._shared / f"gateway-{self._keeper.pid}"

    def close(self, *, remove: bool) -> None:
        """Let go of it; with ``remove`` it goes with the last agent that does."""
        if self._netlink is not None:
            self._netlink.close()
            self._netlink = None
        if self.namespace >= 0:
            os.close(self.namespace)
            self.namespace = -1
        for pod in list(self._own):
            self._disown(pod)
        if remove:
            with locked(self._shared):
                self._record().unlink(missing_ok=True)
                self._keeper.end()
        else:
            self._keeper.close()

    # -- pods ------------------------------------------------------------------------------------

    def attach(self, pod: str, address: str) -> str:
        """A namespace for a pod, with an address; gives the path to it. Raises NetworkError."""
        try:
            namespace = make_namespace()
        except OSError as err:
            raise NetworkError(f"no network namespace could be made: {err}") from err
        try:
            self._connect(pod, address, namespace)
            return self._hold(pod, namespace)
        except OSError as err:
            os.close(namespace)
            raise NetworkError(f"the pod's network cannot be made: {err}") from err
        except BaseException:
            os.close(namespace)
            raise

    def _hold(self, pod: str, namespace: int) -> str:
        """Have it kept, and keep it; the descriptor is ours from then on."""
        path = self._keeper.hold(pod, namespace)
        self._disown(pod)
        self._own[pod] = namespace
        return path

    def _disown(self, pod: str) -> None:
        namespace = self._own.pop(pod, -1)
        if namespace >= 0:
            os.close(namespace)

    def own_path(self, pod: str) -> str:
        """The path of a pod's namespace while this process lives; empty where we have none."""
        namespace = self._own.get(pod, -1)
        return f"/proc/{os.getpid()}/fd/{namespace}" if namespace >= 0 else ""

    def revive(self) -> dict[str, str]:
        """A new keeper for what the one that died held: pod → path. Raises NetworkError."""
        with locked(self._shared):
            self._record().unlink(missing_ok=True)
            self._keeper.open()
            try:
                self._publish(self._keeper.hold(_HELD, self.namespace))
            except OSError as err:
                raise NetworkError(f"the pod network cannot be kept: {err}") from err
        return {pod: self._keeper.hold(pod, own) for pod, own in list(self._own.items())}

    def attach_again(self, pod: str, address: str, process: int) -> str:
        """The namespace that a process of a pod runs in, kept and cabled again; else a new one.

        Its keeper was killed, and the agent with it. Raises NetworkError.
        """
        try:
            namespace = open_namespace(f"/proc/{process}/ns/net") if process else -1
        except OSError:
            namespace = -1  # it has ended
        if namespace >= 0 and inode_of(namespace) == os.stat("/proc/self/ns/net").st_ino:
            os.close(namespace)  # no namespace of a pod
            namespace = -1
        if namespace < 0:
            return self.attach(pod, address)
        try:
            if not self._has_cable(pod, address):
                with inside(namespace):
                    netlink.send([netlink.delete_link("eth0")])  # of a gateway that is gone
                self._connect(pod, address, namespace)
            return self._hold(pod, namespace)
        except BaseException as err:
            os.close(namespace)
            if isinstance(err, OSError):
                raise NetworkError(f"the pod's network cannot be made: {err}") from err
            raise

    def _has_cable(self, pod: str, address: str) -> bool:
        with suppress(OSError), inside(self.namespace):
            return socket.if_nametoindex(_cable(pod, address)) > 0
        return False

    def _connect(self, pod: str, address: str, namespace: int) -> None:
        cable = netlink.add_cable(
            _cable(pod, address),
            bridge=self._bridge,
            peer="eth0",
            peer_index=_ETH0,
            # made of the address: whoever has the address next is found under the same one
            mac=_mac(address),
            namespace=namespace,
        )
        with self._lock:
            netlink.send([cable], sock=self._netlink)
        with inside(namespace):
            # another index than was asked for, where a device of before had that one
            device = socket.if_nametoindex("eth0")
            netlink.send(
                [
                    netlink.set_up(_LO),
                    netlink.set_up(device),
                    netlink.add_address(device, address, self._network.prefixlen),
                    netlink.add_default_route(self.address),
                ]
            )

    def find(self, pod: str) -> str:
        """The path of a pod's namespace; empty when there is none. Raises NetworkError."""
        path = self._keeper.find(pod)
        if path and pod not in self._own:
            with suppress(OSError):  # it is the keeper's still
                self._own[pod] = open_namespace(path)
        return path

    def pods(self) -> list[str]:
        """Those that have a namespace. Raises NetworkError."""
        return [name for name in self._keeper.names() if name != _HELD]

    def detach(self, pods: Sequence[str]) -> None:
        """Remove the namespaces of pods once nothing runs in them. Raises NetworkError.

        The kernel does it in its own time, many at once, the cables included.
        """
        for pod in pods:
            self._disown(pod)
        self._keeper.drop(pods)

    # -- services --------------------------------------------------------------------------------

    def serve(self, address: str) -> None:
        """Make a service's address one of the gateway's own. Raises NetworkError.

        Its neighbours too: that is one route for many services. It goes with the gateway.
        """
        if IPv4Address(address) in self._network:
            block = f"{address}/32"
        else:
            block = str(IPv4Network(f"{address}/24", strict=False))
        if block in self._routes:
            return
        with self._lock:
            netlink.send([netlink.add_local_route(block)], sock=self._netlink)
        self._routes.add(block)


def _cable(pod: str, address: str) -> str:
    """The name of our end of a pod's cable."""
    return "cv" + hashlib.sha256(f"{pod} {address}".encode()).hexdigest()[:12]


def _open_recorded(record: Path) -> int:
    """The gateway that another agent's keeper holds; -1 when it is gone."""
    try:
        value = json.loads(record.read_text())
        fd = open_namespace(f"/proc/{value['pid']}/fd/{value['fd']}")
    except (OSError, ValueError, KeyError):
        return -1
    if inode_of(fd) == value["inode"] and _has_bridge(fd):
        return fd
    os.close(fd)
    return -1


def _has_bridge(namespace: int) -> bool:
    with suppress(OSError), inside(namespace):
        return socket.if_nametoindex(BRIDGE) > 0
    return False


def _answer_strays() -> None:
    """Have pods told at once that what they look for is not here, instead of letting them wait.

    The kernel says so only where it forwards; there is no route to forward along.
    """
    with suppress(OSError), open("/proc/sys/net/ipv4/ip_forward", "w") as file:
        file.write("1")


def _mac(address: str) -> bytes:
    return b"\x0a\x58" + IPv4Address(address).packed


def possible() -> bool:
    """Whether this process may make such networks on this machine; finds out by trying."""
    done: list[bool] = []
    thread = threading.Thread(target=lambda: done.append(_try()))
    thread.start()
    thread.join()
    return bool(done and done[0])


def _try() -> bool:
    try:
        outer, inner = make_namespace(), -1
        try:
            inner = make_namespace()
            with inside(outer):
                netlink.send([netlink.add_bridge(BRIDGE, _mac("10.88.0.1"))])
                index = socket.if_nametoindex(BRIDGE)
                cable = netlink.add_cable(
                    "cv", bridge=index, peer="eth0", peer_index=_ETH0, mac=_mac("10.88.0.2"),
                    namespace=inner,
                )  # fmt: skip
                netlink.send([cable])
        finally:
            for fd in {outer, inner} - {-1}:
                os.close(fd)
    except (OSError, NetworkError):
        return False
    return True
