"""The attacks of ``bench/fairness.py``, and the process of the tenant who attacks.

Every attack goes on until it is cancelled. All of its traffic stays on loopback.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import orjson
from aiohttp import web
from yarl import URL

from corral.cluster.apiserver.auth.pki import ensure_pki

QUIET, LOUD = "quiet", "loud"


class Target(NamedTuple):
    """A server as its clients see it; goes to the attacking process."""

    url: str
    ca_file: str
    token: str
    admin: str
    quick: bool

    def session(self, token: str = "") -> aiohttp.ClientSession:
        tls = ssl.create_default_context(cafile=self.ca_file)
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=tls, limit=0),
            headers={
                "Authorization": f"Bearer {token or self.token}",
                "Accept-Encoding": "identity",
            },
            timeout=aiohttp.ClientTimeout(total=None),
        )

    def path(self, plural: str, name: str = "") -> str:
        base = f"{self.url}/api/v1/namespaces/{LOUD}/{plural}"
        return f"{base}/{name}" if name else base

    def size(self, quick: int, full: int) -> int:
        return quick if self.quick else full


_BEGUN: list[Any] = []
"""In the attacking process: set when what an attack needs is there and it begins."""

# -- attacks: each goes on until it is cancelled --------------------------------------------------


async def forever(count: int, work: Callable[[int], Awaitable[Any]]) -> None:
    """``count`` workers; a refusal is an answer like any other."""
    if _BEGUN:
        _BEGUN[0].set()

    async def worker(number: int) -> None:
        while True:
            try:
                await work(number)
            except (aiohttp.ClientError, OSError, TimeoutError):
                await asyncio.sleep(0.05)

    await asyncio.gather(*(worker(number) for number in range(count)))


def keys(count: int) -> dict[str, str]:
    stamp = str(time.time_ns())[-6:]
    return {f"k{number:05d}": stamp for number in range(count)}


async def large_patches(target: Target, media: str) -> None:
    async with target.session() as session:

        async def work(number: int) -> None:
            name = f"large-{number}"
            body: dict[str, Any] = {"data": keys(target.size(10_000, 50_000))}
            query = ""
            if "apply" in media:
                head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
                body, query = {**head, **body}, "?fieldManager=loud&force=true"
            url = target.path("configmaps", name) + query
            async with session.patch(
                url, data=orjson.dumps(body), headers={"Content-Type": f"application/{media}"}
            ) as answer:
                await answer.read()
                if answer.status == 429:
                    await asyncio.sleep(0.2)

        await forever(target.size(8, 40), work)


async def apply(target: Target) -> None:
    await large_patches(target, "apply-patch+yaml")


async def strategic(target: Target) -> None:
    async with target.session() as session:
        for number in range(target.size(8, 40)):
            body = {"metadata": {"name": f"large-{number}"}}
            async with session.post(target.path("configmaps"), json=body):
                pass
    await large_patches(target, "strategic-merge-patch+json")


async def held_sockets(
    target: Target, count: int, text: bytes, drip: bytes, *, handshake: bool = True
) -> None:
    """Connections that never finish their request; closed ones are opened again."""
    host, port = target.url.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=target.ca_file) if handshake else None

    async def work(number: int) -> None:
        await asyncio.sleep(number * 0.002)  # a few hundred a second
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls)
        try:
            writer.write(text)
            while not reader.at_eof():
                writer.write(drip)
                await asyncio.sleep(1)
            raise ConnectionResetError
        finally:
            writer.transport.abort()

    await forever(count, work)


async def half_headers(target: Target) -> None:
    await held_sockets(target, target.size(400, 3000), b"GET /api HTTP/1.1\r\nHost: x\r\nA", b"a")


async def silent_sockets(target: Target) -> None:
    await held_sockets(target, target.size(400, 5000), b"", b"", handshake=False)


async def slow_bodies(target: Target) -> None:
    head = (
        f"POST /api/v1/namespaces/{LOUD}/configmaps HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {target.token}\r\nContent-Type: application/json\r\n"
        "Content-Length: 1000000\r\n\r\n{"
    )
    await held_sockets(target, target.size(100, 600), head.encode(), b" ")


async def watches(target: Target) -> None:
    """Ten thousand: over plain streams, which cost this process less than aiohttp's."""
    host, port = target.url.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=target.ca_file)
    path = target.path("configmaps").removeprefix(target.url)
    asks = f"GET {path}?watch=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {target.token}"
    head = f"{asks}\r\n\r\n".encode()
    started: set[int] = set()

    async def work(number: int) -> None:
        if number not in started:
            started.add(number)
            await asyncio.sleep(number * 0.004)
        reader, writer = await asyncio.open_connection(host, int(port), ssl=tls, limit=2**14)
        try:
            writer.write(head)
            while await reader.read(2**14):
                pass
        finally:
            writer.transport.abort()
        await asyncio.sleep(1)  # it was refused, or is over

    async with target.session() as session:

        async def change(number: int) -> None:
            async with session.patch(
                target.path("configmaps", "watched"),
                data=orjson.dumps({"data": {"now": str(time.time_ns())}}),
                headers={"Content-Type": "application/merge-patch+json"},
            ) as answer:
                await answer.read()
            await asyncio.sleep(0.05)

        body = {"metadata": {"name": "watched"}}
        async with session.post(target.path("configmaps"), json=body):
            pass
        await asyncio.gather(forever(target.size(200, 10_000), work), forever(1, change))


