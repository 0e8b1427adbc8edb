"""``corral demo``: a throw-away cluster, real work on it, a table of what happened.

The cluster is what `corral up` starts. Every step is a plain API call of a plain client; a step
that does not do what it should makes the demo fail. It grows with the platform.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from corral.kube import KubeClient, errors
from corral.kube.printable import printable
from corral.kube.resources import (
    CONFIGMAPS,
    CUSTOMRESOURCEDEFINITIONS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    PODS,
    SERVICEACCOUNTS,
    SERVICES,
    resource,
)
from corral.kube.types import Obj

Run = Callable[[KubeClient, Callable[[str], None]], Awaitable[str]]
LAPS = resource("demo.corral.dev/v1", "laps", kind="Lap")
SPACE = "demo"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing the demo shows."""

    name: str
    run: Run
    """Does it, tells how far it is, and says what came of it."""


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


async def _job(client: KubeClient, say: Callable[[str], None]) -> str:
    """Pi by throwing darts, in four processes that each do their share."""
    shares = 4
    container = {
        "name": "main",
        "image": "python:3.12",
        "command": ["python", "-c", _DARTS],
        "env": [{"name": "DARTS", "value": "1000000"}],
    }
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "completions": shares,
        "parallelism": shares,
        "completionMode": "Indexed",
        "template": template,
    }
    job = await client.create(JOBS, {"metadata": {"name": "pi", "namespace": SPACE}, "spec": spec})
    name, version = "metadata.name=pi", job["metadata"]["resourceVersion"]
    watch = client.watch(JOBS, SPACE, field_selector=name, resource_version=version)
    async with asyncio.timeout(120), aclosing(watch) as events:
        async for event in events:
            status = event.object.get("status") or {}
            running, done = status.get("ready", 0), status.get("succeeded", 0)
            say(f"job pi: {running} running, {done} of {shares} done")
            kinds = {c["type"] for c in status.get("conditions") or () if c["status"] == "True"}
            assert "Failed" not in kinds, status
            if "Complete" in kinds:
                break
    pods = await client.list_all(PODS, SPACE, label_selector="job-name=pi")
    hits = 0
    for pod in pods["items"]:
        path = f"/api/v1/namespaces/{SPACE}/pods/{pod['metadata']['name']}/log"
        hits += int(await client.request("GET", path))
    value = 4 * hits / (shares * 1_000_000)
    assert abs(value - 3.14159) < 0.01, value
    return f"{shares} processes, an index each: pi is about {value:.3f}"


