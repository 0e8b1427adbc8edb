"""Sockets that listen before they are served, and where they were last time."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from corral.runtime.serving.listening import (
    Listen,
    bind,
    bind_or_any,
    keep_facts,
    kept_ports,
    shown,
)


def test_whoever_connects_early_waits_in_the_queue() -> None:
    with bind(Listen()) as sock, socket.create_connection(sock.getsockname(), 10) as client:
        client.sendall(b"early")
        accepted, _ = sock.accept()
        with accepted:
            accepted.settimeout(10)
            assert accepted.recv(5) == b"early"


def test_a_taken_port_is_refused_or_replaced() -> None:
    with bind(Listen()) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError):
            bind(Listen(port=port))
        with bind_or_any(Listen(port=port)) as other:
            assert other.getsockname()[1] not in (0, port)


def test_ports_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"
    assert kept_ports(path, 1) == ()
    keep_facts(path, {"url": "http://x"}, 7, 8)
    assert kept_ports(path, 2) == (7, 8)
    assert kept_ports(path, 1) == ()
    path.write_text("torn")
    assert kept_ports(path, 2) == ()


@pytest.mark.parametrize(
    ("host", "expected"),
    [("", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("h", "h")],
)
def test_addresses_are_shown_as_others_write_them(host: str, expected: str) -> None:
    assert shown(host) == expected
