"""A client: reads its data, trains every version of the model it is told of, sends what it learnt.

The model's own code runs in a confined process, which has the data and the weights as files and
nothing else. A client that was killed begins again with the newest version; what it has sent twice
counts once.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from corral.podtools.kafka.client import (
    LARGEST,
    Access,
    Follower,
    KafkaError,
    Sender,
    Topic,
    TopicLost,
    check,
    ends,
    ensure,
    read,
)
from corral.podtools.kafka.messages import (
    SECONDS,
    ClientControl,
    ClientTest,
    MessageError,
    ModelControl,
    client_key,
)
from corral.podtools.kafka.names import Names
from corral.podtools.kafka.ranges import Range, parse_ranges
from corral.podtools.kafka.records import RecordError, decoder, labelled
from corral.podtools.kafka.weights import WeightsError
from corral.podtools.kafka.weights import read_weights as weights_of
from corral.podtools.kafkaml.rounds import LAST
from corral.podtools.kafkaml.streams import Stream, read_so_far, readable, seconds
from corral.podtools.models.inside import read_weights, write_weights
from corral.podtools.models.workshop import WorkError, Workshop

__all__ = ["Client", "ClientError", "ClientSettings"]

logger = logging.getLogger(__name__)

Array = NDArray[Any]
MODEL_LIMIT: Final = 1 << 34
"""Bytes of a model's weights that a client takes."""
_LAST_RANK: Final = sys.float_info.max
_INCREMENTAL: Final = ("2", "4")
"""Cases of clients whose data goes on."""


class ClientError(Exception):
    """The client cannot do its part; one line that says why."""


class Silence(ClientError):
    """The server has said nothing for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What the environment says (the contract's variables)."""

    names: Names
    client: str
    cloud: Access
    data: Access
    topic: str
    """Ranges, or the name of a topic."""
    input_format: str = "RAW"
    input_config: Mapping[str, Any] = field(default_factory=dict)
    validation_rate: float = 0.0
    test_rate: float = 0.0
    total: int | None = None
    unlabelled: str = ""
    """Ranges of data without labels."""
    incremental: bool = False
    """The topic goes on: every update is of what has come since the last one."""
    source: Path | None = None
    """The folder with the model's code, for models that travel as code."""
    idle: float = 3600.0
    """Seconds without a word from the server after which it gives up."""
    train_seconds: int = 3600
    memory: int = 8 << 30
    legacy: bool = False

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> ClientSettings:
        """Raises ClientError for what is missing or cannot be meant."""
        try:
            source = env.get("KAFKAML_MODEL_CODE_DIR")
            total = env.get("TOTAL_MSG", "").strip()
            return cls(
                names=Names.of(_needed(env, "FEDERATED_MODEL_ID"), env.get("KAFKAML_TOPICS", "")),
                client=_needed(env, "FEDERATED_CLIENT_ID"),
                cloud=Access.from_environment(env, "KML_CLOUD_BOOTSTRAP_SERVERS"),
                data=Access.from_environment(env, "DATA_BOOTSTRAP_SERVERS", login="DATA_KAFKA"),
                topic=_needed(env, "DATA_TOPIC"),
                input_format=env.get("INPUT_FORMAT") or "RAW",
                input_config=json.loads(env.get("INPUT_CONFIG") or "{}"),
                validation_rate=float(env.get("VALIDATION_RATE") or 0),
                test_rate=float(env.get("TEST_RATE") or 0),
                total=int(total) if total and total != "None" else None,
                unlabelled=_ranges_of(env.get("UNSUPERVISED_TOPIC")),
                incremental=env.get("CASE", "").strip() in _INCREMENTAL,
                source=Path(source) if source else None,
                idle=float(env.get("KAFKAML_IDLE_SECONDS") or 3600),
                train_seconds=int(env.get("KAFKAML_TRAIN_SECONDS") or 3600),
                memory=int(env.get("KAFKAML_TRAIN_MEMORY") or 8 << 30),
                legacy=env.get("KAFKAML_LEGACY_WEIGHTS") == "true",
            )
        except (ValueError, KafkaError) as error:
            raise ClientError(f"the environment cannot be used: {error}") from error


def _ranges_of(text: str | None) -> str:
    """A topic that may be said to be none."""
    return "" if text is None or text.strip() in ("", "None", "null") else text.strip()


def _needed(env: Mapping[str, str], name: str) -> str:
    value = env.get(name, "").strip()
    if not value:
        raise ClientError(f"{name} is not set")
    return value


