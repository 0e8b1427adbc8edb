"""An API server that knows one pod and runs commands in it by a script of the test."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Obj = dict[str, Any]
STDIN, STDOUT, STDERR, ERROR = range(4)


def pod(state: str = "running", **more: Any) -> Obj:
    """A pod of two containers, the first in some state."""
    return {
        "metadata": {"name": "w-0", **more},
        "spec": {"containers": [{"name": "main"}, {"name": "proxy"}]},
        "status": {
            "phase": "Running" if state == "running" else "Pending",
            "containerStatuses": [
                {"name": "proxy", "state": {"running": {}}},
                {"name": "main", "state": {state: {"reason": "ContainerCreating"}}},
            ],
        },
    }


def exited(code: int) -> bytes:
    causes = [{"reason": "ExitCode", "message": str(code)}]
    status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    return json.dumps(status if code else {"status": "Success"}).encode()


class Session:
    """The server's end of one command."""

    def __init__(self, connection: ssl.SSLSocket, request: Request) -> None:
        self.connection = connection
        self.request = request
        self._inbox = b""

    def send(self, channel: int, data: bytes, *, kind: int = 2, last: bool = True) -> None:
        body = (bytes((channel,)) if kind == 2 else b"") + data
        head = bytes(((0x80 if last else 0) | kind,))
        if len(body) < 126:
            head += bytes((len(body),))
        elif len(body) < 1 << 16:
            head += b"\x7e" + struct.pack(">H", len(body))
        else:
            head += b"\x7f" + struct.pack(">Q", len(body))
        self.connection.sendall(head + body)

    def receive(self) -> tuple[int, bytes] | None:
        """Kind and content of the next frame; None when the client is gone."""
        head = self._take(2)
        if head is None:
            return None
        size = head[1] & 0x7F
        if size > 125:
            size = int.from_bytes(self._take(2 if size == 126 else 8) or b"", "big")
        mask, data = self._take(4), self._take(size)
        if mask is None or data is None:
            return None
        assert head[1] & 0x80, "clients have to mask"
        return head[0] & 0x0F, bytes(b ^ mask[i % 4] for i, b in enumerate(data))

    def read_input(self) -> bytes:
        """All input, until the client closes it."""
        data = b""
        while (frame := self.receive()) is not None and frame != (2, bytes((255, STDIN))):
            assert frame[0] == 2 and frame[1][0] == STDIN
            data += frame[1][1:]
        return data

    def _take(self, count: int) -> bytes | None:
        while len(self._inbox) < count:
            try:
                data = self.connection.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                return None
            self._inbox += data
        data, self._inbox = self._inbox[:count], self._inbox[count:]
        return data


class Request:
    def __init__(self, head: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.method, target, _ = first.split(" ")
        self.path = urlsplit(target).path
        self.query = parse_qs(urlsplit(target).query)
        self.headers = {k.lower(): v.strip() for k, _, v in (x.partition(":") for x in lines)}


class RshServer:
    """Answers GETs of the pod in turn, the last for ever, and runs ``script`` for every exec."""

    def __init__(self, folder: Path, certificate: Path, key: Path) -> None:
        self.folder = folder
        self.answers: list[tuple[int, Obj]] = [(200, pod())]
        self.script: Callable[[Session], None] = lambda session: session.send(ERROR, exited(0))
        self.protocol = "v5.channel.k8s.io"
        self.chunked = False
        self.refuse: tuple[int, Obj] | None = None
        self.requests: list[Request] = []
        self.ended = threading.Event()
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate, key)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(10)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                plain, _ = self._listener.accept()
                with suppress(OSError), self._context.wrap_socket(plain, server_side=True) as peer:
                    peer.settimeout(30)
                    self._serve(peer)

    def _serve(self, peer: ssl.SSLSocket) -> None:
        buffer = b""
        while True:
            while b"\r\n\r\n" not in buffer:
                data = peer.recv(1 << 16)
                if not data:
                    return
                buffer += data
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            request = Request(head)
            self.requests.append(request)
            if request.path.endswith("/exec") and self.refuse is None:
                self._run(peer, request)
                return
            code, body = self.refuse if request.path.endswith("/exec") else self._next()
            if not code:
                return
            self._answer(peer, code, json.dumps(body).encode())

    def _next(self) -> tuple[int, Obj]:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def _answer(self, peer: ssl.SSLSocket, code: int, body: bytes) -> None:
        if self.chunked:
            half = len(body) // 2
            parts = b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in (body[:half], body[half:], b""))
            peer.sendall(b"HTTP/1.1 %d x\r\nTransfer-Encoding: chunked\r\n\r\n%b" % (code, parts))
        else:
            peer.sendall(b"HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%b" % (code, len(body), body))

    def _run(self, peer: ssl.SSLSocket, request: Request) -> None:
        lines = ["HTTP/1.1 101 Switching Protocols", f"Sec-WebSocket-Protocol: {self.protocol}"]
        peer.sendall("\r\n".join([*lines, "Upgrade: websocket", "", ""]).encode())
        try:
            self.script(Session(peer, request))
        finally:
            self.ended.set()
