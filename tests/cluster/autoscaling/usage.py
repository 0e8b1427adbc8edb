"""What pods use, as a case says it: from a kubelet of the case, or as objects of metrics.k8s.io."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Protocol

from corral.cluster.apiserver.auth.pki import ensure_pki
from tests.backends import Backend
from tests.cluster.nodes.node_objects import now
from tests.cluster.objects import Obj, Objects, eventually


class Usage(Protocol):
    """Says what pods use."""

    def say(self, pod: Obj, *, cpu: float, memory: int) -> None:
        """Cores and bytes."""


class KubeletUsage:
    """A kubelet that serves nothing but /metrics/resource; in a thread of its own."""

    def __init__(self, pki: Path) -> None:
        self._pki = pki
        self._lock = threading.Lock()
        self._pods: dict[tuple[str, str, str], list[float]] = {}
        """Container → cores, bytes, CPU seconds so far, when that was so."""
        self.port = 0

    def say(self, pod: Obj, *, cpu: float, memory: int) -> None:
        names = [container["name"] for container in pod["spec"]["containers"]]
        for name in names:
            key = (pod["metadata"]["namespace"], pod["metadata"]["name"], name)
            with self._lock:
                used = self._used(key)
                share = len(names)
                self._pods[key] = [cpu / share, memory / share, used, time.time()]

    def _used(self, key: tuple[str, str, str]) -> float:
        cores, _, used, since = self._pods.get(key, [0.0, 0.0, 0.0, time.time()])
        return used + cores * (time.time() - since)

    def text(self) -> str:
        """What it answers now."""
        at = int(time.time() * 1000)
        lines = [f"node_cpu_usage_seconds_total 1 {at}", f"node_memory_working_set_bytes 1 {at}"]
        with self._lock:
            for (namespace, pod, container), value in self._pods.items():
                labels = f'{{container="{container}",namespace="{namespace}",pod="{pod}"}}'
                used = self._used((namespace, pod, container))
                lines += [
                    f"container_cpu_usage_seconds_total{labels} {used} {at}",
                    f"container_memory_working_set_bytes{labels} {int(value[1])} {at}",
                ]
        return "\n".join(lines) + "\n"

    @contextmanager
    def served(self) -> Iterator[None]:
        usage = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = usage.text().encode() if self.path == "/metrics/resource" else b""
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing."""

        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(self._pki / "apiserver.crt", self._pki / "apiserver.key")
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            self.port = server.server_address[1]
            thread = threading.Thread(target=server.serve_forever, name="kubelet")
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join(10)


class ObjectUsage:
    """Objects of a definition that stands in for metrics-server."""

    def __init__(self, cluster: Objects) -> None:
        self._cluster = cluster

    def say(self, pod: Obj, *, cpu: float, memory: int) -> None:
        meta = pod["metadata"]
        inside = Objects(self._cluster.backend, meta["namespace"])
        names = [container["name"] for container in pod["spec"]["containers"]]
        share = len(names)
        use = {"cpu": f"{round(cpu * 1e9 / share)}n", "memory": str(memory // share)}
        body = {
            "apiVersion": "metrics.k8s.io/v1beta1",
            "kind": "PodMetrics",
            "metadata": {"name": meta["name"], "labels": meta.get("labels") or {}},
            "timestamp": now(),
            "window": "15s",
            "containers": [{"name": name, "usage": use} for name in names],
        }
        inside.delete("metrics.k8s.io/v1beta1", "pods", meta["name"])
        inside.create("pods", body)

    def define(self) -> None:
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": "pods.metrics.k8s.io",
                "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
            },
            "spec": {
                "group": "metrics.k8s.io",
                "scope": "Namespaced",
                "names": {"plural": "pods", "kind": "PodMetrics"},
                "versions": [
                    {
                        "name": "v1beta1",
                        "served": True,
                        "storage": True,
                        "schema": {"openAPIV3Schema": schema},
                    }
                ],
            },
        }
        self._cluster.create("customresourcedefinitions", body)
        path = "/apis/metrics.k8s.io/v1beta1/pods"
        eventually(lambda: self._cluster.backend.request("GET", path).code == 200)


@contextmanager
def usage_of(backend: Backend, cluster: Objects, folder: Path) -> Iterator[Usage]:
    """The way of the backend."""
    if backend.name == "embedded":
        pki = folder / "kubelet-pki"
        ensure_pki(pki)
        kubelet = KubeletUsage(pki)
        with kubelet.served():
            yield kubelet
        return
    found = ObjectUsage(cluster)
    found.define()
    yield found
    cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", "pods.metrics.k8s.io")
