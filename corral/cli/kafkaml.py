"""``corral fl inject``, ``topics`` and ``tail``: data of federated learning over Kafka."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from corral.cli.errors import INTERRUPTED, NOT_FOUND, UNREACHABLE, USAGE, Trouble
from corral.cli.output import Format, Output, complain, show
from corral.cli.session import LOCAL_CLUSTER, Target, kubeconfig_of, opened, perform

if TYPE_CHECKING:
    from corral.cli.samples import Samples, Shard
    from corral.inpod.kafkaml.kafka import Access
    from corral.inpod.kafkaml.ranges import Range
    from corral.kube.types import Obj

__all__ = ["COMMANDS", "bootstrap_of"]

_COLUMNS: Final = ("datasource", "topic", "samples", "test")
_TOPIC_COLUMNS: Final = ("topic", "partitions", "messages")
_VARIABLES: Final = ("KAFKA_BOOTSTRAP_SERVERS", "KML_CLOUD_BOOTSTRAP_SERVERS")
_PATIENCE: Final = 20.0
"""Seconds for which a broker that does not answer is tried."""

Bootstrap = Annotated[
    str,
    typer.Option(
        help="Brokers as HOST:PORT,…; else KAFKA_BOOTSTRAP_SERVERS, else that of the cluster here."
    ),
]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(help="Cluster; else KUBECONFIG, ~/.kube/config, ~/.corral/kubeconfig."),
]


def bootstrap_of(said: str, kubeconfig: Path | None) -> str:
    """Where the brokers are: as said, as the environment says, or beside the cluster.

    Raises:
        Trouble: nobody says.
    """
    found = said or next(filter(None, (os.environ.get(name) for name in _VARIABLES)), "")
    if found:
        return found
    places = [kubeconfig_of(Target(kubeconfig=kubeconfig))]
    places += [Path(word) for word in os.environ.get("KUBECONFIG", "").split(os.pathsep) if word]
    places.append(LOCAL_CLUSTER.expanduser())
    for place in places:
        try:
            facts = json.loads((place.parent / "broker.json").read_text()) if place else {}
        except (OSError, ValueError):
            continue
        if isinstance(facts, dict) and facts.get("bootstrap"):
            return str(facts["bootstrap"])
    raise Trouble(
        "it is not known where Kafka is",
        code=USAGE,
        hint="give --bootstrap HOST:PORT; `corral up` starts a broker beside the cluster",
    )


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong here, as one line."""
    from corral.cli.samples import SampleError
    from corral.inpod.kafkaml.kafka import KafkaError

    try:
        yield
    except KafkaError as error:
        raise Trouble(str(error), code=UNREACHABLE, hint="is the broker running?") from error
    except SampleError as error:
        raise Trouble(str(error), code=USAGE) from error


def _access(bootstrap: str, kubeconfig: Path | None) -> Access:
    from corral.inpod.kafkaml.kafka import Access

    servers = bootstrap_of(bootstrap, kubeconfig)
    return Access.from_environment({**os.environ, "BROKERS": servers}, "BROKERS")


