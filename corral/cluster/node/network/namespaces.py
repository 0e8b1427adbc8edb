"""Network namespaces as open descriptors.

A socket belongs for ever to the namespace of the thread that made it, so ``inside`` is all that is
needed to work in another one: enter, make a socket, come back. It must not span an ``await``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from corral.cluster.node.shim import kernel

_OWN: Final = "/proc/thread-self/ns/net"


def open_namespace(path: str = _OWN) -> int:
    """A descriptor of the namespace behind ``path``; of this thread's without one."""
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


@contextmanager
def inside(namespace: int) -> Iterator[None]:
    """Let this thread work in another namespace. Raises OSError."""
    home = open_namespace()
    try:
        _enter(namespace)
        try:
            yield
        finally:
            _return(home)
    finally:
        os.close(home)


def quiet_links() -> None:
    """New links of this thread's namespace have no IPv6 addresses of their own.

    Pods have none either; and every link that comes would greet all the others, whose answers
    cost more than everything else when there are hundreds. Loopback keeps its address.
    """
    with suppress(OSError), open("/proc/sys/net/ipv6/conf/default/disable_ipv6", "w") as file:
        file.write("1")


def make_namespace() -> int:
    """A new, empty one; it lives as long as somebody has it open. Raises OSError."""
    home = open_namespace()
    try:
        kernel.unshare(kernel.NEWNET)
        try:
            quiet_links()
            return open_namespace()
        finally:
            _return(home)
    finally:
        os.close(home)


def make_socket(
    namespace: int, kind: int = socket.SOCK_STREAM, family: int = socket.AF_INET
) -> socket.socket:
    """A socket of another namespace that does not block. Raises OSError."""
    with inside(namespace):
        made = socket.socket(family, kind)
    made.setblocking(False)
    return made


def inode_of(namespace: int) -> int:
    """The number by which the kernel tells living namespaces apart."""
    return os.fstat(namespace).st_ino


def _enter(namespace: int) -> None:
    kernel.setns(f"/proc/thread-self/fd/{namespace}", kernel.NEWNET)


def _return(home: int) -> None:
    try:
        _enter(home)
    except OSError:
        # going on in the wrong network would do harm that nobody could explain
        os.abort()
