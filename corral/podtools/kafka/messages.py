"""The messages of federated learning over Kafka, as they are on the wire.

Control messages are JSON objects. Readers take what others have always sent (texts where there
should be objects, absent fields, unknown ones) and refuse what cannot be meant, with a reason.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from corral.podtools.kafka.ranges import Range, parse_ranges, ranges_text

__all__ = [
    "CLASSES",
    "CONTROL",
    "SECONDS",
    "ClientControl",
    "ClientTest",
    "DataControl",
    "Matrix",
    "MessageError",
    "ModelAnnouncement",
    "ModelControl",
    "client_key",
    "client_of_key",
]

LARGEST: Final = 50_000_000
"""Bytes of a control message that is read at all."""
SAMPLES: Final = 1 << 40
"""More than any client has: sums of such numbers are exact."""
LARGEST_NUMBER: Final = 10**18 - 1
"""What can be counted with, and written down: Python has numbers that it does not print."""
LARGEST_METRIC: Final = 1e200
METRICS: Final = 1000
"""Values of a metric that are taken from a client."""
NAMES: Final = 32
"""Metrics that are taken from a client: the first ones."""
LONGEST_NAME: Final = 64
CLASSES: Final = 100
"""The most classes that a confusion matrix has: it must fit a message and a status."""
Matrix: TypeAlias = list[list[int]]
"""A row for each class that samples are of, a column for each that they were taken for."""
CONTROL: Final = 45_000
"""Bytes of a client's message: topics for them take 50,000, with its key and frame."""
SECONDS: Final = "training_seconds"
"""Beside a client's metrics: how long it has trained."""


class MessageError(ValueError):
    """A message that cannot be meant; one line that says why."""


def _object(data: bytes | None, what: str) -> dict[str, Any]:
    if not data:
        raise MessageError(f"{what}: it is empty")
    if len(data) > LARGEST:
        raise MessageError(f"{what}: it is larger than {LARGEST} bytes")
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageError(f"{what}: it is no JSON: {error}") from error
    if not isinstance(value, dict):
        raise MessageError(f"{what}: it is no JSON object")
    return value


def _nested(value: Any, what: str) -> dict[str, Any]:
    """An object, or the text of one: both have been sent."""
    if value in (None, ""):
        return {}
    if isinstance(value, str):
        return _object(value.encode(), what)
    if isinstance(value, dict):
        return value
    raise MessageError(f"{what}: it is no JSON object")


def _ranges(value: Any, what: str) -> list[Range]:
    if not isinstance(value, str):
        raise MessageError(f"{what}: `topic` is no text")
    try:
        return parse_ranges(value)
    except ValueError as error:
        raise MessageError(f"{what}: {error}") from error


def _whole(fields: Mapping[str, Any], key: str, what: str) -> int:
    value = fields.get(key)
    if isinstance(value, bool) or not isinstance(value, int):
        raise MessageError(f"{what}: `{key}` is no whole number")
    if abs(value) > LARGEST_NUMBER:
        raise MessageError(f"{what}: `{key}` is a number of more than 18 digits")
    return value


# --- the server to the clients -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelControl:
    """A version of the model: where its weights are, what it is, how to train it."""

    weights: list[Range]
    version: int
    training_settings: Mapping[str, Any]
    architecture: str
    compile_args: Mapping[str, Any]
    framework: str = "tf"
    test: bool = False
    """It is the final one, and is to be tested instead of trained."""

    def encode(self) -> bytes:
        fields = {
            "topic": ranges_text(self.weights),
            "version": self.version,
            "training_settings": dict(self.training_settings),
            "model_architecture": self.architecture,
            "model_compile_args": dict(self.compile_args),
            "framework": self.framework,
        }
        if self.test:
            fields["test"] = True
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> ModelControl:
        what = "model control"
        fields = _object(data, what)
        architecture = fields.get("model_architecture")
        if isinstance(architecture, dict):
            architecture = json.dumps(architecture)
        return cls(
            _ranges(fields.get("topic"), what),
            _whole(fields, "version", what),
            _nested(fields.get("training_settings"), what),
            architecture if isinstance(architecture, str) else "",
            _nested(fields.get("model_compile_args"), what),
            str(fields.get("framework") or "tf"),
            fields.get("test") is True,
        )


