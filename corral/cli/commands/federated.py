"""``corral fl``: federated jobs without a cluster, and what they have learned on one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from corral.cli.commands import kafkaml
from corral.cli.errors import FAILED, INVALID, NOT_FOUND, USAGE, Trouble
from corral.cli.session import Session, connected, perform
from corral.cli.views.output import Format, Output, say, show, show_object, show_objects
from corral.kube.printable import printable
from corral.kube.types import Obj

__all__ = ["app"]

app = typer.Typer(
    name="fl",
    help="Federated learning: simulate jobs, read metrics and models, send data to Kafka.",
    no_args_is_help=True,
)  # fmt: skip

ROUND_COLUMNS: Final = (
    "round", "phase", "updates", "rejected", "samples", "loss", "accuracy", "bytes", "seconds",
)  # fmt: skip
METRIC_COLUMNS: Final = (
    "round", "phase", "updates", "required", "rejected", "samples", "loss", "accuracy", "bytes",
    "seconds", "aggregation",
)  # fmt: skip
PROPLET_COLUMNS: Final = (
    "proplet", "status", "updates", "rejected", "failed", "samples", "loss", "accuracy", "bytes",
    "seconds",
)  # fmt: skip
PARTICIPANT_COLUMNS: Final = (
    "proplet", "status", "counted", "samples", "loss", "accuracy", "bytes", "seconds", "message",
)  # fmt: skip
MODEL_COLUMNS: Final = (
    "round", "phase", "samples", "participants", "loss", "accuracy", "bytes", "model",
)  # fmt: skip


@app.command()
def simulate(
    manifest: Annotated[
        str, typer.Argument(help="Manifest of a FederatedJob, or - for standard input.")
    ],
    client: Annotated[
        str,
        typer.Option(help="Function that participants run: module:function or file.py:function."),
    ],
    clients: Annotated[
        int, typer.Option(min=0, help="Number of virtual participants; 0: as in the manifest.")
    ] = 0,
    data: Annotated[
        Path | None, typer.Option(help="Folder with one data folder per participant.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Output folder for the models: round-1.f32-le and so on.")
    ] = Path("simulated"),
    model: Annotated[
        Path | None, typer.Option(help="Initial model file for the first round.")
    ] = None,
    rounds: Annotated[
        int, typer.Option(min=0, help="Number of rounds; 0: as in the manifest.")
    ] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Number of processes; 0: one per core.")] = 0,
    latency: Annotated[
        float,
        typer.Option(min=0.0, help="Median time of a participant per round, in simulated seconds."),
    ] = 1.0,
    spread: Annotated[
        float,
        typer.Option(
            min=0.0, help="Standard deviation of the logarithm of that time; 0: no variation."
        ),
    ] = 0.0,
    failing: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Fraction of participants that fail in a round.")
    ] = 0.0,
    seed: Annotated[
        int, typer.Option(help="Random seed for times, failures and privacy noise.")
    ] = 0,
    output: Output = Format.table,
) -> None:
    """Simulate a FederatedJob on this machine with virtual participants."""
    from corral.families.federated.simulator import Arrivals, Setting, with_clients

    job = _federated_job(manifest)
    named = [str(each.get("propletId")) for each in job["spec"].get("participants") or ()]
    if rounds:
        job["spec"]["rounds"] = {**(job["spec"].get("rounds") or {}), "total": rounds}
    setting = Setting(
        out,
        data=data,
        shared=tuple(named),
        model=model,
        arrivals=Arrivals(latency, spread, failing, seed),
    )
    job = with_clients(job, clients) if clients else job
    perform(_simulate(job, setting, client=client, workers=workers, output=output))


def _federated_job(manifest: str) -> Obj:
    from corral.cli.manifests import read_manifests

    found = [one.obj for one in read_manifests([manifest], recursive=False, stdin=sys.stdin)]
    jobs = [obj for obj in found if obj.get("kind") == "FederatedJob"]
    if len(jobs) != 1 or not isinstance(jobs[0].get("spec"), dict):
        raise Trouble(
            f"{manifest} has {len(jobs) or 'no'} FederatedJob{'s' if len(jobs) > 1 else ''}",
            code=USAGE,
            hint="a simulation needs exactly one FederatedJob with a spec",
        )
    return jobs[0]


async def _simulate(job: Obj, setting: Any, *, client: str, workers: int, output: Format) -> None:
    import tempfile

    from corral.families.federated.simulator import CannotSimulate, Simulation
    from corral.learning.simulation import ClientProblem, Pool

    lines = _Lines(ROUND_COLUMNS) if output is Format.table else None
    try:
        simulation = Simulation(job, setting)
        with (
            tempfile.TemporaryDirectory(prefix="corral-simulation-") as folder,
            Pool(client, folder=Path(folder), workers=workers) as pool,
        ):
            async for round_ in simulation.rounds(pool):
                if lines is not None:
                    lines.add(round_row(round_))
    except (CannotSimulate, ClientProblem) as error:
        raise Trouble(str(error), code=INVALID) from error
    status = simulation.job["status"]
    if output is Format.name:
        say(status.get("aggregatedModelRef", ""))
    elif lines is None:
        show_object(simulation.job, output)
    if status["phase"] != "Completed":
        raise Trouble(str(status.get("message") or "it failed"), code=FAILED)


def round_row(round_: Obj) -> dict[str, Any]:
    """A TrainingRound as one line."""
    status = round_.get("status") or {}
    metrics = status.get("metrics") or {}
    return {
        "round": str(round_["spec"]["roundId"]).removeprefix("round-"),
        "phase": status.get("phase"),
        "updates": status.get("updatesReceived"),
        "rejected": status.get("updatesRejected"),
        "samples": status.get("samples"),
        "loss": _short(metrics.get("loss")),
        "accuracy": _short(metrics.get("accuracy")),
        "bytes": status.get("bytes"),
        "seconds": _short(status.get("aggregationSeconds")),
    }


def _short(value: object) -> object:
    return round(value, 4) if isinstance(value, float) else value


# --- on a cluster --------------------------------------------------------------------------------

Name = Annotated[str, typer.Argument(help="Name of the FederatedJob.")]


async def metrics(
    session: Session,
    name: Name,
    proplets: Annotated[
        bool, typer.Option("--proplets", "-p", help="Show metrics per proplet, over all rounds.")
    ] = False,
    round_: Annotated[
        int,
        typer.Option(
            "--round", min=0, help="Show the participants of this round; 0: show all rounds."
        ),
    ] = 0,
    output: Output = Format.table,
) -> None:
    """Show the metrics of a federated job: samples, loss, accuracy, bytes, durations."""
    from corral.cli.references import find

    found = await find(session, ["federatedjob", name])
    metrics = await session.jobs.metrics(found.kind, session.namespace, found.name)
    if output is not Format.table:
        show_object(
            {"metadata": {"name": name}, **metrics} if output is Format.name else metrics, output
        )
    elif round_:
        show(_participants(metrics, round_), PARTICIPANT_COLUMNS, output)
    elif proplets:
        show([_flat(entry) for entry in metrics["proplets"]], PROPLET_COLUMNS, output)
    else:
        show([_flat(entry) for entry in metrics["rounds"]], METRIC_COLUMNS, output)


def _participants(metrics: Obj, number: int) -> list[dict[str, Any]]:
    for entry in metrics["rounds"]:
        if entry.get("round") == number:
            return [_flat(part) for part in entry["participants"]]
    raise Trouble(
        f"there is no round {number}",
        code=NOT_FOUND,
        hint=f"`corral fl metrics {metrics['name']}` lists the rounds",
    )


def _flat(entry: Obj) -> dict[str, Any]:
    """One line: loss and accuracy stand beside the others."""
    figures = entry.get("metrics") or {}
    return {
        **entry,
        "proplet": entry.get("propletId"),
        "loss": _short(figures.get("loss")),
        "accuracy": _short(figures.get("accuracy")),
        "seconds": _short(entry.get("durationSeconds")),
        "aggregation": _short(entry.get("aggregationSeconds")),
    }


async def models(session: Session, name: Name, output: Output = Format.table) -> None:
    """List the models of a federated job and where to pull them."""
    from corral.cli.references import find
    from corral.client import ListQuery
    from corral.client.kinds import kind_of
    from corral.client.learning import JOB_LABEL

    found = await find(session, ["federatedjob", name])
    kind, items, token = kind_of("modelcheckpoints"), [], ""
    while True:
        query = ListQuery(labels=f"{JOB_LABEL}={found.name}", token=token)
        page = await session.jobs.list(kind, session.namespace, query)
        items += page.items
        token = page.token
        if not token:
            break
    if output in (Format.json, Format.yaml):
        show_objects([kind.resource.stamp(obj) for obj in items], output, single=False)
        return
    rows = sorted(map(_model_row, items), key=lambda row: int(row["round"] or 0))
    columns = ("model",) if output is Format.name else MODEL_COLUMNS
    show(rows, columns, output)


def _model_row(obj: Obj) -> dict[str, Any]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    facts = spec.get("metadata") or {}
    figures = facts.get("metrics") or {}
    return {
        "round": spec.get("round"),
        "phase": status.get("phase"),
        "samples": facts.get("totalSamples"),
        "participants": facts.get("numParticipants"),
        "loss": _short(figures.get("loss")),
        "accuracy": _short(figures.get("accuracy")),
        "bytes": status.get("sizeBytes"),
        "model": spec.get("modelRef"),
    }


for command in (metrics, models):
    app.command()(connected(command))
for over_kafka in kafkaml.COMMANDS:
    app.command()(over_kafka)


class _Lines:
    """A table whose lines are printed as they come."""

    def __init__(self, columns: tuple[str, ...]) -> None:
        self._columns = columns
        self._begun = False

    def add(self, row: dict[str, Any]) -> None:
        if not self._begun:
            self._print({column: column.upper() for column in self._columns})
        self._begun = True
        self._print(row)

    def _print(self, row: dict[str, Any]) -> None:
        cells = ("-" if row[name] in (None, "") else printable(row[name]) for name in self._columns)
        say("  ".join(cell.ljust(9) for cell in cells).rstrip(), flush=True)
