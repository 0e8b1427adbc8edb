"""metrics.k8s.io: what nodes and pods use now, read from the kubelets when somebody asks.

CPU is the rate between the last two readings of a node. The first question to a node takes two
readings a second apart; containers that appeared in between are averaged since their start.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import aiohttp
import orjson
from aiohttp import web

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.http import negotiate
from corral.cluster.apiserver.http.verbs import answer
from corral.cluster.apiserver.nodes import exposition
from corral.cluster.apiserver.nodes.exposition import Sample, Usage
from corral.cluster.apiserver.nodes.kubelets import Kubelets
from corral.cluster.apiserver.nodes.lookup import NODES, PODS, Lookup, kubelet_of
from corral.cluster.apiserver.requests import RequestInfo
from corral.kube import errors
from corral.kube.selectors import SelectorError, matches_fields, parse_fields, parse_labels
from corral.kube.types import Obj

log = logging.getLogger(__name__)

API = "metrics.k8s.io/v1beta1"
RESOLUTION = 5.0
"""Seconds for which a reading is fresh."""
STALE = 60.0
"""Seconds after which the last reading says nothing about now."""
FIRST_WINDOW = 1.0
"""Seconds between the two readings that answer the first question."""
SCRAPE_TIMEOUT = 5.0
MAX_SCRAPE = 32 << 20


class _Node:
    """The last two readings of a node."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.older: Sample | None = None
        self.newer: Sample | None = None

    def add(self, sample: Sample) -> None:
        if self.newer is not None and self.newer.node.at < sample.node.at:
            self.older = self.newer
        self.newer = sample

    def forget(self) -> None:
        self.older = self.newer = None


