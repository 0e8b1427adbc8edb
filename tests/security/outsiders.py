"""Servers that nobody should call, and those that answer what nobody should repeat."""

from __future__ import annotations

import http.server
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache

SECRET_WORDS = "TOPSECRET-of-another-service"


@dataclass
class Outsider:
    """A server on loopback that counts who comes."""

    port: int
    address: str = "127.0.0.1"
    requests: list[str] = field(default_factory=list)
    connections: list[str] = field(default_factory=list)
    status: int = 200
    body: bytes = SECRET_WORDS.encode()
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    @property
    def place(self) -> str:
        return f"{self.address}:{self.port}"


@contextmanager
def outsider(address: str = "127.0.0.1") -> Iterator[Outsider]:
    found = Outsider(0, address)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            found.connections.append(str(self.client_address))
            super().setup()

        def _answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(length)
            found.requests.append(f"{self.command} {self.path}")
            self.send_response(found.status)
            for name, value in found.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(found.body)))
            self.send_header("Connection", "close")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(found.body)

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _answer

        def log_message(self, *args: object) -> None:
            """Not to the output of the tests."""

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that leaves is what is wanted here."""

    server = Server((address, 0), Handler)
    found.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@cache
def bomb(mebibytes: int = 128) -> bytes:
    """Little that unpacks to much: zeroes."""
    packer = zlib.compressobj(wbits=31)
    zeroes = bytes(1 << 20)
    return b"".join(packer.compress(zeroes) for _ in range(mebibytes)) + packer.flush()
