"""Model code against sockets: names, descriptors, networks."""

from __future__ import annotations

import os
import socket

import pytest

from tests.security.model_code import Jail, jail, listening

__all__ = ["jail"]


def _silent(server: socket.socket) -> None:
    with pytest.raises(BlockingIOError):
        server.recv(100)


@pytest.mark.attack(
    "model code",
    "sends a datagram to a socket by name, from a pair that it may make",
    "neither paths nor abstract names are reached",
)
def test_model_code_datagrams(jail: Jail) -> None:
    for name in (str(jail.folder / "datagrams"), f"@corral-datagrams-{os.getpid()}-{jail.mode}"):
        with listening(name) as server:
            jail.refuses("datagram", name)
            _silent(server)


@pytest.mark.attack(
    "model code",
    "sends a descriptor to a socket by name",
    "neither paths nor abstract names are reached",
)
def test_model_code_descriptors_sent(jail: Jail) -> None:
    for name in (
        str(jail.folder / "descriptors_sent"),
        f"@corral-descriptors_sent-{os.getpid()}-{jail.mode}",
    ):
        with listening(name) as server:
            jail.refuses("descriptor", name, jail.given)
            _silent(server)


@pytest.mark.attack(
    "model code",
    "connects to a stream socket by path and by abstract name",
    "no socket is made",
)
def test_model_code_connects_by_name(jail: Jail) -> None:
    for name in (str(jail.folder / "stream"), f"@corral-stream-{os.getpid()}-{jail.mode}"):
        with listening(name, socket.SOCK_STREAM):
            jail.refuses("connect_unix", name)


@pytest.mark.attack("model code", "connects to a port of the machine", "no socket is made")
def test_model_code_connects(jail: Jail) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        jail.refuses("connect_tcp", server.getsockname()[1])


@pytest.mark.attack("model code", "opens a raw socket", "no socket is made")
def test_model_code_raw_sockets(jail: Jail) -> None:
    jail.refuses("open_socket", 2, 3, 1)


@pytest.mark.attack("model code", "opens a packet socket", "no socket is made")
def test_model_code_packet_sockets(jail: Jail) -> None:
    jail.refuses("open_socket", 17, 3)


@pytest.mark.attack("model code", "talks to the kernel by netlink", "no socket is made")
def test_model_code_netlink(jail: Jail) -> None:
    jail.refuses("open_socket", 16, 3)


@pytest.mark.attack("model code", "reaches the hypervisor by vsock", "no socket is made")
def test_model_code_vsock(jail: Jail) -> None:
    jail.refuses("open_socket", 40, 1)


@pytest.mark.attack("model code", "sends UDP", "no socket is made")
def test_model_code_udp(jail: Jail) -> None:
    jail.refuses("open_socket", 2, 2)


@pytest.mark.attack("model code", "uses the kernel's crypto sockets", "no socket is made")
def test_model_code_kernel_crypto(jail: Jail) -> None:
    jail.refuses("open_socket", 38, 5)


@pytest.mark.attack(
    "model code",
    "keeps descriptors in flight beyond its limit",
    "messages with descriptors are refused",
)
def test_model_code_hides_descriptors(jail: Jail) -> None:
    jail.refuses("descriptor_in_pair")


@pytest.mark.attack(
    "model code",
    "has the kernel signal its parent for it (F_SETOWN)",
    "the owner of signals cannot be set",
)
def test_model_code_signals_by_sockets(jail: Jail) -> None:
    jail.refuses("signal_by_descriptor", jail.process.pid)


def test_a_pair_of_its_own_works(jail: Jail) -> None:
    assert jail.tries("send_in_pair") == "done: inside"
