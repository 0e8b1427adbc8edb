"""What can be read of a node: its pods, its health, its settings, its metrics and statistics."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest

from corral.cluster.node.access import AccessError, PodAccess
from corral.cluster.node.server import exposition
from corral.cluster.node.server.readings import Readings
from corral.cluster.node.server.summary import summary
from corral.kube.types import Obj


class Reports:
    """Answers GET requests without a body."""

    def __init__(
        self,
        access: PodAccess,
        readings: Readings,
        *,
        node: str,
        folder: Path,
        settings: Obj,
        metrics: CollectorRegistry | None = None,
        probes: CollectorRegistry | None = None,
        problems: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._access = access
        self._readings = readings
        self._node = node
        self._folder = folder
        self._settings = settings
        self._metrics = metrics or REGISTRY
        self._probes = probes
        self._problems = problems

    # -- pods ------------------------------------------------------------------------------------

    async def pods(self, _: web.BaseRequest) -> web.Response:
        return _json(_pod_list(self._access.pods()))

    async def running_pods(self, _: web.BaseRequest) -> web.Response:
        """Those of which something runs, with the containers that do."""
        return _json(_pod_list([p for p in map(_running, self._access.pods()) if p is not None]))

    # -- health and settings ---------------------------------------------------------------------

    async def healthz(self, request: web.BaseRequest) -> web.Response:
        problems = self._problems()
        if problems:
            lines = ["[+]ping ok", *(f"[-]syncloop failed: {p}" for p in problems)]
            return web.Response(status=500, text="\n".join([*lines, "healthz check failed", ""]))
        if "verbose" in request.query:
            return web.Response(text="[+]ping ok\n[+]syncloop ok\nhealthz check passed\n")
        return web.Response(text="ok")

    async def configz(self, _: web.BaseRequest) -> web.Response:
        return _json({"kubeletconfig": self._settings})

    async def spec(self, _: web.BaseRequest) -> web.Response:
        """The machine."""
        machine = self._readings.take().machine
        return _json(
            {
                "num_cores": len(os.sched_getaffinity(0)),
                "memory_capacity": machine.memory_total,
                "machine_id": "",
                "system_uuid": "",
                "boot_id": _text(Path("/proc/sys/kernel/random/boot_id")),
                "architecture": platform.machine(),
            }
        )

    # -- metrics ---------------------------------------------------------------------------------

    async def metrics(self, _: web.BaseRequest) -> web.Response:
        return _exposed(generate_latest(self._metrics))

    async def probe_metrics(self, _: web.BaseRequest) -> web.Response:
        return _exposed(generate_latest(self._probes) if self._probes is not None else b"")

    async def resource_metrics(self, _: web.BaseRequest) -> web.Response:
        text = exposition.resource_page(self._readings.take())
        return web.Response(text=text, headers={"Content-Type": exposition.CONTENT_TYPE})

    async def cadvisor_metrics(self, _: web.BaseRequest) -> web.Response:
        text = exposition.cadvisor_page(self._readings.take(), self._access.pods())
        return web.Response(text=text, headers={"Content-Type": exposition.CONTENT_TYPE})

    async def stats_summary(self, request: web.BaseRequest) -> web.Response:
        now = self._readings.take()
        whole = request.query.get("only_cpu_and_memory") != "true"
        folder = self._folder if whole else None
        return _json(summary(self._node, now, self._readings.before, folder=folder))

    # -- what there is not -----------------------------------------------------------------------

    async def checkpoint(self, _: web.BaseRequest, *where: str) -> web.Response:
        """``where``: namespace, pod, container. Raises AccessError, always."""
        namespace, pod, container = where
        self._access.has_tty(namespace, pod, container)  # whether there is such a container
        raise AccessError(
            f"checkpointing of {namespace}/{pod}/{container} failed (processes of this node "
            "cannot be checkpointed)",
            code=500,
        )

    async def logs(self, _: web.BaseRequest, *__: str) -> web.Response:
        return web.Response(status=405, text="logs endpoint is disabled.\n")


def _pod_list(items: list[Obj]) -> Obj:
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}


def _running(pod: Obj) -> Obj | None:
    status = pod.get("status") or {}
    names = {
        one["name"]
        for key in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
        for one in status.get(key) or ()
        if "running" in (one.get("state") or {})
    }
    if not names:
        return None
    spec = pod.get("spec") or {}
    lists = (spec.get(key) or () for key in ("initContainers", "containers", "ephemeralContainers"))
    containers = [
        {"name": c["name"], "image": c.get("image", ""), "resources": {}}
        for found in lists
        for c in found
        if c["name"] in names
    ]
    meta = {key: pod["metadata"].get(key) for key in ("name", "namespace", "uid")}
    return {"metadata": meta, "spec": {"containers": containers}, "status": {}}


def _json(value: Obj) -> web.Response:
    return web.Response(body=orjson.dumps(value), content_type="application/json")


def _exposed(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