async def _service(client: KubeClient, say: Callable[[str], None]) -> str:
    """Two pods that find each other by name."""
    say("two pods meet by name")
    meta = {"namespace": SPACE, "labels": {"app": "greeter"}}
    where = {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    spec = {"clusterIP": "None", "selector": {"app": "greeter"}, "ports": [{"port": 8000}]}
    service = {"metadata": {"name": "crew", "namespace": SPACE}, "spec": spec}
    await client.create(SERVICES, service)
    server = {"name": "main", "image": "python:3.12", "command": ["python", "-c", _SERVER]}
    asker = {"name": "main", "image": "python:3.12", "command": ["python", "-c", _CLIENT]}
    await client.create(
        PODS,
        {
            "metadata": {"name": "greeter", **meta},
            "spec": {
                "hostname": "greeter",
                "subdomain": "crew",
                "containers": [{**server, "env": [where]}],
            },
        },
    )
    await client.create(
        PODS,
        {
            "metadata": {"name": "asker", "namespace": SPACE},
            "spec": {"restartPolicy": "Never", "containers": [asker]},
        },
    )
    watch = client.watch(PODS, SPACE, field_selector="metadata.name=asker")
    async with asyncio.timeout(60), aclosing(watch) as events:
        async for event in events:
            phase = (event.object.get("status") or {}).get("phase")
            assert phase != "Failed", event.object["status"]
            if phase == "Succeeded":
                break
    detail = await client.request("GET", f"/api/v1/namespaces/{SPACE}/pods/asker/log")
    return detail.decode().strip()


async def _training(client: KubeClient, say: Callable[[str], None]) -> str:
    """Replicas that train together, and go on after one of them was killed."""
    from corral.cli.demo.training import train

    return await train(client, SPACE, say)


async def _mpi(client: KubeClient, say: Callable[[str], None]) -> str:
    """Ranks that a launcher starts on its workers."""
    from corral.cli.demo.mpi import launch

    return await launch(client, SPACE, say)


async def _federated(client: KubeClient, say: Callable[[str], None]) -> str:
    """Two sites that learn one model and keep their data."""
    from corral.cli.demo.federated import learn

    return await learn(client, SPACE, say)


def _spot(machines: Path) -> Run:
    """A job whose machine is killed, and which goes on elsewhere."""

    async def run(client: KubeClient, say: Callable[[str], None]) -> str:
        from corral.cli.demo.spot import survive

        return await survive(client, SPACE, machines, say)

    return run


def _quiet(run: Callable[[KubeClient], Awaitable[str]]) -> Run:
    """A step that has nothing to say on its way."""
    return lambda client, say: run(client)


def _steps(folder: Path) -> tuple[Step, ...]:
    """Everything that is shown, on a cluster that has its data in a folder."""
    return (
        Step("a job", _job),
        Step("services and names", _service),
        Step("a training job", _training),
        Step("an MPI job", _mpi),
        Step("a spot job", _spot(folder / "machines")),
        Step("a federated job", _federated),
        Step("custom resources", _quiet(_definition)),
        Step("defaults and rules", _quiet(_validation)),
        Step("server-side apply", _quiet(_ownership)),
        Step("watches", _quiet(_watching)),
        Step("garbage collection", _quiet(_clean_up)),
    )


async def demo(console: Console) -> int:
    """Run every step; 0 when all of them did what they should."""
    table = Table(title="corral demo")
    for column in ("what", "result", "time"):
        table.add_column(column)
    failed = 0
    with tempfile.TemporaryDirectory(prefix="corral-demo-") as folder:
        began = time.perf_counter()
        with console.status("corral up"):
            cluster, line = await _up(Path(folder))
        took = time.perf_counter() - began
        try:
            if cluster.returncode is not None or "ready" not in line:
                console.print("[red]the cluster did not start:[/red]", Text(printable(line)))
                return 1
            table.add_row("[green]✓[/green] corral up", "one command, one node", f"{took:.2f} s")
            path = Path(folder) / "kubeconfig"
            # remarks on security policies are for jobs that stay
            quiet = logging.getLogger(__name__).debug
            async with KubeClient.from_kubeconfig(str(path), on_warning=quiet) as client:
                await client.create(NAMESPACES, {"metadata": {"name": SPACE}})
                await _account(client)
                for step in _steps(Path(folder)):
                    failed += not await _show(step, client, table, console)
        finally:
            if cluster.returncode is None:
                cluster.terminate()
                await cluster.wait()
    console.print(table)
    return 1 if failed else 0


async def _up(folder: Path) -> tuple[asyncio.subprocess.Process, str]:
    """A cluster of its own, and the line it says when it serves."""
    command = ["-m", "corral.cli.main", "up", "--data-dir", str(folder), "--port", "0"]
    cluster = await asyncio.create_subprocess_exec(
        sys.executable,
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C is for the demo, which then stops it in order
    )
    assert cluster.stdout is not None
    line = await cluster.stdout.readline()
    return cluster, line.decode().strip()


async def _account(client: KubeClient) -> None:
    """Wait for the account that pods of a new namespace run under."""
    async with asyncio.timeout(10):
        watch = client.watch(SERVICEACCOUNTS, SPACE, field_selector="metadata.name=default")
        async with aclosing(watch) as events:
            async for _ in events:
                return


async def _show(step: Step, client: KubeClient, table: Table, console: Console) -> bool:
    began = time.perf_counter()
    with console.status(step.name) as status:
        try:
            result, good = await step.run(client, lambda text: status.update(text)), True
        except (AssertionError, errors.ApiError, TimeoutError) as err:
            result, good = f"{type(err).__name__}: {err}", False
    mark = "[green]✓[/green]" if good else "[red]✗[/red]"
    text = Text(printable(result), style="" if good else "red")
    table.add_row(f"{mark} {step.name}", text, f"{time.perf_counter() - began:.2f} s")
    return good


_DARTS = """
import os, random
random.seed(int(os.environ["JOB_COMPLETION_INDEX"]))
throws = range(int(os.environ["DARTS"]))
print(sum(random.random() ** 2 + random.random() ** 2 < 1 for _ in throws))
"""
_SERVER = """
import os, socket
with socket.create_server((os.environ["ADDRESS"], 8000)) as server:
    while True:
        peer, _ = server.accept()
        peer.sendall(b"hello from " + socket.gethostname().encode())
        peer.close()
"""
_CLIENT = """
import socket, time
while True:
    try:
        with socket.create_connection(("greeter.crew", 8000), timeout=5) as peer:
            print("greeter.crew says", peer.makefile().read())
            break
    except OSError:
        time.sleep(0.02)
"""
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
