"""``corral fl inject``, ``topics`` and ``tail``: data of federated learning over Kafka."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from corral.cli.errors import INTERRUPTED, NOT_FOUND, UNREACHABLE, USAGE, Trouble
from corral.cli.kafka import access_of
from corral.cli.session import ClusterOptions, opened, perform
from corral.cli.views.output import Format, Output, complain, say_lines, show

if TYPE_CHECKING:
    from corral.cli.samples import Samples, Shard
    from corral.kube.types import Obj
    from corral.podtools.kafka.client import Access
    from corral.podtools.kafka.ranges import Range

__all__ = ["COMMANDS"]

_COLUMNS: Final = ("datasource", "topic", "samples", "test")
_TOPIC_COLUMNS: Final = ("topic", "partitions", "messages")
_PATIENCE: Final = 20.0
"""Seconds for which a broker that does not answer is tried."""

Bootstrap = Annotated[
    str,
    typer.Option(
        help="Brokers, HOST:PORT,… (default: KAFKA_BOOTSTRAP_SERVERS, then the local cluster)."
    ),
]
Login = Annotated[
    str,
    typer.Option(
        "--login",
        help="Secret with username and password (default: KAFKA_USERNAME and KAFKA_PASSWORD, then "
        "the Secret of the cluster's broker).",
    ),
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", help="Namespace (default: that of the kubeconfig context)."),
]
Context = Annotated[str | None, typer.Option(help="Kubeconfig context (default: the current one).")]
Kubeconfig = Annotated[
    Path | None,
    typer.Option(
        help="Kubeconfig (default: KUBECONFIG, ~/.kube/config, in-cluster, ~/.corral/kubeconfig)."
    ),
]


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong here, as one line."""
    from corral.cli.samples import SampleError
    from corral.podtools.kafka.client import KafkaError

    try:
        yield
    except KafkaError as error:
        raise Trouble(str(error), code=UNREACHABLE, hint="is the broker running?") from error
    except SampleError as error:
        raise Trouble(str(error), code=USAGE) from error


def inject(
    source: Annotated[
        str,
        typer.Argument(
            help="Data set: mnist (synthetic, 28x28), digits, or a .csv, .npy or .npz file."
        ),
    ] = "mnist",
    topic: Annotated[
        str,
        typer.Option(help="Topic to write to; with {shard} in it each shard gets its own topic."),
    ] = "FED-DEBUG-data_topic",
    bootstrap: Bootstrap = "",
    login: Login = "",
    train: Annotated[int, typer.Option(min=1, help="Number of training samples.")] = 500,
    test: Annotated[
        int, typer.Option(min=0, help="Number of test samples, sent after the training samples.")
    ] = 50,
    rate: Annotated[float, typer.Option(min=0.0, help="Messages per second; 0: no limit.")] = 0.0,
    split: Annotated[
        str, typer.Option(help="Shards, one per client: a number, or weights such as 0.6,0.3,0.1.")
    ] = "1",
    validation_rate: Annotated[
        float,
        typer.Option(
            min=0.0, max=0.9, help="Fraction of the samples that clients use for validation."
        ),
    ] = 0.0,
    restriction: Annotated[
        str, typer.Option(help='JSON object that a deployment must request, such as {"site":"a"}.')
    ] = "{}",
    deployment: Annotated[str, typer.Option(help="Only for this FederatedDeployment.")] = "",
    name: Annotated[
        str,
        typer.Option(help="Name prefix of the Datasources: NAME-0 and so on (default: generated)."),
    ] = "",
    seed: Annotated[
        int, typer.Option(help="Random seed for synthetic data and for the order of digits.")
    ] = 0,
    labels: Annotated[
        str,
        typer.Option(
            help="Label encoding: onehot, index (one byte) or value (float32, unchanged)."
        ),
    ] = "onehot",
    label_column: Annotated[
        str, typer.Option(help="Label column of a .csv file (default: the last one).")
    ] = "",
    label_file: Annotated[
        Path | None, typer.Option(help="File with the labels of an .npy file, also .npy.")
    ] = None,
    reshape: Annotated[
        str, typer.Option(help="Shape of a sample, such as '28 28' (default: that of the data).")
    ] = "",
    datasource: Annotated[
        bool, typer.Option(help="Create a Datasource per shard, for which clients are started.")
    ] = True,
    announce: Annotated[
        bool, typer.Option("--announce", help="Also send data control messages.")
    ] = False,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = Format.table,
) -> None:
    """Send a data set to Kafka and start clients that train on it."""

    async def work() -> None:
        from corral.cli.samples import LABELS, load, parts, shards

        if labels not in LABELS:
            raise Trouble(
                f"--labels must be one of {', '.join(LABELS)}, not {labels!r}", code=USAGE
            )
        asked = _restriction(restriction)
        _check_topic(topic)
        target = ClusterOptions(namespace, kubeconfig, context)
        access = await access_of(bootstrap, target, secret=login)
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
                raise Trouble("--validation-rate leaves no training data", code=USAGE)
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
        detail = json.loads(text)
    except ValueError as error:
        raise Trouble(f"--restriction is not valid JSON: {error}", code=USAGE) from None
    if not isinstance(detail, dict):
        raise Trouble('--restriction must be a JSON object, such as {"site":"a"}', code=USAGE)
    return detail