class Client:
    """One client of one deployment."""

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._names = settings.names
        self._own = self._names.client_data(settings.client)
        self._samples = 0
        self._tests = 0
        """Samples that are kept to test the final model with."""
        self._reached = ""
        """Of a stream: how far it was read for the update that is made."""
        self._done = -math.inf
        """The newest version that was trained (`_rank`)."""

    def run(self) -> int:
        """Until the last round; how many updates were sent. Raises ClientError."""
        try:
            with (
                tempfile.TemporaryDirectory(prefix="corral-client-") as folder,
                Workshop(
                    Path(folder),
                    seconds=self._settings.train_seconds,
                    memory=self._settings.memory,
                ) as workshop,
            ):
                return self._run(workshop)
        except (KafkaError, RecordError) as error:
            raise ClientError(str(error)) from error

    def _run(self, workshop: Workshop) -> int:
        settings = self._settings
        if not settings.incremental:
            self._load(workshop.given)
        ensure(settings.cloud, [Topic(self._own, LARGEST)])
        for topic in (self._names.model_control, self._names.client_control):
            ends(settings.cloud, topic, patience=settings.idle)  # the server makes them
        sent = 0
        with (
            self._stream() as stream,
            Sender(settings.cloud) as sender,
            Follower(settings.cloud, self._names.model_control) as heard,
        ):
            while True:
                try:
                    control, weights = self._newest(heard)
                except Silence:
                    if self._done < _LAST_RANK:
                        raise
                    return sent  # nobody wants the model tested
                if control.test:
                    self._test(control, weights, workshop, sender)
                    return sent
                if stream is not None:
                    if not self._gather(stream, control, workshop.given):
                        return sent  # its data has come to an end
                    control, weights = self._newer(heard, control, weights)
                self._train(control, weights, workshop, sender)
                sent, self._done = sent + 1, _rank(control)
                if control.version == LAST and not self._tests:
                    return sent

    # -- data ------------------------------------------------------------------------------------

    def _ranges(self) -> list[Range]:
        settings = self._settings
        if ":" in settings.topic:
            return parse_ranges(settings.topic)
        return ends(settings.data, settings.topic)

    def _load(self, given: Path) -> None:
        settings = self._settings
        ranges = self._ranges()
        records = ((r.key, r.value) for r in read(settings.data, ranges))
        if settings.total is not None:
            records = (record for _, record in zip(range(settings.total), records, strict=False))
        x, y = labelled(records, settings.input_format, settings.input_config)
        if settings.unlabelled:
            self._load_unlabelled(given)
        total = len(x)
        train = int((1 - settings.validation_rate - settings.test_rate) * total)
        if train < 1:
            raise ClientError(f"of {total} records none is left to train on")
        checked = train + int(settings.validation_rate * total)
        self._split(given, x, y, train, checked)
        self._tests = total - checked if settings.test_rate else 0
        logger.info("%d records: %d to train on", total, train)

    def _split(self, given: Path, x: Array, y: Array, train: int, checked: int) -> None:
        np.save(given / "train_x.npy", x[:train])
        np.save(given / "train_y.npy", y[:train])
        np.save(given / "validation_x.npy", x[train:checked])
        np.save(given / "validation_y.npy", y[train:checked])
        np.save(given / "test_x.npy", x[checked:])
        np.save(given / "test_y.npy", y[checked:])
        self._samples = len(x)
        self._validates = checked > train

    def _load_unlabelled(self, given: Path) -> None:
        settings = self._settings
        decode = decoder(settings.input_format, settings.input_config, "data")
        found = read(settings.data, parse_ranges(settings.unlabelled))
        samples = [decode(record.value or b"") for record in found]
        if samples:
            np.save(given / "unlabelled.npy", np.stack(samples))
            logger.info("%d records without labels", len(samples))

    def _stream(self) -> AbstractContextManager[Stream | None]:
        settings = self._settings
        if not settings.incremental:
            return nullcontext()
        key = client_key(self._names.federated_id, settings.client)
        controls = read(settings.cloud, ends(settings.cloud, self._names.client_control))
        reached = read_so_far(((r.key, r.value) for r in controls), key, settings.topic)
        return Stream(settings.data, settings.topic, positions=reached, patience=settings.idle)

    def _gather(self, stream: Stream, control: ModelControl, given: Path) -> bool:
        """Have something to train on; whether there is any."""
        fields, settings = control.training_settings, self._settings
        silence = seconds(fields.get("stream_timeout"))
        while found := stream.gather(least=int(fields.get("batch") or 32), silence=silence):
            made = readable(found, settings.input_format, settings.input_config)
            if made is not None:
                x, y = made
                train = max(int((1 - settings.validation_rate) * len(x)), 1)
                self._split(given, x, y, train, len(x))
                self._reached = stream.reached
                logger.info("%d records have come: %d to train on", len(x), train)
                return True
        return False

    # -- versions --------------------------------------------------------------------------------

    def _newer(
        self, heard: Follower, control: ModelControl, weights: list[Array]
    ) -> tuple[ModelControl, list[Array]]:
        """What the server has told of while there was nothing to train on, or what was there."""
        try:
            return self._newest(heard, idle=0.0)
        except Silence:
            return control, weights

    def _newest(
        self, heard: Follower, *, idle: float | None = None
    ) -> tuple[ModelControl, list[Array]]:
        """The newest version that the server has told of, with its weights; waits for one.

        Messages may come twice and in any order; one whose weights are none is left out.
        """
        patience = self._settings.idle if idle is None else idle
        until = time.monotonic() + patience
        controls: list[ModelControl] = []
        while True:
            record = heard.poll(0.3 if controls else 1.0)
            if record is None:
                for control in sorted(controls, key=_rank, reverse=True):
                    weights = self._weights(control)
                    if weights is not None:
                        return control, weights
                controls = []
                if time.monotonic() > until:
                    raise Silence(
                        f"the server has said nothing on {self._names.model_control} "
                        f"for {patience:g} s"
                    )
                continue
            try:
                control = ModelControl.decode(record.value)
                if control.version < LAST:
                    raise MessageError(f"there is no version {control.version}")
            except MessageError as error:
                logger.warning("message %d is left out: %s", record.offset, error)
                continue
            if _rank(control) > self._done and (self._tests or not control.test):
                controls.append(control)

    def _weights(self, control: ModelControl) -> list[Array] | None:
        """The weights that a message names; none where they are no such thing."""
        own = self._names.model_data
        try:
            if any(wanted.topic != own for wanted in control.weights):
                raise WeightsError(f"its weights are not in {own}")
            check(self._settings.cloud, control.weights)
            messages = (
                (record.key, record.value, record.headers)
                for record in read(self._settings.cloud, control.weights)
            )
            found = weights_of(messages, limit=MODEL_LIMIT, legacy=self._settings.legacy)
            if not found:
                raise WeightsError("it names no weights")
            return found
        except (WeightsError, TopicLost) as error:
            logger.warning("version %d is left out: %s", control.version, error)
            return None

    def _train(
        self, control: ModelControl, weights: list[Array], workshop: Workshop, sender: Sender
    ) -> None:
        begun = time.monotonic()
        out = self._made("train", control, weights, workshop)
        with _left("training"):
            found = read_weights(out / "weights.safetensors")
            pairs = zip(found, weights, strict=True)
            learnt = [np.asarray(array, dtype=before.dtype) for array, before in pairs]
            metrics = dict(json.loads((out / "metrics.json").read_text()))
        metrics[SECONDS] = round(time.monotonic() - begun, 3)
        where = sender.send_weights(self._own, learnt)
        version = LAST if control.version == LAST else control.version + 1
        message = ClientControl(
            [where], version, self._samples, metrics, self._tests > 0, self._reached
        )
        self._say(sender, message.encode())
        logger.info("version %d is trained: %s", control.version, json.dumps(metrics))

    def _test(
        self, control: ModelControl, weights: list[Array], workshop: Workshop, sender: Sender
    ) -> None:
        out = self._made("test", control, weights, workshop)
        with _left("a test"):
            found = json.loads((out / "test.json").read_text())
            message = ClientTest(self._tests, found["metrics"], found["matrix"]).encode()
        self._say(sender, message)
        logger.info("the model is tested: %s", json.dumps(found["metrics"]))

    def _say(self, sender: Sender, message: bytes) -> None:
        key = client_key(self._names.federated_id, self._settings.client)
        sender.send(self._names.client_control, message, key=key)

    def _made(
        self,
        what: Literal["train", "test"],
        control: ModelControl,
        weights: list[Array],
        workshop: Workshop,
    ) -> Path:
        """The folder with what came of a version."""
        write_weights(workshop.given / "weights.safetensors", weights)
        self._plan(control, workshop.given)
        try:
            return workshop.do(what)
        except WorkError as error:
            raise ClientError(f"{what}ing version {control.version} failed: {error}") from error

    def _plan(self, control: ModelControl, given: Path) -> None:
        fields = control.training_settings
        options = fields.get("kwargs_fit")
        source = self._settings.source
        if source is not None and not (given / "source").exists():
            shutil.copytree(source, given / "source", symlinks=False)
        plan = {
            "framework": control.framework,
            "architecture": control.architecture,
            "compile_args": dict(control.compile_args),
            "batch": int(fields.get("batch") or 32),
            "options": options if isinstance(options, dict) else {},
            "seed": _seed(self._settings.client, control.version),
            "validation": self._validates,
        }
        if fields.get("unsupervised") and (given / "unlabelled.npy").exists():
            plan["unsupervised_rounds"] = int(fields.get("unsupervised_rounds") or 5)
            plan["confidence"] = float(fields.get("confidence") or 0.9)
        (given / "plan.json").write_text(json.dumps(plan))


@contextmanager
def _left(what: str) -> Iterator[None]:
    """While what a model's own process has left is read: it may be anything."""
    try:
        yield
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ClientError(f"what {what} left cannot be used: {error}") from error


def _rank(control: ModelControl) -> float:
    """Newer ones have more, the last more than all, and what is only tested most."""
    if control.test:
        return math.inf
    return _LAST_RANK if control.version == LAST else control.version


def _seed(client: str, version: int) -> int:
    """The same for the same client and version, whoever asks and how often."""
    return int.from_bytes(hashlib.sha256(f"{client} {version}".encode()).digest()[:4], "big")
