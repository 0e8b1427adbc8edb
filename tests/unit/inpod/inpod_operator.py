"""A report endpoint and an object store in one small HTTP server, with faults on demand.

It speaks the protocol of the operator and checks every body as the operator does.
"""

from __future__ import annotations

import hashlib
import json
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

from corral.operator.reports import bodies

JOB = "/v1/namespaces/team-a/trainingjobs/mnist"
MODELS = {
    "report": bodies.Report,
    "checkpoints": bodies.Announcement,
    "uploads": bodies.UploadRequest,
    "commit": bodies.Commit,
    "restore": bodies.RestoreRequest,
}


class Operator(ThreadingHTTPServer):
    """State of the server; `condition` is notified after every request."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.condition = threading.Condition()
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.connections = 0
        self.token = ""
        self.answer: dict[str, Any] = {"checkpointAt": None, "checkpointNow": None, "delete": []}
        self.faults: deque[str | int] = deque()
        self.store_faults: deque[str | int] = deque()
        self.release = threading.Event()
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, dict[str, Any]] = {}
        self.candidates: list[dict[str, Any]] = []
        self.part_size = 1 << 30
        self.scheme = "http"

    @property
    def base(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}"

    @property
    def url(self) -> str:
        return self.base + JOB

    def bodies(self, name: str) -> list[dict[str, Any]]:
        with self.condition:
            return [body for path, body in self.calls if path == name]

    def wait(self, predicate: Callable[[], bool]) -> None:
        with self.condition:
            assert self.condition.wait_for(predicate, 30), [name for name, _ in self.calls]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that vanish are part of the tests."""

    def secure(self, certificate: str, key: str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.socket = context.wrap_socket(self.socket, server_side=True)
        self.scheme = "https"

    # --- the operator's side -----------------------------------------------------------------

    def serve(self, name: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        bodies.parsed(MODELS[name], json.dumps(body).encode())
        if name == "report":
            return 200, self.answer
        if name == "uploads":
            return 200, self._begin(body)
        if name == "commit":
            return self._commit(path.split("/")[-2], body)
        if name == "restore":
            return 200, {"candidates": self.candidates}
        return 200, {"name": "mnist-000001", "phase": "Ready"}

    def _begin(self, body: dict[str, Any]) -> dict[str, Any]:
        identifier = f"step-{body['step']:012d}.upload{len(self.uploads)}"
        self.uploads[identifier] = {}
        files = []
        for file in body["files"]:
            parts = range(0, max(file["size"], 1), self.part_size)
            requests = [
                {
                    "method": "PUT",
                    "url": f"{self.base}{_place(identifier, file['path'])}?part={number}",
                    "headers": {"x-signed": "yes"},
                    "start": start,
                    "size": min(self.part_size, file["size"] - start),
                }
                for number, start in enumerate(parts)
            ]
            upload = f"upload of {file['path']}" if len(requests) > 1 else None
            files.append({"path": file["path"], "requests": requests, "upload": upload})
        return {"id": identifier, "files": files}

    def _commit(self, identifier: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        files = []
        for file in body["files"]:
            prefix = _place(identifier, file["path"])
            parts = [f"{prefix}?part={number}" for number in range(len(file["etags"]))]
            if any(part not in self.objects for part in parts):
                return 409, {"error": f"{file['path']} is not there"}
            whole = b"".join(self.objects[part] for part in parts)
            assert file["etags"] == [_etag(self.objects[part]) for part in parts]
            assert hashlib.sha256(whole).hexdigest() == file["sha256"]
            self.objects[prefix] = whole
            request = {"method": "GET", "url": self.base + prefix, "headers": {"x-signed": "yes"}}
            found = {name: file[name] for name in ("path", "size", "sha256")}
            files.append({**found, "request": request})
        step = int(identifier.split(".")[0][5:])
        candidate = {"id": identifier, "step": step, "metrics": body["metrics"], "files": files}
        if all(known["id"] != identifier for known in self.candidates):
            self.candidates.insert(0, candidate)
        return 200, {"complete": True}


def _place(identifier: str, path: str) -> str:
    return f"/store/{identifier}/{quote(path)}"


def _etag(data: bytes) -> str:
    return '"' + hashlib.md5(data).hexdigest() + '"'


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Operator

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the terminal."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.removeprefix(JOB + "/")
        name = "commit" if path.endswith("/commit") else path
        fault = self.server.faults.popleft() if self.server.faults else None
        expected = f"Bearer {self.server.token}"
        if self.server.token and self.headers.get("Authorization") != expected:
            self._done(401, {"error": "the token is no good"}, name, {})
        elif isinstance(fault, int):
            self._done(fault, {"error": "a fault", "fenced": fault == 409}, name, body)
        elif fault == "refuse":
            self.close_connection = True
            self._note(name, body)
        else:
            self._faulty(fault, name, *self.server.serve(name, path, body), body)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        fault = self.server.store_faults.popleft() if self.server.store_faults else None
        if isinstance(fault, int) or self.headers.get("x-signed") != "yes":
            self._send(fault if isinstance(fault, int) else 403, b"<Error/>")
            return
        self.server.objects[self.path] = data
        if fault == "drop":
            self.close_connection = True
            return
        self._send(200, b"", {"ETag": _etag(data)})

    def do_GET(self) -> None:
        fault = self.server.store_faults.popleft() if self.server.store_faults else None
        data = self.server.objects.get(self.path)
        if isinstance(fault, int) or data is None:
            self._send(fault if isinstance(fault, int) else 404, b"<Error/>")
            return
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        data = data[start:]
        if fault == "half":
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data[: len(data) // 2])
            self.close_connection = True
            return
        self._send(206 if start else 200, data)

    def _faulty(
        self,
        fault: str | int | None,
        name: str,
        status: int,
        answer: dict[str, Any],
        body: dict[str, Any],
    ) -> None:
        if fault == "slow":
            self.server.release.wait(30)
        if fault == "half":  # the call was carried out; its answer breaks off
            text = json.dumps(answer).encode()
            self._note(name, body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(text) + 10))
            self.end_headers()
            self.wfile.write(text)
            self.close_connection = True
        elif fault == "drop":
            self.close_connection = True
            self._note(name, body)
        else:
            self._done(status, answer, name, body)

    def _done(self, status: int, answer: dict[str, Any], name: str, body: dict[str, Any]) -> None:
        self._note(name, body)
        self._send(status, json.dumps(answer).encode())

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in {**(headers or {}), "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def _note(self, name: str, body: dict[str, Any]) -> None:
        with self.server.condition:
            self.server.calls.append((name, body))
            self.server.condition.notify_all()


@contextmanager
def running(operator: Operator) -> Iterator[Operator]:
    thread = threading.Thread(target=operator.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield operator
    finally:
        operator.release.set()
        operator.shutdown()
        operator.server_close()
        thread.join()