def inject(
    source: Annotated[
        str, typer.Argument(help="mnist (made up, 28x28), digits, or a .csv, .npy or .npz file.")
    ] = "mnist",
    topic: Annotated[
        str, typer.Option(help="Where it goes; {shard} in it gives each shard its own topic.")
    ] = "FED-DEBUG-data_topic",
    bootstrap: Bootstrap = "",
    train: Annotated[int, typer.Option(min=1, help="Samples to train with.")] = 500,
    test: Annotated[int, typer.Option(min=0, help="Samples to test with, after those.")] = 50,
    rate: Annotated[
        float, typer.Option(min=0.0, help="Messages a second; 0: as fast as it goes.")
    ] = 0.0,
    split: Annotated[
        str, typer.Option(help="Shards, a client each: 3, or weights such as 0.6,0.3,0.1.")
    ] = "1",
    validation_rate: Annotated[
        float, typer.Option(min=0.0, max=0.9, help="Share that clients validate with.")
    ] = 0.0,
    restriction: Annotated[
        str, typer.Option(help='JSON that a deployment must ask for, such as {"site":"a"}.')
    ] = "{}",
    deployment: Annotated[str, typer.Option(help="For this FederatedDeployment only.")] = "",
    name: Annotated[
        str, typer.Option(help="Of the datasources: NAME-0 and so on; made up if empty.")
    ] = "",
    seed: Annotated[int, typer.Option(help="Of what is made up, and of the order of digits.")] = 0,
    labels: Annotated[
        str, typer.Option(help="onehot, index (one byte), or value (float32, as they are).")
    ] = "onehot",
    label_column: Annotated[str, typer.Option(help="Of a .csv; else the last one.")] = "",
    label_file: Annotated[
        Path | None, typer.Option(help="The labels of an .npy, .npy too.")
    ] = None,
    reshape: Annotated[str, typer.Option(help="Shape of a sample, such as '28 28'.")] = "",
    datasource: Annotated[
        bool, typer.Option(help="Make a Datasource of each shard: that is what brings clients.")
    ] = True,
    announce: Annotated[
        bool, typer.Option("--announce", help="Send data control messages too.")
    ] = False,
    namespace: Annotated[str | None, typer.Option("--namespace", "-n", help="Namespace.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Annotated[str | None, typer.Option(help="Context of the kubeconfig.")] = None,
    output: Output = Format.table,
) -> None:
    """Put a data set into Kafka, and have clients made that train on it."""

    async def work() -> None:
        from corral.cli.samples import LABELS, load, parts, shards

        if labels not in LABELS:
            raise Trouble(f"--labels is one of {', '.join(LABELS)}, not {labels!r}", code=USAGE)
        asked = _restriction(restriction)
        _check_topic(topic)
        access = _access(bootstrap, kubeconfig)
        with _told():
            samples = load(
                source,
                count=train + test,
                seed=seed,
                labels=labels,
                label_column=label_column,
                label_file=label_file,
                reshape=reshape,
            )
            cut = shards(train, test, parts(split))
            if validation_rate + max(one.test_rate for one in cut) >= 1:
                raise Trouble("--validation-rate leaves nothing to train with", code=USAGE)
        target = Target(namespace, kubeconfig, context)
        kept = _Keeping(target, name, deployment, make=datasource)
        federated_id = await kept.check()
        sent = await _send(access, topic, samples, cut, rate=rate)
        specs = [
            _spec(samples, shard, ranges, validation_rate, asked, deployment)
            for shard, ranges in zip(cut, sent, strict=True)
        ]
        made = await kept.create([(topic, spec) for spec in specs])
        if announce:
            await _announce(access, specs, federated_id)
        rows = [
            {
                "datasource": who,
                "topic": spec["topic"],
                "samples": spec["totalMsg"],
                "test": shard.test,
                "inputConfig": spec["inputConfig"],
            }
            for who, spec, shard in zip(made, specs, cut, strict=True)
        ]
        columns = ("topic",) if output is Format.name and not datasource else _COLUMNS
        show(rows, columns, output)

    perform(work())


def _restriction(text: str) -> Obj:
    try:
        said = json.loads(text)
    except ValueError as error:
        raise Trouble(f"--restriction is no JSON: {error}", code=USAGE) from None
    if not isinstance(said, dict):
        raise Trouble('--restriction is a JSON object, such as {"site":"a"}', code=USAGE)
    return said


def _check_topic(topic: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic.replace("{shard}", "0")):
        raise Trouble(
            f"{topic!r} is no name of a topic",
            code=USAGE,
            hint="use letters, digits, '.', '_', '-'",
        )


async def _send(
    access: Access, topic: str, samples: Samples, cut: list[Shard], *, rate: float
) -> list[list[Range]]:
    import asyncio

    from corral.cli.injecting import inject as send

    def work(sent: Callable[[int], None]) -> list[list[Range]]:
        with _told():
            return [
                send(access, topic, samples, one, rate=rate, patience=_PATIENCE, sent=sent)
                for one in cut
            ]

    with _bar(sum(len(one.rows) for one in cut)) as sent:
        return await asyncio.to_thread(work, sent)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, where somebody looks."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(
        *columns, console=console, transient=True, disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task("messages", total=total)
        yield lambda count: bar.advance(task, count)


def _spec(
    samples: Samples,
    shard: Shard,
    ranges: list[Range],
    validation_rate: float,
    restriction: Obj,
    deployment: str,
) -> Obj:
    from corral.inpod.kafkaml.ranges import ranges_text

    spec: Obj = {
        "topic": ranges_text(ranges),
        "inputFormat": "RAW",
        "inputConfig": samples.input_config,
        "datasetRestrictions": restriction,
        "validationRate": validation_rate,
        "testRate": shard.test_rate,
        "totalMsg": len(shard.rows),
    }
    return {**spec, "deployment": deployment} if deployment else spec


class _Keeping:
    """The objects of what was sent; nothing is sent before they can be made."""

    def __init__(self, target: Target, name: str, deployment: str, *, make: bool) -> None:
        self._target, self._name, self._deployment = target, name, deployment
        self._make = make

    async def check(self) -> str:
        """The federated id of the deployment that is named, where it has one already."""
        if not self._make:
            return ""
        from corral.jobs import ListQuery
        from corral.jobs.kinds import kind_of

        async with opened(self._target) as session:
            await session.jobs.list(kind_of("datasources"), session.namespace, ListQuery(limit=1))
            if not self._deployment:
                return ""
            found = await session.jobs.get(
                kind_of("federateddeployments"), session.namespace, self._deployment
            )
        return str((found.get("status") or {}).get("federatedStringId") or "")

    async def create(self, specs: list[tuple[str, Obj]]) -> list[str]:
        if not self._make:
            return [""] * len(specs)
        from corral.jobs.kinds import kind_of

        made, kind = [], kind_of("datasources")
        async with opened(self._target) as session:
            for number, (topic, spec) in enumerate(specs):
                slug = re.sub(r"[^a-z0-9]+", "-", topic.lower().replace("{shard}", "")).strip("-")
                metadata = (
                    {"name": f"{self._name}-{number}"}
                    if self._name
                    else {"generateName": f"{slug[:40] or 'data'}-{number}-"}
                )
                obj = {"metadata": metadata, "spec": spec}
                found = await session.jobs.create(kind, session.namespace, obj)
                made.append(str(found["metadata"]["name"]))
        return made


async def _announce(access: Access, specs: list[Obj], federated_id: str) -> None:
    import asyncio

    from corral.inpod.kafkaml.kafka import Sender, ensure
    from corral.inpod.kafkaml.messages import DataControl
    from corral.inpod.kafkaml.names import Names

    def work() -> None:
        names = Names.of(federated_id)
        with _told():
            ensure(access, names.shared(), patience=_PATIENCE)
            with Sender(access, patience=_PATIENCE) as sender:
                for spec in specs:
                    message = DataControl(
                        spec["topic"],
                        spec["inputFormat"],
                        spec["inputConfig"],
                        spec["totalMsg"],
                        spec["validationRate"],
                        spec["testRate"],
                        dataset_restrictions=spec["datasetRestrictions"],
                        federated_string_id=federated_id,
                    )
                    sender.send(names.data_control, message.encode(), key=b"\0")

    await asyncio.to_thread(work)


def topics(
    bootstrap: Bootstrap = "", kubeconfig: Kubeconfig = None, output: Output = Format.table
) -> None:
    """The topics there are, with their partitions and messages."""

    async def work() -> None:
        import asyncio

        access = _access(bootstrap, kubeconfig)
        show(await asyncio.to_thread(_topics, access), _TOPIC_COLUMNS, output)

    perform(work())


def _topics(access: Access) -> list[dict[str, Any]]:
    from corral.inpod.kafkaml.kafka import ends
    from corral.inpod.kafkaml.topics import listed

    with _told():
        rows = []
        for name in listed(access, patience=_PATIENCE):
            found = ends(access, name, patience=_PATIENCE)
            messages = sum(map(len, found))
            rows.append({"topic": name, "partitions": len(found), "messages": messages})
    return rows


def tail(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what comes, until interrupted.")
    ] = False,
    last: Annotated[int, typer.Option(min=0, help="So many messages of each partition.")] = 10,
    bootstrap: Bootstrap = "",
    kubeconfig: Kubeconfig = None,
) -> None:
    """Print messages of a topic: control as JSON, weights and data in a line."""
    from contextlib import ExitStack

    from corral.cli.records import describe
    from corral.inpod.kafkaml.kafka import Follower, ends, read
    from corral.inpod.kafkaml.ranges import Range

    try:
        access = _access(bootstrap, kubeconfig)
        with _told(), ExitStack() as held:
            _must_exist(access, topic)
            found = ends(access, topic, patience=_PATIENCE)
            for one in found:
                tail_of = Range(topic, one.partition, max(one.start, one.end - last), one.end)
                for record in read(access, [tail_of], patience=_PATIENCE):
                    print(describe(record, partition=one.partition), flush=True)
            followers = [
                (n.partition, held.enter_context(
                    Follower(access, topic, start=n.end, partition=n.partition)))
                for n in found if follow
            ]  # fmt: skip
            while followers:
                for partition, follower in followers:
                    new = follower.poll(0.2)
                    if new is not None:
                        print(describe(new, partition=partition), flush=True)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Trouble as trouble:
        complain(trouble)
        raise typer.Exit(trouble.code) from trouble


def _must_exist(access: Access, topic: str) -> None:
    from corral.inpod.kafkaml.topics import listed

    if topic not in listed(access, patience=_PATIENCE):
        raise Trouble(
            f"there is no topic {topic}", code=NOT_FOUND, hint="`corral fl topics` lists them"
        )


COMMANDS: Final = (inject, topics, tail)