@dataclass(frozen=True, slots=True)
class ModelAnnouncement:
    """A model that looks for data."""

    input_shape: str
    output_shape: str
    federated_string_id: str
    data_restriction: Mapping[str, Any] = field(default_factory=dict)
    min_data: int = 0
    framework: str = "tf"
    distributed: bool = False
    incremental: bool = False

    def encode(self) -> bytes:
        return json.dumps(
            {
                "model_format": {
                    "input_shape": self.input_shape,
                    "output_shape": self.output_shape,
                },
                "federated_params": {
                    "federated_string_id": self.federated_string_id,
                    # a text, as it has always been
                    "data_restriction": json.dumps(dict(self.data_restriction)),
                    "min_data": self.min_data,
                },
                "framework": self.framework,
                "distributed": self.distributed,
                "incremental": self.incremental,
            }
        ).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> ModelAnnouncement:
        what = "model announcement"
        fields = _object(data, what)
        format_ = _nested(fields.get("model_format"), what)
        params = _nested(fields.get("federated_params"), what)
        return cls(
            str(format_.get("input_shape") or ""),
            str(format_.get("output_shape") or ""),
            str(params.get("federated_string_id") or ""),
            _nested(params.get("data_restriction"), what),
            _whole(params, "min_data", what),
            str(fields.get("framework") or "tf"),
            bool(fields.get("distributed")),
            bool(fields.get("incremental")),
        )


# --- the clients to the server -------------------------------------------------------------------


def client_key(federated_id: str, client: str) -> bytes:
    return f"FED-MODEL-{federated_id}-CLIENT-{client}".encode()


def client_of_key(federated_id: str, key: bytes | None) -> str:
    """Who sent a client control message. Raises MessageError."""
    before = f"FED-MODEL-{federated_id}-CLIENT-"
    text = (key or b"").decode(errors="replace")
    if not text.startswith(before) or len(text) == len(before):
        raise MessageError(f"client control: its key {text[:200]!r} names no client")
    return text.removeprefix(before)


@dataclass(frozen=True, slots=True)
class ClientControl:
    """A client's update: where its weights are, and what it was made of."""

    weights: list[Range]
    version: int
    """One more than what it began from; -1 in the last round."""
    num_data: int
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """By part and name; `SECONDS` beside the parts."""
    tests: bool = False
    """It has data to test the final model with, and waits for it."""
    data: str = ""
    """Of a stream: how far it was read for this update, as ranges from the first message on."""

    def encode(self) -> bytes:
        fields = {
            "topic": ranges_text(self.weights),
            "version": self.version,
            "metrics": dict(self.metrics),
            "num_data": self.num_data,
        }
        if self.tests:
            fields["tests"] = True
        if self.data:
            fields["data"] = self.data
        data = json.dumps(fields).encode()
        if len(data) > CONTROL:
            # thousands of epochs: the last ones say what came of them
            data = json.dumps({**fields, "metrics": _shortened(self.metrics)}).encode()
        return data

    @classmethod
    def decode(cls, data: bytes | None) -> ClientControl:
        what = "client control"
        fields = _object(data, what)
        number = _whole(fields, "num_data", what)
        if number < 1:
            raise MessageError(f"{what}: `num_data` is {number}: an update of nothing")
        if number > SAMPLES:
            raise MessageError(f"{what}: `num_data` is more than {SAMPLES}: nobody has so much")
        return cls(
            _ranges(fields.get("topic"), what),
            _whole(fields, "version", what),
            number,
            _metrics(_nested(fields.get("metrics"), what)),
            fields.get("tests") is True,
            fields["data"] if isinstance(fields.get("data"), str) else "",
        )


