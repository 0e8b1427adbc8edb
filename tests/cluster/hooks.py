"""Webhook servers for behaviour cases: HTTPS on loopback, answering with a plain function."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from corral.cluster.apiserver.auth.pki import ensure_pki

Review = dict[str, Any]


@contextmanager
def webhook(folder: Path, answer: Callable[[Review], Review]) -> Iterator[dict[str, str]]:
    """Serve ``answer`` (request → response); yields the clientConfig that reaches it."""
    pki = ensure_pki(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = {"uid": review["request"]["uid"], **answer(review["request"])}
            body = json.dumps(
                {k: review[k] for k in ("kind", "apiVersion")} | {"response": response}
            )
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.serving.cert_file, pki.serving.key_file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield {
            "url": f"https://127.0.0.1:{server.server_address[1]}/review",
            "caBundle": base64.b64encode(pki.ca.cert).decode(),
        }
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
