"""One client against a deployment on Kafka: what it writes costs its own place alone."""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from corral.podtools.kafka.client import Access
from corral.podtools.kafka.messages import (
    ClientControl,
    MessageError,
    ModelControl,
    client_key,
)
from corral.podtools.kafka.weights import Part, WeightsError, WeightsReader
from corral.podtools.kafkaml.rounds import LAST, Rounds, RoundSettings
from corral.podtools.kafkaml.server import PROGRESS, DeploymentFolder, Report, judged
from corral.podtools.kafkaml.serving import PIECES, merged
from corral.podtools.models.answering import Answers
from tests.cluster.broker.broker_servers import OwnBroker
from tests.cluster.kafkaml.deployments import Audience, Deployments, model
from tests.cluster.kafkaml.scripted import Scripted


def npy(header: bytes, body: bytes = b"", version: int = 1) -> bytes:
    length = struct.pack("<H" if version == 1 else "<I", len(header))
    return b"\x93NUMPY" + bytes([version, 0]) + length + header + body


def shaped(shape: str) -> bytes:
    return npy(f"{{'descr':'<f8','fortran_order':False,'shape':{shape}}}".encode())


LIES: dict[str, tuple[bytes, list[tuple[str, bytes]]]] = {
    "a side of 2^70": (shaped(f"({1 << 70},)"), []),
    "sides that wrap around": (shaped("(4294967296, 4294967296)"), []),
    "a header of brackets": (npy(b"(" * 9000), []),
    "a longer header of brackets": (npy(b"(" * 9000, version=2), []),
    "a header of signs": (npy(b"-" * 9000 + b"1"), []),
    "a part of 10^5000": (b"x", [("chunk", b"0/" + b"9" * 5000)]),
}


@pytest.mark.attack(
    "rounds", "Sends arrays to Kafka whose headers lie", "They are no weights, and nothing breaks"
)
@pytest.mark.parametrize("lie", LIES)
def test_weights_that_lie(lie: str) -> None:
    value, headers = LIES[lie]
    reader = WeightsReader(limit=1 << 20, take=lambda place, array: None)
    with pytest.raises(WeightsError) as error:
        reader.add(b"\0", value, headers)
    assert len(str(error.value)) < 400


def control(**said: Any) -> bytes:
    whole = {"topic": "a:0:0:1", "version": 1, "num_data": 1, "metrics": {}, **said}
    return json.dumps(whole).encode()


@pytest.mark.attack(
    "rounds", "Says a version that Python counts with and does not print", "It is no message"
)
def test_numbers_that_cannot_be_said() -> None:
    digits = b"9" * 4300
    with pytest.raises(MessageError, match="more than 18 digits"):
        ClientControl.decode(control().replace(b'"version": 1', b'"version": -' + digits))


@pytest.mark.attack(
    "rounds", "Names a metric by half a character", "The status is told to the others as before"
)
def test_metrics_that_no_status_takes() -> None:
    names = {"\ud800": 1.0, "a\x1b[2J": 1.0, "a\nb": 1.0, "loss": 0.5}
    said = ClientControl.decode(control(metrics={"training": names}))
    assert said.metrics["training"] == {"loss": 0.5}
    orjson.loads(json.dumps(merged([{"metrics": said.metrics, "num_data": 1}])))


@pytest.mark.attack(
    "rounds", "Names metrics that nobody else has, by the thousand", "Those of most are kept"
)
def test_metrics_of_ones_own() -> None:
    liars = [
        {"metrics": {"training": {f"{n}-{m}": 1.0 for m in range(32)}}, "num_data": 1}
        for n in range(100)
    ]
    honest = [{"metrics": {"training": {"loss": 0.5}}, "num_data": 1}] * 2
    found = merged([*liars, *honest])["training"]
    assert found["loss"] == 0.5
    assert len(found) == 32


@pytest.mark.attack(
    "rounds", "Says 2^40 samples of its test", "Its figures weigh ten medians, as in training"
)
def test_a_count_of_a_test() -> None:
    tests = [
        {"samples": count, "metrics": {"loss": loss, "confusion_matrix": 1.0}, "matrix": None}
        for count, loss in ((1 << 40, 9.0), (10, 1.0), (10, 1.0))
    ]
    assert judged(tests) == {"loss": (9.0 * 100 + 20) / 120, "samples": 120}