class Metrics:
    """GET on nodes and pods of metrics.k8s.io."""

    def __init__(
        self,
        lookup: Lookup,
        kubelets: Kubelets,
        *,
        first_window: float = FIRST_WINDOW,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._lookup = lookup
        self._kubelets = kubelets
        self._first_window = first_window
        self._clock = clock
        self._nodes: dict[str, _Node] = {}

    async def handle(self, request: web.BaseRequest, info: RequestInfo) -> web.StreamResponse:
        out = negotiate.output(request.headers.get("Accept", ""))
        if out.shape != "object":
            out = negotiate.Output(out.media, content_type=out.media)
        if info.verb not in ("get", "list") or info.subresource:
            raise errors.MethodNotSupported(
                "the server does not allow this method on the requested resource"
            )
        keep = _filter(request, info)
        make = self._node_metrics if info.resource == "nodes" else self._pod_metrics
        items = await make(info, keep)
        if not info.name:
            kind = "NodeMetricsList" if info.resource == "nodes" else "PodMetricsList"
            body: Obj = {"kind": kind, "apiVersion": API, "metadata": {}, "items": items}
            return answer(out, orjson.dumps(body))
        if not items:
            plural = "nodemetrics" if info.resource == "nodes" else "podmetrics"
            where = f"{info.namespace}/{info.name}" if info.namespace else info.name
            raise say.not_found("metrics.k8s.io", plural, where)
        return answer(out, orjson.dumps(items[0]))

    # -- objects -----------------------------------------------------------------------------

    async def _node_metrics(self, info: RequestInfo, keep: Callable[[Obj], bool]) -> list[Obj]:
        nodes = [e.decode() for e in self._lookup.objects.scan(NODES)]
        nodes = [n for n in nodes if keep(n) and _ready(n)]
        await self._read(nodes)
        items: list[Obj] = []
        for node in nodes:
            seen = self._nodes.get(node["metadata"]["name"])
            if seen is None or seen.newer is None:
                continue
            before = seen.older.node if seen.older else None
            rate = _rate(before, seen.newer.node)
            if rate is not None and seen.newer.node.memory is not None:
                usage = _usage(rate[0], seen.newer.node.memory)
                items.append(self._object("NodeMetrics", node, seen.newer, rate[1], usage=usage))
        return items

    async def _pod_metrics(self, info: RequestInfo, keep: Callable[[Obj], bool]) -> list[Obj]:
        if info.name:
            pods = [self._lookup.pod(info.namespace, info.name)]
        else:
            prefix = f"{info.namespace}/" if info.namespace else ""
            pods = [e.decode() for e in self._lookup.objects.scan(PODS, prefix)]
        pods = [p for p in pods if keep(p) and _running(p)]
        wanted = {p["spec"]["nodeName"] for p in pods}
        entries = (self._lookup.objects.get(NODES, name) for name in sorted(wanted))
        nodes = [n for n in (e.decode() for e in entries if e is not None) if _ready(n)]
        await self._read(nodes)
        names = {n["metadata"]["name"] for n in nodes}
        items = (self._pod(p) for p in pods if p["spec"]["nodeName"] in names)
        return [item for item in items if item is not None]

    def _pod(self, pod: Obj) -> Obj | None:
        seen = self._nodes.get(pod["spec"]["nodeName"])
        if seen is None or seen.newer is None:
            return None
        meta = pod["metadata"]
        window = 0.0
        containers: list[Obj] = []
        for (namespace, name, container), now in seen.newer.containers.items():
            if namespace != meta["namespace"] or name != meta["name"] or now.memory is None:
                continue
            before = seen.older.containers.get((namespace, name, container)) if seen.older else None
            rate = _rate(before, now)
            if rate is not None:
                window = max(window, rate[1])
                containers.append({"name": container, "usage": _usage(rate[0], now.memory)})
        if not containers:
            return None
        return self._object("PodMetrics", pod, seen.newer, window, containers=containers)

    def _object(self, kind: str, source: Obj, sample: Sample, window: float, **rest: Any) -> Obj:
        meta = source["metadata"]
        kept = {key: meta[key] for key in ("name", "namespace", "labels") if meta.get(key)}
        return {
            "kind": kind,
            "apiVersion": API,
            "metadata": {**kept, "creationTimestamp": _stamp(self._clock())},
            "timestamp": _stamp(sample.node.at or sample.taken),
            "window": go_duration(window),
            **rest,
        }

    # -- readings ----------------------------------------------------------------------------

    async def _read(self, nodes: list[Obj]) -> None:
        """Bring the readings up to date; a node that does not answer has none."""
        await asyncio.gather(*(self._read_node(node) for node in nodes))

    async def _read_node(self, node: Obj) -> None:
        seen = self._nodes.setdefault(node["metadata"]["name"], _Node())
        async with seen.lock:
            now = self._clock()
            if seen.newer is not None and now - seen.newer.taken < RESOLUTION:
                return
            fresh = seen.newer is not None and now - seen.newer.taken <= STALE
            if not fresh:
                seen.forget()
            try:
                seen.add(await self._scrape(node))
                if not fresh:
                    await asyncio.sleep(self._first_window)
                    seen.add(await self._scrape(node))
            except (aiohttp.ClientError, OSError, errors.ApiError, TimeoutError) as err:
                log.debug("metrics of node %s: %s", node["metadata"]["name"], err)
                seen.forget()

    async def _scrape(self, node: Obj) -> Sample:
        async with (
            asyncio.timeout(SCRAPE_TIMEOUT),
            self._kubelets.get(kubelet_of(node), "/metrics/resource") as response,
        ):
            if response.status != 200:
                raise OSError(f"the kubelet answered {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_SCRAPE:
                    raise OSError("the kubelet's answer is too long")
        return exposition.parse(body.decode(errors="replace"), self._clock())


def _filter(request: web.BaseRequest, info: RequestInfo) -> Callable[[Obj], bool]:
    try:
        labels = parse_labels(request.query.get("labelSelector", ""))
        fields = parse_fields(request.query.get("fieldSelector", ""))
    except SelectorError as err:
        raise errors.BadRequest(str(err)) from err

    def keep(obj: Obj) -> bool:
        meta = obj["metadata"]
        if info.name:
            return bool(meta["name"] == info.name)
        named = {"metadata.name": meta["name"], "metadata.namespace": meta.get("namespace", "")}
        return labels.matches(meta.get("labels") or {}) and matches_fields(fields, named)

    return keep


def _ready(node: Obj) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def _running(pod: Obj) -> bool:
    running = (pod.get("status") or {}).get("phase") == "Running"
    return running and bool(pod["spec"].get("nodeName"))


def _rate(before: Usage | None, now: Usage) -> tuple[float, float] | None:
    """Cores and the window over which they were used; None when nothing can be said yet."""
    if now.cpu is None:
        return None
    if before is not None and before.cpu is not None:
        window = now.at - before.at
        if window > 0 and now.cpu >= before.cpu:
            return (now.cpu - before.cpu) / window, window
    if now.started is not None and now.at > now.started:
        window = now.at - now.started
        return now.cpu / window, window
    return None


def _usage(cores: float, memory: float) -> dict[str, str]:
    return {"cpu": cpu_quantity(cores), "memory": memory_quantity(int(memory))}


def cpu_quantity(cores: float) -> str:
    """Nanocores in the shortest exact form."""
    nanos = round(cores * 1e9)
    for suffix in ("n", "u", "m"):
        if nanos % 1000 or not nanos:
            return f"{nanos}{suffix}" if nanos else "0"
        nanos //= 1000
    return str(nanos)


def memory_quantity(count: int) -> str:
    """Bytes in the shortest exact form."""
    for suffix in ("", "Ki", "Mi", "Gi", "Ti"):
        if count % 1024 or not count or suffix == "Ti":
            return f"{count}{suffix}" if count else "0"
        count //= 1024
    return str(count)


def go_duration(seconds: float) -> str:
    """As Go prints one: 1m5.25s."""
    millis = round(seconds * 1000)
    minutes, rest = divmod(millis, 60_000)
    text = f"{rest / 1000:g}s"
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m{text}"
    return f"{minutes}m{text}" if minutes else text


def _stamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