async def events(target: Target) -> None:
    async with target.session() as session:

        async def work(number: int) -> None:
            body = {
                "metadata": {"generateName": "flood-", "namespace": LOUD},
                "involvedObject": {"kind": "Pod", "namespace": LOUD, "name": "none"},
                "message": "x" * 500,
                "type": "Normal",
            }
            async with session.post(target.path("events"), json=body) as answer:
                await answer.read()
                if answer.status == 429:
                    await asyncio.sleep(0.2)

        await forever(target.size(16, 64), work)


async def lists(target: Target) -> None:
    async with target.session() as session:
        for number in range(target.size(200, 1000)):
            body = {"metadata": {"name": f"listed-{number}"}, "data": {"k": "v" * 1000}}
            async with session.post(target.path("configmaps"), json=body):
                pass

        async def work(number: int) -> None:
            async with session.get(target.path("configmaps")) as answer:
                await answer.read()
                if answer.status == 429:
                    await asyncio.sleep(0.2)

        await forever(target.size(8, 32), work)


async def reads_of_large(target: Target) -> None:
    """Answers and selectors that take long: YAML, Tables, indented JSON, thousands of terms."""
    terms = ",".join(f"a{number}%21%3Db" for number in range(target.size(1000, 5000)))
    path = target.path("configmaps")
    asked = (
        (path, "application/yaml"),
        (path, "application/json;as=Table;v=v1;g=meta.k8s.io"),
        (f"{path}?pretty=1", "application/json"),
        (f"{path}?labelSelector={terms}", "application/json"),
    )
    async with target.session() as session:
        for number in range(target.size(200, 1000)):
            body = {"metadata": {"name": f"read-{number}"}, "data": {"k": "v" * 1000}}
            async with session.post(path, json=body):
                pass

        async def work(number: int) -> None:
            url, accept = asked[number % len(asked)]
            made = URL(url, encoded=True)
            async with session.get(made, headers={"Accept": accept}) as answer:
                await answer.read()
                if answer.status == 429:
                    await asyncio.sleep(0.2)

        await forever(target.size(8, 32), work)


async def rules(target: Target) -> None:
    """Objects whose validation costs as much as CEL rules and patterns may."""
    group, rule = "bench.example.test", "self.all(a, self.all(b, a + b >= 0))"
    numbers = {
        "type": "array",
        "maxItems": 1000,
        "items": {"type": "integer"},
        "x-kubernetes-validations": [{"rule": rule}],
    }
    text = {"type": "string", "pattern": "^(a+)+$"}
    spec = {"type": "object", "properties": {"numbers": numbers, "text": text}}
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"plural": "traps", "singular": "trap", "kind": "Trap", "listKind": "TrapList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"traps.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }
    crds = f"{target.url}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    url = f"{target.url}/apis/{group}/v1/namespaces/{LOUD}/traps"
    body = {
        "apiVersion": f"{group}/v1",
        "kind": "Trap",
        "metadata": {"generateName": "t-"},
        "spec": {"numbers": list(range(1000)), "text": "a" * 30_000 + "!"},
    }
    async with target.session(target.admin) as session:
        async with session.post(crds, json=definition) as answer:
            assert answer.status == 201, await answer.text()
    try:
        async with target.session() as session:

            async def work(number: int) -> None:
                async with session.post(url, json=body) as answer:
                    await answer.read()
                    if answer.status in (404, 429):
                        await asyncio.sleep(0.2)

            await forever(target.size(8, 32), work)
    finally:
        async with target.session(target.admin) as session:
            async with session.delete(f"{crds}/traps.{group}"):
                pass