@pytest.mark.attack(
    "rounds", "Writes messages under thousands of long names", "The report fits, and has the others"
)
def test_names_that_fill_the_report(tmp_path: Path) -> None:
    said = [{"clientId": name} for name in ("a", "b")]
    (tmp_path / "clients.json").write_text(json.dumps(said))
    report = Report(DeploymentFolder(tmp_path, 1), 1, tmp_path / "model", tmp_path)
    for number in range(5000):
        report.remark(f"{number}-" + "\ufffd" * 2000, "x" * 10_000)
    report.remark("b", "y" * 10_000)
    report.progress(Rounds(RoundSettings()))
    text = (tmp_path / "progress.json").read_text()
    assert len(text) <= PROGRESS
    assert json.loads(text)["clients"] == {"b": {"rejected": 1, "message": "y" * 500}}


@pytest.mark.attack(
    "rounds", "Answers with an array whose header lies", "That sample has no answer, others have"
)
@pytest.mark.parametrize("lie", [value for value, headers in LIES.values() if not headers])
def test_answers_that_lie(lie: bytes) -> None:
    answers = Answers.__new__(Answers)
    answers._seconds = 1.0
    answers._kept = _Says(lie)  # type: ignore[assignment]
    (why,) = answers.ask(np.zeros((1, 1)))
    assert str(why).startswith("its answer is no array")


class _Says:
    def __init__(self, answer: bytes) -> None:
        self._answer = answer

    def ask(self, *_: object, **__: object) -> bytes:
        return self._answer


# --- a whole deployment --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def access(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Access]:
    broker = OwnBroker(tmp_path_factory.mktemp("broker"))
    broker.start()
    yield Access(broker.client["bootstrap.servers"])
    broker.stop()


@pytest.fixture
def deployments(access: Access) -> Iterator[Deployments]:
    made = Deployments(access, uuid.uuid4().hex[:8])
    yield made
    made.stop()


def _raw(value: bytes, headers: Sequence[tuple[str, bytes]]) -> Callable[..., None]:
    def script(client: Scripted, said: ModelControl, arrays: Sequence[np.ndarray]) -> None:
        where = client.sender.send_all(client.own, [Part(b"\0", value, tuple(headers))])
        client.say(said.version, where)

    return script


def _numbers(client: Scripted, said: ModelControl, arrays: Sequence[np.ndarray]) -> None:
    value = control().replace(b'"version": 1', b'"version": -' + b"9" * 4300)
    key = client_key(client.names.federated_id, client.client)
    client.sender.send(client.names.client_control, value, key=key)


def _pieces(client: Scripted, said: ModelControl, arrays: Sequence[np.ndarray]) -> None:
    where = client.sender.send_weights(client.own, arrays)
    ranges = [where] * (PIECES + 1)
    key = client_key(client.names.federated_id, client.client)
    version = said.version if said.version == LAST else said.version + 1
    message = ClientControl(ranges, version, 1, {})
    client.sender.send(client.names.client_control, message.encode(), key=key)


SCRIPTS: dict[str, tuple[Callable[..., None], str]] = {
    "side": (_raw(*LIES["a side of 2^70"]), "is no .npy"),
    "brackets": (_raw(*LIES["a header of brackets"]), "is no .npy"),
    "part": (_raw(*LIES["a part of 10^5000"]), "is no part of an array"),
    "version": (_numbers, "more than 18 digits"),
    "pieces": (_pieces, f"at most {PIECES} are read"),
}


@pytest.mark.attack(
    "rounds", "Ends the server of a deployment with a message", "It goes on without that client"
)
@pytest.mark.parametrize("attempt", SCRIPTS)
def test_the_deployment_goes_on(deployments: Deployments, attempt: str) -> None:
    script, words = SCRIPTS[attempt]
    names, access = deployments.names, deployments.access
    told = Audience(["liar", "b", "c"])
    made = deployments.deployment(model(), rounds=1, at_least=3, k=2, timeout=60.0)
    serving = deployments.serve(made, model(), told)
    clients = [Scripted(access, names, "liar", step=1.0, script=script)]
    clients += [Scripted(access, names, name, step=1.0, script=_late(told)) for name in "bc"]
    try:
        rounds = serving.result(60)
    finally:
        for client in clients:
            client.end()
    assert (rounds.ended, rounds.history[0]["clients"]) == ("finished", ["b", "c"])
    assert any(words in why for _, why in told.remarks)


def _late(told: Audience) -> Callable[..., None]:
    """Answers when something did not count: the liar comes first."""
    from tests.cluster.kafkaml.scripted import wait_for

    def script(client: Scripted, said: ModelControl, arrays: Sequence[np.ndarray]) -> None:
        wait_for("the liar is refused", lambda: bool(told.remarks), seconds=30)
        client.answer(said, arrays)

    return script
