"""``corral top`` and ``corral cost``: what jobs use, and what they cost where somebody knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.completion import complete_jobs
from corral.cli.errors import NOT_FOUND, Trouble
from corral.cli.references import Found, find, job_kinds
from corral.cli.session import Session
from corral.cli.views.output import Format, Output, say, show
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.kube import KubeClient

__all__ = ["cost", "top"]

COLUMNS = ("job", "replica", "pod", "node", "cpu", "memory", "gpus")
COST_COLUMNS = ("job", "phase", "currency", "per_hour", "total", "gpu_hours")
MaybeJob = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[JOB]",
        help="Job, as NAME, KIND/NAME or KIND NAME (default: all jobs).",
        autocompletion=complete_jobs,
    ),
]


async def top(session: Session, job: MaybeJob = None, output: Output = Format.table) -> None:
    """Show the current CPU, memory and GPU usage of running replicas."""
    from corral.client import Jobs

    client = session.direct("corral top")
    usage = await _usage(client, session.namespace)
    jobs = [await find(session, job)] if job else await _present(session)
    rows = []
    pods_of = Jobs(client).pods
    for found in jobs:
        pods = await pods_of(found.kind, found.obj)
        rows += [_row(found, pod, usage) for pod in pods if _runs(pod)]
    if output is Format.name:
        for row in rows:
            say(f"pod/{row['pod']}")
    elif not rows and output is Format.table:
        say(f"no running jobs in namespace {session.namespace}", err=True)
    else:
        show(rows, COLUMNS, output)


async def _usage(client: KubeClient, namespace: str) -> dict[str, tuple[int, int]]:
    """Milli-CPUs and bytes by pod."""
    from corral.kube.errors import NotFound, ServiceUnavailable
    from corral.kube.quantity import Quantity

    path = f"/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods"
    try:
        answer = json.loads(await client.request("GET", path))
    except (NotFound, ServiceUnavailable) as err:
        raise Trouble(
            "this cluster has no metrics of pods (no metrics.k8s.io)",
            code=NOT_FOUND,
            hint="install metrics-server",
        ) from err
    out = {}
    for pod in answer.get("items") or ():
        used = [container.get("usage") or {} for container in pod.get("containers") or ()]
        cpu = sum(Quantity.parse(str(one.get("cpu") or "0")).milli() for one in used)
        memory = sum(Quantity.parse(str(one.get("memory") or "0")).to_int() for one in used)
        out[pod["metadata"]["name"]] = (cpu, memory)
    return out


async def _present(session: Session) -> list[Found]:
    from corral.client import ListQuery, errors

    found = []
    for kind in job_kinds():
        try:
            page = await session.jobs.list(kind, session.namespace, ListQuery())
        except errors.NotInstalled:
            continue
        found += [Found(kind, obj["metadata"]["name"], obj) for obj in page.items]
    return found


def _runs(pod: Obj) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Running")


def _row(found: Found, pod: Obj, usage: dict[str, tuple[int, int]]) -> dict[str, Any]:
    from corral.cli.views.loglines import label

    name = pod["metadata"]["name"]
    cpu, memory = usage.get(name, (None, None))
    return {
        "job": found.title,
        "replica": label(found.kind.role(pod)),
        "pod": name,
        "node": pod["spec"].get("nodeName") or "",
        "cpu": None if cpu is None else f"{cpu}m",
        "memory": None if memory is None else f"{memory >> 20}Mi",
        "gpus": _gpus(pod),
    }


def _gpus(pod: Obj) -> int:
    limits = [(c.get("resources") or {}).get("limits") or {} for c in pod["spec"]["containers"]]
    return sum(int(one.get("nvidia.com/gpu") or 0) for one in limits)


async def cost(session: Session, job: MaybeJob = None, output: Output = Format.table) -> None:
    """Show the cost of jobs, where the cluster knows prices."""
    jobs = [await find(session, job)] if job else await _present(session)
    rows = [row for found in jobs if (row := _cost(found)) is not None]
    if not rows:
        which = jobs[0].title if job else f"any job in namespace {session.namespace}"
        raise Trouble(
            f"no cost is known for {which}",
            code=NOT_FOUND,
            hint="only jobs on spot machines or in queues with prices have a cost",
        )
    show(rows, COST_COLUMNS, output)


def _cost(found: Found) -> dict[str, Any] | None:
    known = (found.obj.get("status") or {}).get("cost")
    if not known:
        return None
    return {
        "job": found.title,
        "phase": found.kind.phase(found.obj),
        "currency": known.get("currency"),
        "per_hour": known.get("perHour"),
        "total": known.get("total"),
        "gpu_hours": known.get("gpuHours"),
    }