@asynccontextmanager
async def noisy_pod(target: Target) -> AsyncIterator[None]:
    """A pod on a node whose kubelet writes log lines without end."""
    lines = (b"x" * 120 + b"\n") * 200

    async def write(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        with suppress(ConnectionResetError):  # its reader has left
            while True:
                await response.write(lines)
        return response

    with tempfile.TemporaryDirectory() as folder:
        made = ensure_pki(Path(folder))
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(made.serving.cert_file, made.serving.key_file)
        app = web.Application()
        app.router.add_get("/containerLogs/{rest:.*}", write)
        runner = web.AppRunner(app, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        try:
            async with target.session(target.admin) as session:
                await node_with_pod(target, session, runner.addresses[0][1])
                try:
                    yield
                finally:
                    for url in (target.path("pods", "noisy"), f"{target.url}/api/v1/nodes/noisy"):
                        async with session.delete(f"{url}?gracePeriodSeconds=0"):
                            pass
        finally:
            await runner.cleanup()


async def node_with_pod(target: Target, session: aiohttp.ClientSession, port: int) -> None:
    nodes = f"{target.url}/api/v1/nodes"
    spec = {
        "nodeName": "noisy",
        "serviceAccountName": "tenant",
        "automountServiceAccountToken": False,
        "containers": [{"name": "a", "image": "x"}],
    }
    for url, body in (
        (nodes, {"metadata": {"name": "noisy"}}),
        (target.path("pods"), {"metadata": {"name": "noisy"}, "spec": spec}),
    ):
        async with session.post(url, json=body) as answer:
            assert answer.status == 201, await answer.text()
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
    }
    patch, merge = orjson.dumps({"status": status}), "application/merge-patch+json"
    async with session.patch(
        f"{nodes}/noisy/status", data=patch, headers={"Content-Type": merge}
    ) as answer:
        assert answer.status == 200, await answer.text()


async def logs(target: Target) -> None:
    async with noisy_pod(target), target.session() as session:

        async def work(number: int) -> None:
            async with session.get(f"{target.path('pods', 'noisy')}/log?follow=true") as answer:
                async for _ in answer.content.iter_any():
                    pass
            await asyncio.sleep(0.2)

        await forever(target.size(4, 40), work)


@asynccontextmanager
async def hanging_webhook(target: Target) -> AsyncIterator[None]:
    """A webhook of the loud namespace's Secrets that takes calls and never answers."""

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.read()
        except asyncio.CancelledError:
            return
        finally:
            writer.transport.abort()

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    hook = {
        "name": "hang.example.test",
        "clientConfig": {"url": f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/"},
        "rules": [{**rule, "resources": ["secrets"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": LOUD}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 5,
    }
    body = {"metadata": {"name": "hang"}, "webhooks": [hook]}
    group = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    async with target.session(target.admin) as session:
        async with session.post(target.url + group, json=body) as answer:
            assert answer.status == 201, await answer.text()
        try:
            yield
        finally:
            async with session.delete(f"{target.url}{group}/hang"):
                pass
            server.close()


async def webhook(target: Target) -> None:
    async with hanging_webhook(target), target.session() as session:

        async def work(number: int) -> None:
            body = {"metadata": {"generateName": "held-"}}
            async with session.post(target.path("secrets"), json=body) as answer:
                await answer.read()
                if answer.status == 429:
                    await asyncio.sleep(0.2)

        await forever(target.size(32, 128), work)


ATTACKS = (
    apply,
    strategic,
    half_headers,
    silent_sockets,
    slow_bodies,
    watches,
    events,
    lists,
    reads_of_large,
    rules,
    logs,
    webhook,
)
UNDER_WAY = {"watches": (4.0, 60.0), "half_headers": (3.0, 15.0), "silent_sockets": (3.0, 15.0)}
"""Seconds from the beginning of an attack until all of it is there, in short runs and in full ones:
connections come one by one (our server accepts 250 a second)."""


ATTACKER_NICE = 5


def attacker(name: str, target: Target, begun: Any, stop: Any) -> None:
    """The process of the loud tenant: on one processor, and at a lower priority than the others.

    Attackers are on other machines in reality; here they may not take what the servers need.
    """
    _BEGUN.append(begun)
    os.nice(ATTACKER_NICE)
    processors = sorted(os.sched_getaffinity(0))
    if len(processors) > 1:
        os.sched_setaffinity(0, processors[-1:])
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # of each connection that is refused
    attack = next(a for a in ATTACKS if a.__name__ == name)

    async def run() -> None:
        task = asyncio.create_task(attack(target))
        loop = asyncio.get_running_loop()
        asked = loop.run_in_executor(None, stop.wait)
        await asyncio.wait([task, asked], return_when=asyncio.FIRST_COMPLETED)
        task.cancel()
        done = (await asyncio.gather(task, return_exceptions=True))[0]
        if isinstance(done, Exception):
            print(f"{name} ended: {done!r}", file=sys.stderr)

    asyncio.run(run())
