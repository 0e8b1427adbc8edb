"""Probes: when they run, what their results add up to, and how each kind is carried out.

``Verdict`` is pure: results in, a change of mind out. ``Prober`` runs one probe on an injected
clock. The runners return None for success, else the words for the event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit

import aiohttp

from corral.cluster.node.container.processes import Container, ContainerError
from corral.cluster.node.probes.grpc_health import run_grpc
from corral.cluster.node.probes.reach import DIRECT, Reach
from corral.kube.types import Obj

KINDS: Final = ("startup", "readiness", "liveness")
_MAX_OUTPUT: Final = 10 * 1024
_MAX_REDIRECTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Seconds and counts of one probe."""

    delay: float = 0.0
    period: float = 10.0
    timeout: float = 1.0
    successes: int = 1
    failures: int = 3

    @classmethod
    def of(cls, probe: Obj) -> Timing:
        return cls(
            delay=float(probe.get("initialDelaySeconds") or 0),
            period=float(probe.get("periodSeconds") or 10),
            timeout=float(probe.get("timeoutSeconds") or 1),
            successes=int(probe.get("successThreshold") or 1),
            failures=int(probe.get("failureThreshold") or 3),
        )


class Verdict:
    """What the results of a probe mean. A container is alive, but not ready, until shown so."""

    def __init__(self, kind: str, timing: Timing) -> None:
        self._timing = timing
        self.value: bool | None = {"liveness": True, "readiness": False}.get(kind)
        self._last: bool | None = None
        self._count = 0
        self.final = False
        """A startup probe is done once it has decided; a liveness probe once it has failed."""
        self._kind = kind

    def record(self, ok: bool) -> bool | None:
        """Count a result; the new verdict if it changed, else None."""
        self._count = self._count + 1 if ok == self._last else 1
        self._last = ok
        needed = self._timing.successes if ok else self._timing.failures
        if self._count < needed:
            return None
        changed = self.value is not ok
        self.value = ok
        if self._kind == "startup" or (self._kind == "liveness" and not ok):
            self.final = True
        return ok if changed else None


Check = Callable[[], Awaitable[str | None]]
Report = Callable[[bool], None]
Problem = Callable[[str], None]


async def probe(
    kind: str,
    timing: Timing,
    check: Check,
    *,
    report: Report,
    problem: Problem = lambda text: None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> None:
    """Probe until there is nothing more to decide. Cancel it when the container ends.

    ``report`` hears every change of verdict, ``problem`` the words of every failure.
    """
    verdict = Verdict(kind, timing)
    if timing.delay:
        await sleep(timing.delay)
    while True:
        try:
            async with asyncio.timeout(timing.timeout):
                failure = await check()
        except TimeoutError:
            failure = f"timed out after {timing.timeout:g}s"
        if failure is not None:
            problem(failure)
        changed = verdict.record(failure is None)
        if changed is not None:
            report(changed)
        if verdict.final:
            return
        await sleep(timing.period)


# -- one check of each kind ------------------------------------------------------------------------


def check_of(
    handler: Obj, container_spec: Obj, container: Container, address: str, reach: Reach = DIRECT
) -> Check:
    """The check that a probe's handler describes. Raises ValueError when it describes none."""
    if action := handler.get("exec"):
        command = action.get("command") or ()
        return lambda: run_exec(container, command)
    if action := handler.get("httpGet"):
        url, headers = http_target(action, container_spec, address)
        return lambda: run_http(url, headers, reach)
    if action := handler.get("tcpSocket"):
        port = port_number(action["port"], container_spec)
        host = action.get("host") or address
        return lambda: run_tcp(host, port, reach)
    if action := handler.get("grpc"):
        port, service = int(action["port"]), action.get("service") or ""
        return lambda: run_grpc(address, port, service, reach)
    raise ValueError("missing probe handler")


async def run_exec(container: Container, command: Sequence[str]) -> str | None:
    try:
        streams = await container.exec(command)
        code, output = await streams.collect(_MAX_OUTPUT)
    except ContainerError as err:
        return str(err)
    return None if code == 0 else output.decode(errors="replace")


async def run_http(url: str, headers: Mapping[str, str], reach: Reach = DIRECT) -> str | None:
    """GET; redirects are followed as long as they stay on the host, others count as success."""
    try:
        async with aiohttp.ClientSession(connector=reach.connector()) as session:
            for _ in range(_MAX_REDIRECTS):
                async with session.get(
                    url, headers=headers, allow_redirects=False, ssl=False
                ) as response:
                    status, target = response.status, response.headers.get("Location", "")
                if status not in (301, 302, 303, 307, 308) or not target:
                    break
                after = urljoin(url, target)
                if urlsplit(after).hostname != urlsplit(url).hostname:
                    return None
                url = after
            else:
                return f'Get "{url}": stopped after {_MAX_REDIRECTS} redirects'
    except (aiohttp.ClientError, OSError, ValueError) as err:
        return f'Get "{url}": {err}'
    return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"


async def run_tcp(host: str, port: int, reach: Reach = DIRECT) -> str | None:
    try:
        _, writer = await reach.dial(host, port)
    except OSError as err:
        return f"dial tcp {host}:{port}: {err.strerror or err}"
    writer.close()
    return None


def http_target(action: Obj, container_spec: Obj, address: str) -> tuple[str, dict[str, str]]:
    """URL and headers of an httpGet action. Raises ValueError for an unknown port name."""
    scheme = (action.get("scheme") or "HTTP").lower()
    host = action.get("host") or address
    host = f"[{host}]" if ":" in host else host
    path = action.get("path") or "/"
    path = path if path.startswith("/") else f"/{path}"
    headers = {"User-Agent": "kube-probe/1.37", "Accept": "*/*"}
    for header in action.get("httpHeaders") or ():
        headers[header["name"]] = header.get("value", "")
    return f"{scheme}://{host}:{port_number(action['port'], container_spec)}{path}", headers


def port_number(port: int | str, container_spec: Obj) -> int:
    """A port by number or by name. Raises ValueError."""
    if isinstance(port, int) or port.isdigit():
        return int(port)
    for named in container_spec.get("ports") or ():
        if named.get("name") == port:
            return int(named["containerPort"])
    raise ValueError(f"couldn't find port: {port} in {container_spec.get('name', '')}")
