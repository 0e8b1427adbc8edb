"""The few rtnetlink messages that a pod's network takes.

Written by hand because starting ``ip`` costs more than everything else that opening a sandbox
does: a whole pod takes two sends here, and a node needs no tools installed. Messages are values;
``send`` delivers any number of them in one system call and waits until the kernel has done them.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from typing import Final

from corral.cluster.node.network.errors import NetworkError

_HEADER: Final = struct.Struct("=IHHII")
_LINK: Final = struct.Struct("=BxHiII")
_ADDRESS: Final = struct.Struct("=BBBBi")
_ROUTE: Final = struct.Struct("=BBBBBBBBI")
_ERROR: Final = struct.Struct("=i")

_NEWLINK, _DELLINK, _NEWADDR, _NEWROUTE = 16, 17, 20, 24
_REQUEST, _ACK, _CREATE, _EXCL = 0x1, 0x4, 0x400, 0x200
_NLMSG_ERROR: Final = 2
_IFF_UP: Final = 1
_IFLA_ADDRESS, _IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_FD = 1, 3, 10, 18, 28
_INFO_KIND, _INFO_DATA, _VETH_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_TABLE_MAIN, _TABLE_LOCAL = 254, 255
_STATIC: Final = 4
_SCOPE_HOST: Final = 254
_UNICAST, _LOCAL = 1, 2


@dataclass(frozen=True, slots=True)
class Message:
    """One request to the kernel."""

    kind: int
    body: bytes
    flags: int = 0
    tolerated: frozenset[int] = field(default=frozenset())
    """Answers that are as good as success, for example that it exists already."""


def send(messages: Sequence[Message], *, sock: socket.socket | None = None) -> None:
    """Do these in order, in the namespace of the thread (or of ``sock``).

    Raises:
        NetworkError: the first one that was refused; those after it were tried as well.
    """
    if sock is None:
        with open_socket() as own:
            send(messages, sock=own)
        return
    data = b"".join(
        _HEADER.pack(_HEADER.size + len(m.body), m.kind, m.flags | _REQUEST | _ACK, number, 0)
        + m.body
        for number, m in enumerate(messages)
    )
    try:
        sock.sendto(data, (0, 0))
        problem = _answers(sock, messages)
    except OSError as err:
        raise NetworkError(f"the kernel did not answer: {err}") from err
    if problem:
        raise NetworkError(f"the kernel refused a network change: {os.strerror(problem)}")


def open_socket() -> socket.socket:
    """For ``send``, of the namespace in which this thread is."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    sock.settimeout(10.0)
    return sock


def _answers(sock: socket.socket, messages: Sequence[Message]) -> int:
    waiting, problem = set(range(len(messages))), 0
    while waiting:
        data = sock.recv(1 << 16)
        while len(data) >= _HEADER.size:
            size, kind, _, number, _ = _HEADER.unpack_from(data)
            if kind == _NLMSG_ERROR and number in waiting:
                waiting.discard(number)
                code = -_ERROR.unpack_from(data, _HEADER.size)[0]
                if code and code not in messages[number].tolerated:
                    problem = problem or code
            data = data[_padded(size) :]
    return problem


# -- attributes ------------------------------------------------------------------------------------


def _padded(size: int) -> int:
    return (size + 3) & ~3


def _attribute(kind: int, value: bytes) -> bytes:
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + b"\0" * (_padded(size) - size)


def _name(value: str) -> bytes:
    return _attribute(_IFLA_IFNAME, value.encode() + b"\0")


def _number(kind: int, value: int) -> bytes:
    return _attribute(kind, struct.pack("=I", value))


def _link(index: int = 0, *, up: bool = False) -> bytes:
    flags = _IFF_UP if up else 0
    return _LINK.pack(socket.AF_UNSPEC, 0, index, flags, flags)


def _info(kind: str, data: bytes = b"") -> bytes:
    nested = _attribute(_INFO_KIND, kind.encode())
    return _attribute(_IFLA_LINKINFO, nested + (_attribute(_INFO_DATA, data) if data else b""))


# -- messages --------------------------------------------------------------------------------------


def add_bridge(name: str, mac: bytes) -> Message:
    """A bridge that is up; one that is there already is left as it is."""
    body = _link(up=True) + _name(name) + _attribute(_IFLA_ADDRESS, mac) + _info("bridge")
    flags = _CREATE | _EXCL
    return Message(_NEWLINK, body, flags, tolerated=frozenset({errno.EEXIST}))


def add_cable(name: str, *, bridge: int, peer: str, peer_index: int, mac: bytes, namespace: int
              ) -> Message:  # fmt: skip
    """A veth pair: our end up in the bridge with this index, the other, down, in a namespace."""
    other = (
        _link(peer_index)
        + _name(peer)
        + _attribute(_IFLA_ADDRESS, mac)
        + _number(_IFLA_NET_NS_FD, namespace)
    )
    body = (
        _link(up=True)
        + _name(name)
        + _number(_IFLA_MASTER, bridge)
        + _info("veth", _attribute(_VETH_PEER, other))
    )
    return Message(_NEWLINK, body, _CREATE | _EXCL)


def delete_link(name: str) -> Message:
    """Remove a device; one that is gone already is no error."""
    return Message(_DELLINK, _link() + _name(name), tolerated=frozenset({errno.ENODEV}))


def set_up(index: int) -> Message:
    return Message(_NEWLINK, _link(index, up=True))


def add_address(index: int, address: str, prefix: int) -> Message:
    packed = IPv4Address(address).packed
    body = _ADDRESS.pack(socket.AF_INET, prefix, 0, 0, index)
    body += _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
    return Message(_NEWADDR, body, _CREATE | _EXCL, tolerated=frozenset({errno.EEXIST}))


def add_default_route(gateway: str) -> Message:
    body = _ROUTE.pack(socket.AF_INET, 0, 0, 0, _TABLE_MAIN, _STATIC, 0, _UNICAST, 0)
    body += _attribute(_RTA_GATEWAY, IPv4Address(gateway).packed)
    return Message(_NEWROUTE, body, _CREATE | _EXCL, tolerated=frozenset({errno.EEXIST}))


def add_local_route(network: str) -> Message:
    """Make every address of a network one of this namespace's own, to bind and to answer at."""
    net = IPv4Network(network)
    body = _ROUTE.pack(
        socket.AF_INET, net.prefixlen, 0, 0, _TABLE_LOCAL, _STATIC, _SCOPE_HOST, _LOCAL, 0
    )
    body += _attribute(_RTA_DST, net.network_address.packed) + _number(_RTA_OIF, 1)
    return Message(_NEWROUTE, body, _CREATE | _EXCL, tolerated=frozenset({errno.EEXIST}))
