"""``corral demo``: a throw-away cluster, real work on it, a table of what happened.

Every step is a plain API call of a plain client; a step that does not do what it should makes the
demo fail. It grows with the platform.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from corral.cluster.apiserver.server import ApiServer, Config
from corral.kube import KubeClient, errors
from corral.kube.resources import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    NAMESPACES,
    resource,
)
from corral.kube.types import Obj

LAPS = resource("demo.corral.dev/v1", "laps", kind="Lap")
SPACE = "demo"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the demo shows."""

    name: str
    run: Callable[[KubeClient], Awaitable[str]]


async def _definition(client: KubeClient) -> str:
    await client.create(CUSTOMRESOURCEDEFINITIONS, _CRD)
    async with asyncio.timeout(10):
        name = "metadata.name=laps.demo.corral.dev"
        watch = client.watch(CUSTOMRESOURCEDEFINITIONS, field_selector=name)
        async with aclosing(watch) as events:
            async for event in events:
                conditions = (event.object.get("status") or {}).get("conditions") or ()
                if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                    return "a kind of our own, served at once"
    raise AssertionError("the watch ended before the definition was established")


async def _validation(client: KubeClient) -> str:
    lap: Obj = {"metadata": {"name": "one", "namespace": SPACE}, "spec": {"distance": 400}}
    made = await client.create(LAPS, lap)
    assert made["spec"]["unit"] == "m", "the default was not set"
    try:
        await client.patch(LAPS, "one", namespace=SPACE, patch={"spec": {"distance": 100}})
    except errors.Invalid as err:
        return f"refused as its rule says: {err.details['causes'][0]['message']}"
    raise AssertionError("a distance may never shrink, but it did")


async def _ownership(client: KubeClient) -> str:
    def config(value: str) -> Obj:
        meta = {"name": "settings", "namespace": SPACE}
        return {"metadata": meta, "data": {"rate": value}}

    await client.apply(CONFIGMAPS, config("0.1"), field_manager="alice")
    try:
        await client.apply(CONFIGMAPS, config("0.2"), field_manager="bob", force=False)
    except errors.Conflict:
        forced = await client.apply(CONFIGMAPS, config("0.2"), field_manager="bob", force=True)
        owners = {m["manager"] for m in forced["metadata"]["managedFields"]}
        return f"a conflict between two managers, then owned by {', '.join(sorted(owners))}"
    raise AssertionError("two managers set one field and neither was told")


async def _watching(client: KubeClient) -> str:
    count = 200
    listed = await client.list_all(CONFIGMAPS, SPACE)
    version = listed["metadata"]["resourceVersion"]

    async def read() -> int:
        seen = 0
        async with aclosing(
            client.watch(CONFIGMAPS, SPACE, resource_version=version, label_selector="n")
        ) as events:
            async for event in events:
                seen += event.type == "ADDED"
                if seen == count:
                    return seen
        return seen

    reader = asyncio.create_task(read())
    began = time.perf_counter()
    await asyncio.gather(
        *(
            client.create(
                CONFIGMAPS,
                {"metadata": {"name": f"n{n}", "namespace": SPACE, "labels": {"n": str(n)}}},
            )
            for n in range(count)
        )
    )
    async with asyncio.timeout(20):
        seen = await reader
    assert seen == count, f"{seen} of {count} events arrived"
    return f"{count} objects written and seen in {time.perf_counter() - began:.2f} s"


async def _clean_up(client: KubeClient) -> str:
    deployment = await client.create(DEPLOYMENTS, _DEPLOYMENT)
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": deployment["metadata"]["name"],
        "uid": deployment["metadata"]["uid"],
    }
    meta = {"name": "owned", "namespace": SPACE, "ownerReferences": [owner]}
    await client.create(CONFIGMAPS, {"metadata": meta})
    await client.delete(DEPLOYMENTS, "trainer", namespace=SPACE, propagation="Background")
    await _gone(client, "owned")
    await client.delete(NAMESPACES, SPACE)
    return "the dependent went with its owner, and the namespace with all it held"


async def _gone(client: KubeClient, name: str) -> None:
    async with asyncio.timeout(10):
        while True:
            try:
                await client.get(CONFIGMAPS, name, namespace=SPACE)
            except errors.NotFound:
                return
            await asyncio.sleep(0.01)


STEPS = (
    Step("custom resources", _definition),
    Step("defaults and rules", _validation),
    Step("server-side apply", _ownership),
    Step("watches", _watching),
    Step("garbage collection", _clean_up),
)


async def demo(console: Console) -> int:
    """Run every step; 0 when all of them did what they should."""
    table = Table(title="corral demo")
    for column in ("what", "result", "time"):
        table.add_column(column)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="corral-demo-") as folder:
        began = time.perf_counter()
        server = ApiServer(Config(data_dir=Path(folder)))
        await server.start()
        took = time.perf_counter() - began
        table.add_row("API server", f"https://127.0.0.1:{server.port}", f"{took:.2f} s")
        try:
            async with KubeClient.from_kubeconfig(str(server.kubeconfig)) as client:
                await client.create(NAMESPACES, {"metadata": {"name": SPACE}})
                for step in STEPS:
                    failed += not await _show(step, client, table, console)
        finally:
            await server.stop()
    console.print(table)
    return 1 if failed else 0


async def _show(step: Step, client: KubeClient, table: Table, console: Console) -> bool:
    began = time.perf_counter()
    with console.status(step.name):
        try:
            result, good = await step.run(client), True
        except (AssertionError, errors.ApiError, TimeoutError) as err:
            result, good = f"[red]{type(err).__name__}: {err}[/red]", False
    mark = "[green]✓[/green]" if good else "[red]✗[/red]"
    table.add_row(f"{mark} {step.name}", result, f"{time.perf_counter() - began:.2f} s")
    return good


_CRD: Obj = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "laps.demo.corral.dev"},
    "spec": {
        "group": "demo.corral.dev",
        "scope": "Namespaced",
        "names": {"plural": "laps", "singular": "lap", "kind": "Lap"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "distance": {
                                        "type": "integer",
                                        "x-kubernetes-validations": [
                                            {
                                                "rule": "self >= oldSelf",
                                                "message": "a distance never shrinks",
                                            }
                                        ],
                                    },
                                    "unit": {"type": "string", "default": "m"},
                                },
                            }
                        },
                    }
                },
            }
        ],
    },
}
_DEPLOYMENT: Obj = {
    "metadata": {"name": "trainer", "namespace": SPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "trainer"}},
        "template": {
            "metadata": {"labels": {"app": "trainer"}},
            "spec": {"containers": [{"name": "main", "image": "python:3.12"}]},
        },
    },
}
