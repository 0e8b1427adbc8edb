"""Sockets that listen before what serves them is loaded.

Whoever connects meanwhile waits in the queue of the socket, so a process is up as soon as its
sockets are bound. What it needs is loaded with the first connection. Where it listened last time is
kept in a file, so that clients find it again.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

__all__ = [
    "Listen",
    "bind",
    "bind_or_any",
    "first_connection",
    "keep_facts",
    "kept_ports",
    "shown",
]

_BACKLOG: Final = 2048


@dataclass(frozen=True, slots=True)
class Listen:
    """An address; port 0 takes any that is free."""

    host: str = "127.0.0.1"
    port: int = 0


def bind(listen: Listen) -> socket.socket:
    """A socket that listens. Raises OSError."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((listen.host, listen.port))
        sock.listen(_BACKLOG)
        sock.setblocking(False)
    except OSError:
        sock.close()
        raise
    return sock


def bind_or_any(listen: Listen) -> socket.socket:
    """The same, at any free port where the wished one is taken. Raises OSError."""
    try:
        return bind(listen)
    except OSError:
        return bind(replace(listen, port=0))


async def first_connection(
    *sockets: socket.socket, stop: asyncio.Event, within: float | None
) -> None:
    """Until somebody connects, we are asked to stop, or nothing has happened for a while."""
    loop = asyncio.get_running_loop()
    knock = asyncio.Event()
    for sock in sockets:
        loop.add_reader(sock, knock.set)
    waits = {asyncio.create_task(event.wait()) for event in (knock, stop)}
    try:
        await asyncio.wait(waits, timeout=within, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for sock in sockets:
            loop.remove_reader(sock)
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)


def shown(host: str) -> str:
    """The address as others on this machine write it."""
    if host in ("", "0.0.0.0"):
        return "127.0.0.1"
    if host == "::":
        return "[::1]"
    return f"[{host}]" if ":" in host else host


def kept_ports(path: Path, count: int) -> tuple[int, ...]:
    """The ports of the last time; empty where none are known."""
    try:
        ports = tuple(int(port) for port in json.loads(path.read_text())["ports"])
    except (OSError, ValueError, KeyError, TypeError):
        return ()
    return ports if len(ports) == count else ()


def keep_facts(path: Path, facts: dict[str, Any], *ports: int) -> None:
    """Write where we listen, for others and for the next time; it is there whole or not at all."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps({**facts, "ports": list(ports)}) + "\n")
    os.replace(new, path)
