"""The server side of a deployment: versions of a model go out, updates come in, a new one is made.

Everything is decided by `rounds.Rounds` and written to the state topic before it is done, so that a
server that was killed goes on where it was. Updates are folded one by one from Kafka: memory is
that of the model, whatever the number of clients. ``Observer`` is notified of
the progress (for the object's status), and again after a restart.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from corral.learning import AggregationFailed, UpdateRejected, strategy
from corral.learning.native import is_finite
from corral.learning.strategies import Strategy
from corral.learning.tensors import Model
from corral.podtools.kafka.client import (
    SPARING,
    Access,
    Follower,
    KafkaError,
    Record,
    Sender,
    TopicLost,
    check,
    ends,
    ensure,
    read,
)
from corral.podtools.kafka.messages import (
    NAMES,
    ClientControl,
    ClientTest,
    MessageError,
    ModelAnnouncement,
    ModelControl,
    client_of_key,
)
from corral.podtools.kafka.names import Names
from corral.podtools.kafka.ranges import Range, parse_ranges, ranges_text
from corral.podtools.kafka.weights import WeightsError, WeightsReader
from corral.podtools.kafkaml.aggregating import (
    Made,
    NothingCounts,
    by_array,
    fold,
    model_of,
    whole,
)
from corral.podtools.kafkaml.rounds import (
    Aggregate,
    Ask,
    Close,
    Extend,
    Fail,
    Finish,
    Publish,
    Rounds,
    RoundSettings,
    Wait,
    answer_version,
    sent_version,
)
from corral.podtools.kafkaml.strategies import strategy_name

__all__ = ["Deployment", "Observer", "Server", "merged"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
LOOK: Final = 2.0
"""Seconds between two looks at who the clients are."""
TOPICS: Final = 5.0
"""Seconds between two looks whether its topics are there."""
PIECES: Final = 64
"""Ranges that the weights of an update may be in: each is fetched by itself."""
HEAD: Final = 4096
"""Bytes that the format of an array adds to it, at most."""


class Observer(Protocol):
    """What the server notifies of its progress, and what knows the clients."""

    def clients(self) -> tuple[Collection[str], Collection[str]]:
        """Those that take part, and those of them that will never send again."""

    def progress(self, rounds: Rounds) -> None: ...

    def remark(self, client: str, why: str) -> None:
        """An update that did not count."""

    def publish(self, weights: Sequence[Array], rounds: Rounds) -> str:
        """Keep the model for good; where. May be asked again for the same one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What is trained, and how."""

    names: Names
    rounds: RoundSettings
    framework: str
    architecture: str
    compile_args: Mapping[str, Any]
    training_settings: Mapping[str, Any]
    input_shape: str = ""
    output_shape: str = ""
    strategy: str = "fedavg"
    config: Mapping[str, Any] = field(default_factory=dict)
    data_restriction: Mapping[str, Any] = field(default_factory=dict)
    min_data: int = 0
    incremental: bool = False
    legacy: bool = False
    result_id: str = "1"

    def rule(self) -> Strategy:
        """How updates become a version. Raises InvalidConfig."""
        return strategy(strategy_name(self.strategy), dict(self.config))


class Server:
    """One deployment of one model."""

    def __init__(
        self,
        access: Access,
        deployment: Deployment,
        first: Sequence[Array],
        observer: Observer,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``first`` are the weights that the first round begins from."""
        self._access = access
        self._deployment = deployment
        self._names = deployment.names
        self._observer = observer
        self._clock = clock
        self._current = list(first)
        """Weights of the version that is on."""
        self._layout = [(array.shape, array.dtype) for array in first]
        self._bytes = sum(array.nbytes + HEAD for array in first)
        self._rounds = Rounds(deployment.rounds)
        self._sent = ""
        """Where the current version's weights are in their topic."""
        self._state: Model | None = None
        self._logged = -1
        """The last entry of the log, by its offset."""
        self._looked = -math.inf
        self._missed = time.monotonic()
        self._clients: tuple[Collection[str], Collection[str]] = ((), ())

    def run(self) -> Rounds:
        """Until the deployment has ended. Raises KafkaError where that cannot be reached.

        A topic that was taken away ends it: what it held cannot be had again.
        """
        control = len(self._control([], 0).encode()) + 4096
        ensure(self._access, [*self._names.shared(), *self._names.own(max(control, 50_000))])
        with Sender(self._access) as sender:
            try:
                self._serve(sender)
            except TopicLost as error:
                why = f"a topic was taken away: {error}"
                if self._names.state not in why:
                    self._log(sender, {"type": "failed", "why": why})
                self._rounds.take({"type": "failed", "why": why}, self._clock())
            self._observer.progress(self._rounds)
        return self._rounds

    def _serve(self, sender: Sender) -> None:
        began = self._recall()
        if not began:
            self._announce(sender)
        if self._rounds.ended == "finished":
            # whoever keeps the model may not have got to it
            self._observer.publish(self._current, self._rounds)
        with Follower(
            self._access, self._names.client_control, start=self._rounds.position
        ) as heard:
            while not self._rounds.ended:
                self._step(sender, heard)
                self._observer.progress(self._rounds)

    # -- the log ---------------------------------------------------------------------------------

    def _recall(self) -> bool:
        """Be where the log says; whether there was one."""
        last: Mapping[str, Any] = {}
        for record in read(self._access, ends(self._access, self._names.state)):
            self._logged = record.offset
            entry = json.loads(record.value or b"{}")
            if entry.get("type") == "aggregated" and entry["version"] == self._rounds.version:
                last = entry
            self._rounds.take(entry, record.time or self._clock())
        if last:
            self._recalled(last)
        return self._logged >= 0

    def _recalled(self, entry: Mapping[str, Any]) -> None:
        """Read the version that was made last; it was sent before its entry was written."""
        self._sent = str(entry["range"])
        arrays = self._arrays(parse_ranges(self._sent))
        if _digest(arrays) != entry["digest"]:
            raise KafkaError(f"version {entry['version'] + 1} of the model is not as it was sent")
        self._current = arrays
        if entry.get("state"):
            self._state = model_of(self._arrays(parse_ranges(entry["state"]), free=True))

    def _write(self, sender: Sender, **entry: Any) -> None:
        self._log(sender, entry)
        self._rounds.take(entry, self._clock())

    def _log(self, sender: Sender, entry: Mapping[str, Any]) -> None:
        offset = sender.send(self._names.state, json.dumps(entry).encode())
        if offset <= self._logged:
            raise TopicLost(f"{self._names.state} is not what it was: somebody made it anew")
        self._logged = offset

    # -- one step --------------------------------------------------------------------------------

    def _step(self, sender: Sender, heard: Follower) -> None:
        now = self._clock()
        if now - self._looked > LOOK:
            self._clients, self._looked = self._observer.clients(), now
        rounds = self._rounds
        match rounds.next(now, *self._clients):
            case Publish(version=version):
                self._publish(sender, version)
            case Wait(seconds=seconds):
                record = heard.poll(min(max(seconds, 0.05), LOOK))
                if record is not None:
                    self._hear(sender, record)
                else:
                    self._miss(heard)
            case Extend(version=version):
                self._write(sender, type="extended", version=version)
            case Close(version=version, clients=clients):
                self._write(sender, type="closed", version=version, clients=list(clients))
            case Aggregate(version=version, updates=updates):
                self._aggregate(sender, version, updates)
            case Ask(clients=clients):
                control = self._control(parse_ranges(self._sent), rounds.version, test=True)
                self._tell(sender, control)
                self._write(sender, type="asked", clients=list(clients))
            case Finish(version=version):
                where = self._observer.publish(self._current, rounds)
                self._write(sender, type="finished", version=version, model_ref=where)
            case Fail(why=why):
                self._write(sender, type="failed", why=why)

    def _miss(self, heard: Follower) -> None:
        """A topic that is gone says nothing for ever: look, now and then, that all are there."""
        if time.monotonic() - self._missed < TOPICS:
            return
        lost = heard.lost([topic.name for topic in self._names.own()])
        if lost:
            raise TopicLost(f"the broker has no {', '.join(lost)}")
        self._missed = time.monotonic()

    def _announce(self, sender: Sender) -> None:
        made = self._deployment
        message = ModelAnnouncement(
            made.input_shape,
            made.output_shape,
            self._names.federated_id,
            made.data_restriction,
            made.min_data,
            made.framework,
            incremental=made.incremental,
        )
        sender.send(self._names.announcements, message.encode())

    def _control(self, ranges: list[Range], version: int, *, test: bool = False) -> ModelControl:
        made = self._deployment
        return ModelControl(
            ranges,
            sent_version(version, made.rounds.rounds),
            made.training_settings,
            made.architecture,
            made.compile_args,
            made.framework,
            test,
        )

    def _tell(self, sender: Sender, control: ModelControl) -> None:
        key = self._deployment.result_id.encode()
        sender.send(self._names.model_control, control.encode(), key=key)

    def _publish(self, sender: Sender, version: int) -> None:
        arrays = self._current
        if not self._sent:
            self._sent = str(sender.send_weights(self._names.model_data, arrays))
        self._tell(sender, self._control(parse_ranges(self._sent), version))
        digest = _digest(arrays)
        self._write(sender, type="published", version=version, range=self._sent, digest=digest)

    # -- updates ---------------------------------------------------------------------------------

    def _hear(self, sender: Sender, record: Record) -> None:
        """Write down what came of a message, once."""
        try:
            client = client_of_key(self._names.federated_id, record.key)
        except MessageError as error:
            self._ignore(sender, record, "", str(error))
            return
        try:
            test = ClientTest.decode(record.value)
            if test is not None:
                self._hear_test(sender, record, client, test)
                return
            message = ClientControl.decode(record.value)
        except MessageError as error:
            self._ignore(sender, record, client, str(error))
            return
        version = answer_version(message.version, self._deployment.rounds.rounds)
        known = self._clients[0]
        if client not in known:
            # it may have come just now
            self._clients, self._looked = self._observer.clients(), self._clock()
            known = self._clients[0]
        why = self._rounds.refusal(client, version, known)
        unfit = "" if why else self._unfit(client, message)
        if why or unfit:
            self._ignore(sender, record, client, why or unfit, version, unfit=bool(unfit))
            return
        self._write(
            sender,
            type="update",
            client=client,
            version=version,
            range=ranges_text(message.weights),
            num_data=message.num_data,
            metrics=message.metrics,
            tests=message.tests,
            offset=record.offset,
        )

    def _hear_test(self, sender: Sender, record: Record, client: str, message: ClientTest) -> None:
        why = self._rounds.test_refusal(client)
        if why:
            self._ignore(sender, record, client, why)
            return
        self._write(
            sender,
            type="tested",
            client=client,
            samples=message.samples,
            metrics=message.metrics,
            matrix=message.matrix,
            offset=record.offset,
        )

    def _ignore(
        self,
        sender: Sender,
        record: Record,
        client: str,
        why: str,
        version: int = 0,
        *,
        unfit: bool = False,
    ) -> None:
        logger.warning("a message of %s does not count: %s", client or "somebody", why)
        self._observer.remark(client, why)
        self._write(
            sender,
            type="ignored",
            client=client,
            version=version,
            why=why[:500],
            unfit=unfit,
            offset=record.offset,
        )

    def _unfit(self, client: str, message: ClientControl) -> str:
        """Why the weights of an update are none; they are read once here, and not kept."""
        own = self._names.client_data(client)
        if any(wanted.topic != own for wanted in message.weights):
            return f"its weights are not in its own topic {own}"
        if len(message.weights) > PIECES:
            return f"its weights are in {len(message.weights)} ranges, at most {PIECES} are read"
        try:
            # what it names was stored before it was named: nobody waits for more
            check(self._access, message.weights)
            self._read(message.weights, self._fit)
        except (WeightsError, TopicLost) as error:
            return str(error)
        return ""

    def _fit(self, place: int, array: Array) -> None:
        if place >= len(self._layout):
            raise WeightsError(f"the model has {len(self._layout)} arrays")
        shape, dtype = self._layout[place]
        if array.shape != shape or array.dtype != dtype:
            raise WeightsError(
                f"array {place} is {array.dtype}{list(array.shape)}, not {dtype}{list(shape)}"
            )
        if array.dtype.kind == "f" and not is_finite(np.ascontiguousarray(array).reshape(-1)):
            raise WeightsError(f"array {place} holds a NaN or an infinity")

    def _read(self, ranges: Sequence[Range], take: Callable[[int, Array], None]) -> None:
        reader = WeightsReader(limit=self._bytes, legacy=self._deployment.legacy, take=take)
        for record in read(self._access, ranges, patience=60.0, ahead=SPARING):
            reader.add(record.key, record.value, record.headers)
        reader.finish(len(self._layout))

    def _arrays(self, ranges: Sequence[Range], *, free: bool = False) -> list[Array]:
        found: dict[int, Array] = {}
        reader = WeightsReader(
            limit=self._bytes * 4, legacy=self._deployment.legacy, take=found.__setitem__
        )
        for record in read(self._access, ranges, ahead=SPARING):
            reader.add(record.key, record.value, record.headers)
        reader.finish(len(found) if free else len(self._layout))
        return [found[place] for place in range(len(found))]

    # -- the next version ------------------------------------------------------------------------

    def _aggregate(
        self, sender: Sender, version: int, updates: Sequence[Mapping[str, Any]]
    ) -> None:
        began = time.monotonic()
        try:
            made = self._made(version, updates)
        except NothingCounts:
            self._current = self._current or self._arrays(parse_ranges(self._sent))
            self._write(sender, type="dropped", version=version)
            return
        except AggregationFailed as error:
            self._write(sender, type="failed", why=f"version {version} cannot be made: {error}")
            return
        self._sent = str(sender.send_weights(self._names.model_data, made.arrays))
        state = ""
        if made.state is not None:
            kept = [tensor.array for tensor in made.state]
            state = str(sender.send_weights(self._names.state_data, kept))
        self._current, self._state = made.arrays, made.state
        self._write(
            sender,
            type="aggregated",
            version=version,
            range=self._sent,
            state=state,
            digest=_digest(made.arrays),
            samples=sum(int(update["num_data"]) for update in made.counted),
            metrics=merged(made.counted),
            seconds=round(time.monotonic() - began, 3),
            at=self._clock(),
        )

    def _made(self, version: int, updates: Sequence[Mapping[str, Any]]) -> Made:
        """Make the next version of the model; raises AggregationFailed."""
        rule = self._deployment.rule()

        def read(update: Mapping[str, Any], take: Callable[[int, Array], None]) -> None:
            try:
                self._read(parse_ranges(update["range"]), take)
            except (WeightsError, TopicLost) as error:
                # it was good when it came: what its client did to it since is its own loss
                raise UpdateRejected(str(error)) from error

        mixes = self._deployment.rounds.mode == "async"
        if by_array(rule) and not mixes:
            # whoever fails now reads it from its topic when it starts again
            self._current = []
            return fold(rule, updates, len(self._layout), read, self._observer.remark)
        return whole(
            rule,
            updates,
            self._current,
            self._state,
            read,
            self._observer.remark,
            stale=(lambda update: version - int(update["version"])) if mixes else None,
        )


