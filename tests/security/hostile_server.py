"""An API server in whose answers every text that others may write is an attack on a terminal."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from corral.client.kinds import KINDS

EVIL = (
    "\x1b]52;c;cm0gLXJmCg==\x07\x1b[2J\x1b[31m\x9b2J\x1b]8;;http://x\x1b\\\\"
    "\nFORGED one\rFORGED two\u2028FORGED three\x85FORGED four\x0bFORGED five"
    "\u202e\u200b\u2066\x7f\x08\x00[bold red]markup[/bold red]\ud800\U000e0041"
)
"""Clipboard, screen, colour, C1, link, line ends of all kinds, text that turns and that hides."""
_TIME = "2026-01-01T00:00:00Z"


def job(plural: str, name: str = "victim") -> dict[str, Any]:
    """An object of a kind, with a text of the attacker's wherever one may be."""
    kind = next(found for found in KINDS if found.plural == plural)
    condition = {"type": EVIL, "status": EVIL, "reason": EVIL, "message": EVIL}
    instance = {
        "name": EVIL, "state": EVIL, "cloud": EVIL, "region": EVIL, "zone": EVIL, "reason": EVIL,
        "machineType": EVIL, "nodeName": EVIL, "joinedCluster": True, "pricePerHour": EVIL,
        "creationTime": EVIL, "instance": EVIL, "endReason": EVIL, "cost": EVIL, "replica": EVIL,
        "startTime": _TIME, "preemptionDeadline": EVIL,
    }  # fmt: skip
    status = {
        "phase": "Failed",
        "message": EVIL,
        "reason": EVIL,
        "startTime": _TIME,
        "completionTime": "2026-01-01T00:01:00Z",
        "conditions": [{"type": "Failed", "status": "True", **_words("reason", "message")},
                       condition],
        "progress": {"step": 3, "totalSteps": 9, "percent": 33, "metrics": {EVIL: 0.5, "loss": 1}},
        "checkpoint": {"last": EVIL, EVIL: EVIL},
        "failure": {"replica": 0, "exitCode": 3, "logTail": EVIL,
                    **_words("pod", "node", "reason", "message")},
        "cost": {"perHour": EVIL, "total": EVIL, "currency": EVIL, "gpuHours": EVIL},
        "instances": [instance],
        "placements": [instance],
        "history": [instance],
    }  # fmt: skip
    meta = {
        "name": name, "namespace": "default", "uid": "11111111-2222", "resourceVersion": "7",
        "creationTimestamp": _TIME, "annotations": {"note": EVIL}, "labels": {},
    }  # fmt: skip
    return {
        "apiVersion": kind.resource.api_version,
        "kind": kind.kind,
        "metadata": meta,
        "spec": {"replicas": 2, "modelRef": EVIL, "round": 1, "roundId": EVIL, "image": EVIL},
        "status": status,
    }


def _words(*names: str) -> dict[str, str]:
    return dict.fromkeys(names, EVIL)


def pod(phase: str) -> dict[str, Any]:
    """A pod of the job; one that has failed has a log."""
    state: dict[str, Any] = {"waiting": _words("reason", "message")}
    if phase == "Failed":
        state = {"terminated": {"exitCode": 3, **_words("reason", "message")}}
    name = "victim-0" if phase == "Failed" else f"victim-{EVIL}"
    container = "main" if phase == "Failed" else EVIL
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": "u",
                     "creationTimestamp": _TIME,
                     "labels": {"trainingjob": "victim", "replica-id": "0", "role": EVIL,
                                "training.kubeflow.org/job-role": EVIL}},
        "spec": {"nodeName": EVIL, "containers": [{"name": container, "image": EVIL}]},
        "status": {"phase": phase, **_words("reason", "message"),
                   "containerStatuses": [{"name": container, "restartCount": 1, "state": state}]},
    }  # fmt: skip


def event() -> dict[str, Any]:
    about = {"kind": EVIL, "name": EVIL}
    return {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": EVIL, "namespace": "default"},
        "involvedObject": about, "count": 2, "lastTimestamp": _TIME,
        **_words("type", "reason", "message"),
    }  # fmt: skip


class HostileServer:
    """Serves it on the loopback; `refuses` answers with a Status of the attacker's words."""

    def __init__(self, folder: Path) -> None:
        self.refuses = 0
        self.pods = "Pending"
        self.more: tuple[str, ...] = ()
        """Names of further jobs."""
        owner = self

        class Handler(_Handler):
            server_state = owner

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(json.dumps(_kubeconfig(self.url)))

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def jobs(self, plural: str) -> list[Any]:
        """A collection."""
        return [job(plural), *(job(plural, name) for name in self.more)]

    def answer(self, path: str) -> tuple[int, bytes]:
        """The status and the body of a request."""
        if self.refuses:
            return self.refuses, _dumped(_status(self.refuses))
        if path.endswith("/log"):
            return 200, f"first\n{EVIL}\nlast\n".encode(errors="surrogatepass")
        return 200, _dumped(self._found(path))

    def _found(self, path: str) -> Any:
        if "metrics.k8s.io" in path:
            return _list([{"metadata": {"name": f"victim-{EVIL}"}, "containers": []}])
        plural, _, name = re.sub(r".*/namespaces/[^/]+/", "", path).partition("/")
        plural = plural.rpartition("/")[2]
        if plural == "pods":
            return pod(self.pods) if name else _list([pod(self.pods)])
        if plural == "events":
            return _list([event()])
        if plural in {kind.plural for kind in KINDS}:
            return job(plural, name.partition("/")[0]) if name else _list(self.jobs(plural))
        return _list([])


def _status(code: int) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code,
            **_words("reason", "message")}  # fmt: skip


def _list(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "metadata": {"resourceVersion": "7"},
            "items": items}  # fmt: skip


def _dumped(obj: Any) -> bytes:
    # lone surrogates stand in no JSON that is read: they come as replacement characters
    return json.dumps(obj).replace("\\ud800", "\\ufffd").encode()


def _kubeconfig(url: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_state: HostileServer

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(length)
        code, body = self.server_state.answer(self.path.partition("?")[0])
        self.send_response(code)
        plain = self.path.partition("?")[0].endswith("/log")
        self.send_header("Content-Type", "text/plain" if plain else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Warning", '299 - "look \\"here\\": \x1b[2J\x9bFORGED"')
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""