def _shortened(metrics: Mapping[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = dict(metrics)
    for part, found in metrics.items():
        if isinstance(found, Mapping):
            kept = list(found.items())[:NAMES]
            out[part] = {name: v[-5:] if isinstance(v, list) else v for name, v in kept}
    return out


def _metrics(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What is a number by a name, or a list of them; the rest is nobody's measure."""
    out: dict[str, Any] = {part: _named(fields.get(part)) for part in ("training", "validation")}
    seconds: Any = fields.get(SECONDS)
    if _is_number(seconds) and seconds >= 0:
        out[SECONDS] = seconds
    return out


def _named(found: Any) -> dict[str, Any]:
    rows = list(found.items()) if isinstance(found, Mapping) else []
    kept = {
        # what is no text goes through no status: half a character, line ends, terminal sequences
        name: _measured(value)
        for name, value in rows
        if len(name) <= LONGEST_NAME and name.isprintable()
    }
    return dict([row for row in kept.items() if row[1] is not None][:NAMES])


def _measured(value: Any) -> float | list[float] | None:
    if isinstance(value, list):
        found = [number for number in value[:METRICS] if _is_number(number)]
        return found or None
    return value if _is_number(value) else None


def _is_number(value: Any) -> bool:
    """Finite, and small enough to be summed."""
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -LARGEST_METRIC < value < LARGEST_METRIC
    )


@dataclass(frozen=True, slots=True)
class ClientTest:
    """What a client found when it tested the final model on data of its own."""

    samples: int
    metrics: Mapping[str, Any]
    matrix: Matrix | None = None

    def encode(self) -> bytes:
        fields: dict[str, Any] = {"samples": self.samples, "metrics": dict(self.metrics)}
        rows = json.dumps(self.matrix, separators=(",", ":"))
        if self.matrix and len(rows) < CONTROL - 10_000:
            fields["confusion_matrix"] = self.matrix
        return json.dumps({"test": fields, "version": -1}, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> ClientTest | None:
        """None where the message is another one. Raises MessageError."""
        what = "client test"
        fields = _object(data, what).get("test")
        if not isinstance(fields, dict):
            return None
        samples = _whole(fields, "samples", what)
        if not 0 < samples <= SAMPLES:
            raise MessageError(f"{what}: `samples` is {samples}")
        return cls(
            samples,
            _named(_nested(fields.get("metrics"), what)),
            _matrix(fields.get("confusion_matrix"), what),
        )


def _matrix(found: Any, what: str) -> Matrix | None:
    if found is None:
        return None
    rows = found if isinstance(found, list) else []
    square = 0 < len(rows) <= CLASSES and all(
        isinstance(row, list) and len(row) == len(rows) for row in rows
    )
    if not square or not all(type(n) is int and 0 <= n <= SAMPLES for row in rows for n in row):
        raise MessageError(f"{what}: `confusion_matrix` is no square of numbers of samples")
    return rows


# --- data ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DataControl:
    """Data that is there to be trained on."""

    topic: str
    """Ranges; the plain name of a topic where it goes on (`incremental`)."""
    input_format: str
    input_config: Mapping[str, Any]
    total_msg: int | None
    validation_rate: float = 0.0
    test_rate: float = 0.0
    unsupervised_topic: str | None = None
    description: str = ""
    dataset_restrictions: Mapping[str, Any] = field(default_factory=dict)
    incremental: bool = False
    federated_string_id: str = ""
    client_id: str = ""

    def encode(self) -> bytes:
        fields: dict[str, Any] = {
            "topic": self.topic,
            "unsupervised_topic": self.unsupervised_topic,
            "input_format": self.input_format,
            "description": self.description,
            "dataset_restrictions": json.dumps(dict(self.dataset_restrictions)),
            "input_config": dict(self.input_config),
            "validation_rate": self.validation_rate,
            "test_rate": self.test_rate,
            "total_msg": self.total_msg,
            "incremental": self.incremental,
        }
        if self.federated_string_id:
            fields["federated_string_id"] = self.federated_string_id
        if self.client_id:
            fields["client_id"] = self.client_id
        return json.dumps(fields).encode()

    @classmethod
    def decode(cls, data: bytes | None) -> DataControl:
        what = "data control"
        fields = _object(data, what)
        topic = fields.get("topic")
        incremental = bool(fields.get("incremental"))
        if not isinstance(topic, str) or not topic:
            raise MessageError(f"{what}: `topic` is no text")
        if not incremental:
            _ranges(topic, what)
        unlabelled = fields.get("unsupervised_topic") or None
        if unlabelled is not None and not isinstance(unlabelled, str):
            raise MessageError(f"{what}: `unsupervised_topic` is no text")
        return cls(
            topic,
            str(fields.get("input_format") or "RAW"),
            _nested(fields.get("input_config"), what),
            None if fields.get("total_msg") is None else _whole(fields, "total_msg", what),
            _share(fields, "validation_rate", what),
            _share(fields, "test_rate", what),
            unlabelled,
            str(fields.get("description") or ""),
            _nested(fields.get("dataset_restrictions"), what),
            incremental,
            str(fields.get("federated_string_id") or ""),
            str(fields.get("client_id") or ""),
        )

    def spec(self) -> dict[str, Any]:
        """The spec of a Datasource that says the same."""
        out: dict[str, Any] = {
            "topic": self.topic,
            "inputFormat": self.input_format,
            "inputConfig": dict(self.input_config),
            "description": self.description[:1024],
            "datasetRestrictions": dict(self.dataset_restrictions),
            "validationRate": self.validation_rate,
            "testRate": self.test_rate,
            "incremental": self.incremental,
        }
        if self.total_msg is not None:
            out["totalMsg"] = self.total_msg
        if self.unsupervised_topic:
            out["unsupervisedTopic"] = self.unsupervised_topic
        if self.client_id:
            out["clientId"] = self.client_id
        if self.federated_string_id:
            out["federatedStringId"] = self.federated_string_id
        return out


def _share(fields: Mapping[str, Any], key: str, what: str) -> float:
    value = fields.get(key) or 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise MessageError(f"{what}: `{key}` is no share of 0 to 1")
    return float(value)