def _digest(arrays: Sequence[Array]) -> str:
    """Of shapes, types and values."""
    out = hashlib.sha256()
    for array in arrays:
        out.update(f"{array.dtype.str}{array.shape}".encode())
        out.update(np.ascontiguousarray(array).data)
    return f"sha256:{out.hexdigest()}"


def merged(updates: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """The last value of every metric, weighted by the clients' numbers of samples."""
    sums: dict[tuple[str, str], list[float]] = {}
    for update in updates:
        message = update.get("metrics")
        for part in ("training", "validation"):
            found = message.get(part) if isinstance(message, Mapping) else None
            for name, values in found.items() if isinstance(found, Mapping) else ():
                value = values[-1] if isinstance(values, list) and values else values
                if isinstance(value, int | float) and math.isfinite(value):
                    total = sums.setdefault((part, str(name)), [0.0, 0.0, 0])
                    total[0] += float(value) * int(update["num_data"])
                    total[1] += int(update["num_data"])
                    total[2] += 1
    out: dict[str, dict[str, float]] = {"training": {}, "validation": {}}
    # those that most updates have: nobody's own names fill the log and the status
    for (part, name), row in sorted(sums.items(), key=lambda each: -each[1][2]):
        total_value, weight, _ = row
        if len(out[part]) < NAMES:
            out[part][name] = total_value / weight
    return out