def _check_topic(topic: str) -> None:
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", topic.replace("{shard}", "0")):
        raise Trouble(
            f"{topic!r} is not a valid topic name",
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
    from corral.podtools.kafka.ranges import ranges_text

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

    def __init__(self, target: ClusterOptions, name: str, deployment: str, *, make: bool) -> None:
        self._target, self._name, self._deployment = target, name, deployment
        self._make = make

    async def check(self) -> str:
        """The federated id of the deployment that is named, where it has one already."""
        if not self._make:
            return ""
        from corral.client import ListQuery
        from corral.client.kinds import kind_of

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
        from corral.client.kinds import kind_of

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

    from corral.podtools.kafka.client import Sender, ensure
    from corral.podtools.kafka.messages import DataControl
    from corral.podtools.kafka.names import Names

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
    bootstrap: Bootstrap = "",
    login: Login = "",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    output: Output = Format.table,
) -> None:
    """List the topics of the namespace with their partitions and messages."""

    async def work() -> None:
        import asyncio

        target = ClusterOptions(namespace, kubeconfig, context)
        access = await access_of(bootstrap, target, secret=login)
        show(await asyncio.to_thread(_topics, access), _TOPIC_COLUMNS, output)

    perform(work())


def _topics(access: Access) -> list[dict[str, Any]]:
    from corral.podtools.kafka.client import ends
    from corral.podtools.kafka.topics import listed

    with _told():
        rows = []
        for name in listed(access, patience=_PATIENCE):
            found = ends(access, name, patience=_PATIENCE)
            messages = sum(map(len, found))
            rows.append({"topic": name, "partitions": len(found), "messages": messages})
    return rows


def tail(
    topic: Annotated[str, typer.Argument(help="Topic name.")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Print new messages until interrupted.")
    ] = False,
    last: Annotated[
        int, typer.Option(min=0, help="Number of most recent messages per partition.")
    ] = 10,
    bootstrap: Bootstrap = "",
    login: Login = "",
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Print messages of a topic: control messages as JSON, weights and data as one line."""
    found: list[Access] = []

    async def work() -> None:
        target = ClusterOptions(namespace, kubeconfig, context)
        found.append(await access_of(bootstrap, target, secret=login))

    perform(work())
    try:
        _tail(found[0], topic, last, follow=follow)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except Trouble as trouble:
        complain(trouble)
        raise typer.Exit(trouble.code) from trouble


def _tail(access: Access, topic: str, last: int, *, follow: bool) -> None:
    from contextlib import ExitStack

    from corral.cli.views.records import describe
    from corral.podtools.kafka.client import Follower, ends, read
    from corral.podtools.kafka.ranges import Range

    with _told(), ExitStack() as held:
        _must_exist(access, topic)
        found = ends(access, topic, patience=_PATIENCE)
        for one in found:
            tail_of = Range(topic, one.partition, max(one.start, one.end - last), one.end)
            for record in read(access, [tail_of], patience=_PATIENCE):
                say_lines(describe(record, partition=one.partition), flush=True)
        followers = [
            (n.partition, held.enter_context(
                Follower(access, topic, start=n.end, partition=n.partition)))
            for n in found if follow
        ]  # fmt: skip
        while followers:
            for partition, follower in followers:
                new = follower.poll(0.2)
                if new is not None:
                    say_lines(describe(new, partition=partition), flush=True)


def _must_exist(access: Access, topic: str) -> None:
    from corral.podtools.kafka.topics import listed

    if topic not in listed(access, patience=_PATIENCE):
        raise Trouble(
            f"there is no topic {topic}", code=NOT_FOUND, hint="`corral fl topics` lists them"
        )


COMMANDS: Final = (inject, topics, tail)
