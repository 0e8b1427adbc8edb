"""``corral spot``: machines that jobs have, what became of those they had, and what-if."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corral.cli.arguments import span
from corral.cli.errors import USAGE, Trouble
from corral.cli.session import Session, connected
from corral.cli.views.output import Format, Output, complain, show

if TYPE_CHECKING:
    from corral.spot import Outcome, Trace, Workload

__all__ = ["app", "history", "instances", "simulate"]

app = typer.Typer(
    name="spot", help="Inspect spot instances and simulate spot placement.", no_args_is_help=True
)

AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="List objects in all namespaces.")
]
Name = Annotated[str | None, typer.Argument(help="SpotInstanceJob name (default: all).")]
HOME = "aws/us-east-1"
SIMULATED = (
    "rule",
    "runs",
    "cost",
    "ratio",
    "makespan_h",
    "missed",
    "losses",
    "lost_work_h",
    "on_demand",
    "transfers",
)


async def instances(
    session: Session, all_namespaces: AllNamespaces = False, output: Output = Format.table
) -> None:
    """List the spot instances of jobs and their nodes."""
    from corral.cli.views.spot_rows import INSTANCE_COLUMNS, instance_rows

    objects = await _objects(session, "spotinstancevms", all_namespaces=all_namespaces)
    rows = [row for obj in objects for row in instance_rows(obj, datetime.now(UTC))]
    if not rows and output is Format.table:
        complain("no spot instances")
        return
    show(rows, INSTANCE_COLUMNS, output)


async def history(
    session: Session,
    job: Name = None,
    all_namespaces: AllNamespaces = False,
    rates: Annotated[
        bool, typer.Option("--rates", help="Show losses per hour for each location instead.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """List the instances that jobs ran on: duration, end reason and cost."""
    from corral.cli.views import spot_rows

    objects = await _objects(session, "spotinstancejobs", all_namespaces=all_namespaces, name=job)
    now = datetime.now(UTC)
    if rates:
        show(spot_rows.rate_rows(objects, now), spot_rows.RATE_COLUMNS, output)
        return
    rows = [row for obj in objects for row in spot_rows.placement_rows(obj, now)]
    if not rows and output is Format.table:
        complain("no instances were used yet")
        return
    show(rows, spot_rows.PLACEMENT_COLUMNS, output)


async def _objects(
    session: Session, plural: str, *, all_namespaces: bool, name: str | None = None
) -> list[Any]:
    from corral.client import ListQuery
    from corral.client.kinds import kind_of

    kind = kind_of(plural)
    if name is not None:
        return [await session.jobs.get(kind, session.namespace, name)]
    namespace = None if all_namespaces else session.namespace
    return list((await session.jobs.list(kind, namespace, ListQuery())).items)


def simulate(
    trace: Annotated[
        Path | None, typer.Option(help="Trace file to replay, JSON (default: generated traces).")
    ] = None,
    shape: Annotated[
        str, typer.Option(help="Shape of generated traces: scarce, diurnal or bursty.")
    ] = ("scarce"),
    seeds: Annotated[int, typer.Option(min=1, help="Number of traces to generate.")] = 5,
    rules: Annotated[
        list[str] | None,
        typer.Option("--rule", help="Placement rule to simulate; repeatable (default: all)."),
    ] = None,
    work: Annotated[
        str, typer.Option(help="Duration of the job on a machine of speed 1, such as 48h.")
    ] = "48h",
    deadline: Annotated[
        str, typer.Option(help="Deadline after the start of the job, such as 72h; 0: none.")
    ] = "72h",
    home: Annotated[str, typer.Option(help="Location of the job data: cloud/region.")] = HOME,
    checkpoint_gib: Annotated[float, typer.Option(min=0.0, help="Checkpoint size in GiB.")] = 25.0,
    tuned: Annotated[
        bool,
        typer.Option(
            "--tuned", help="Let all rules use our checkpoint interval and checkpoints on notice."
        ),
    ] = False,
    save: Annotated[
        Path | None, typer.Option(help="Write the first trace to this file and exit.")
    ] = None,
    output: Output = Format.table,
) -> None:
    """Replay availability traces and compare the cost of a job by placement rule."""
    from corral.spot import RULES, SpotError, rule
    from corral.spot import simulate as replay

    try:
        traces = _traces(trace, shape, seeds)
        if save is not None:
            save.write_text(json.dumps(traces[0].as_object()) + "\n")
            return
        job = _job(work, deadline, home, checkpoint_gib)
        names = rules or list(RULES)
        found = {
            name: [replay(one, job, rule(name, tuned=tuned)) for one in traces] for name in names
        }
    except (SpotError, OSError) as err:
        raise _usage(str(err)) from err
    show(_rows(found), SIMULATED, output)


def _usage(message: str, hint: str = "") -> typer.Exit:
    complain(Trouble(message, code=USAGE, hint=hint))
    return typer.Exit(USAGE)


def _traces(path: Path | None, shape: str, seeds: int) -> list[Trace]:
    from corral.spot import InvalidTrace, Trace, generate

    if path is None:
        return [generate(shape, seed) for seed in range(seeds)]
    try:
        read = json.loads(path.read_bytes())
    except ValueError as err:
        raise InvalidTrace(f"{path} is not valid JSON: {err}") from None
    if not isinstance(read, dict):
        raise InvalidTrace(f"{path} is not a trace: it must be a JSON object")
    return [Trace.of_object(read)]


def _job(work: str, deadline: str, home: str, checkpoint_gib: float) -> Workload:
    from corral.spot import Home, Workload

    cloud, slash, region = home.partition("/")
    if not (cloud and slash and region):
        raise _usage(
            f"{home!r} is not a region", "write --home cloud/region, such as aws/us-east-1"
        )
    try:
        seconds, limit = span(work), span(deadline)
    except Trouble as err:
        raise _usage(err.message, err.hint) from err
    return Workload(
        work_s=seconds,
        home=Home(cloud, region),
        deadline=limit or None,
        checkpoint_gib=checkpoint_gib,
    )


def _rows(found: Mapping[str, Sequence[Outcome]]) -> list[dict[str, Any]]:
    """One row per rule, the cheapest first; ratios are to ours, or to the cheapest."""
    from dataclasses import asdict

    from corral.spot import summarize

    known = {name: asdict(summarize(runs)) for name, runs in found.items()}
    cheapest = min(row["cost"] for row in known.values())
    base = known["corral"]["cost"] if "corral" in known else cheapest
    rows = []
    for name, row in sorted(known.items(), key=lambda item: item[1]["cost"]):
        figures = {key: round(value, 2) for key, value in row.items()}
        rows.append({"rule": name, **figures, "ratio": round(row["cost"] / base, 3)})
    return rows


app.command()(connected(instances))
app.command()(connected(history))
app.command()(simulate)
