"""A process that does nothing but hold network namespaces, so that they outlive the agent.

One for each agent. It is run as a file by a bare Python and imports only the standard library. Over
its socket (one JSON message, one answer, descriptors beside them) it is told what to hold:

    {"op": "hold", "name": N} + descriptor  → {"fd": M}      its own number, for /proc/PID/fd/M
    {"op": "find", "name": N}               → {"fd": M}      -1 when it has none of this name
    {"op": "drop", "names": [N]}            → {}
    {"op": "list", "after": N}              → {"names": []}  in order, a page at a time

Nothing else keeps a namespace, so nothing is left when it ends: when it is told to (SIGTERM), or
when its socket is gone from the folder, because somebody removed the folder.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

PAGE = 1000
_LOOK_SECONDS = 5
_NAME = "keeper"


def answer(held: dict[str, int], request: dict[str, Any], fds: list[int]) -> dict[str, object]:
    """Do what one message asks for; descriptors that came with it and are not kept are closed."""
    name = request.get("name", "")
    match request["op"]:
        case "hold" if fds:
            if name in held:
                os.close(held[name])
            held[name] = fds.pop()
            return {"fd": held[name]}
        case "find":
            return {"fd": held.get(name, -1)}
        case "drop":
            for other in request.get("names", ()):
                if other in held:
                    os.close(held.pop(other))
            return {}
        case "list":
            after = request.get("after", "")
            return {"names": sorted(other for other in held if other > after)[:PAGE]}
    return {"error": "not understood"}


def main() -> None:
    """Serve the socket in the folder that is the first argument, as a process of its own.

    The one that was started ends as soon as the socket is there.
    """
    home = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    told, tell = os.pipe()
    if os.fork():
        os.close(tell)
        os._exit(0 if os.read(told, 1) else 1)
    os.close(told)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("-900")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with suppress(FileNotFoundError):
        os.unlink(_NAME, dir_fd=home)
    # the short way in: a socket's whole name must fit in 108 bytes
    listener.bind(f"/proc/self/fd/{home}/{_NAME}")
    listener.listen(16)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.write(tell, b"x")
    os.close(tell)
    _serve(listener, home, os.stat(_NAME, dir_fd=home).st_ino)


def _serve(listener: socket.socket, home: int, mine: int) -> None:
    held: dict[str, int] = {}
    clients: dict[int, socket.socket] = {}
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        ready = poll.poll(_LOOK_SECONDS * 1000)
        if not ready and not _is_there(home, mine):
            return
        for fd, _ in ready:
            if fd == listener.fileno():
                client, _ = listener.accept()
                clients[client.fileno()] = client
                poll.register(client, select.POLLIN)
            elif not _converse(clients[fd], held):
                poll.unregister(fd)
                clients.pop(fd).close()


def _is_there(home: int, mine: int) -> bool:
    try:
        return os.stat(_NAME, dir_fd=home).st_ino == mine
    except OSError:
        return False


def _converse(client: socket.socket, held: dict[str, int]) -> bool:
    """Whether the client is still there."""
    try:
        message, fds, _, _ = socket.recv_fds(client, 1 << 16, 4)
        if not message:
            return False
        try:
            reply = answer(held, json.loads(message), fds)
        finally:
            for fd in fds:
                os.close(fd)
        client.send(json.dumps(reply).encode())
    except (OSError, ValueError, KeyError):
        return False
    return True


if __name__ == "__main__":
    main()
