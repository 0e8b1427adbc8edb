"""What goes wrong around a deployment: it goes on with the same result, or says what it lacks."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corral.podtools.kafka.client import LARGEST, Access, Sender, Topic, ends, ensure, remove
from corral.podtools.kafka.messages import ModelControl
from corral.podtools.kafka.weights import Part
from tests.cluster.broker.broker_servers import ApacheKafka, Server
from tests.cluster.kafkaml.deployments import Audience, Deployments, digits, model
from tests.cluster.kafkaml.scripted import Script, Scripted, log, stored, wait_for

ROUNDS = 4
STEPS = {"a": 0.25, "b": 0.75}
Start = Callable[..., Scripted]


@pytest.fixture
def start(deployments: Deployments) -> Iterator[Start]:
    """Starts a scripted client of the case's deployment."""
    running: list[Scripted] = []

    def started(name: str, script: Script | None = None, of: Deployments = deployments) -> Scripted:
        made = Scripted(of.access, of.names, name, step=STEPS[name], script=script)
        running.append(made)
        return made

    yield started
    for client in running:
        client.end()


def expected(rounds: int, steps: dict[str, float] = STEPS) -> list[np.ndarray]:
    """What scripted clients lead to, by the definition of the weighted mean."""
    arrays = [np.asarray(array, np.float64) for array in model().get_weights()]
    samples = {name: int(step * 100) for name, step in steps.items()}
    total = sum(samples.values())
    for _ in range(rounds):
        arrays = [
            sum((array * 0.5 + steps[name]) * samples[name] for name in steps) / total
            for array in arrays
        ]
    return arrays


def same(found: list[np.ndarray], wanted: list[np.ndarray]) -> bool:
    return all(np.allclose(a, b, rtol=1e-5) for a, b in zip(found, wanted, strict=True))


def test_the_broker_is_restarted_within_a_round(
    deployments: Deployments, start: Start, kafka: Server
) -> None:
    told = Audience(STEPS)
    made = deployments.deployment(model(), rounds=ROUNDS, k=2, at_least=2)
    serving = deployments.serve(made, model(), told)
    first = start("a")
    wait_for("version 0 is trained by one", lambda: 0 in first.heard)
    if isinstance(kafka, ApacheKafka):
        kafka.stop()
    else:
        kafka.kill()
    kafka.start()
    start("b")
    rounds = serving.result()
    assert rounds.ended == "finished", rounds.why
    assert [entry["version"] for entry in rounds.history] == list(range(ROUNDS))
    assert all(sorted(entry["clients"]) == ["a", "b"] for entry in rounds.history)
    assert same(told.published[0], expected(ROUNDS))


def test_a_client_is_killed_within_its_upload(deployments: Deployments, start: Start) -> None:
    x, y = digits()
    where = deployments.inject(f"d-{deployments.names.federated_id}", x[:60], y[:60])
    told = Audience(["a", "real"])
    made = deployments.deployment(model(), rounds=1, k=2, at_least=2)
    serving = deployments.serve(made, model(), told)
    start("a")
    dying = ("tests.cluster.kafkaml.killable", "client", "2")
    killed = deployments.client("real", where, command=dying)
    output, _ = killed.communicate(timeout=60)
    assert killed.returncode == -9, output
    own = deployments.names.client_data("real")
    assert ends(deployments.access, own)[0].end == 2
    again = deployments.client("real", where)
    rounds = serving.result()
    assert rounds.ended == "finished", rounds.why
    assert sorted(rounds.history[0]["clients"]) == ["a", "real"]
    ranges = [e["range"] for e in log(deployments.access, deployments.names)
              if e["type"] == "update" and e["client"] == "real"]  # fmt: skip
    assert ranges == [f"{own}:0:2:6"]
    output, _ = again.communicate(timeout=60)
    assert again.returncode == 0, output


def test_a_server_that_is_killed_anywhere_makes_every_version_once(
    deployments: Deployments, start: Start, tmp_path: Path
) -> None:
    undisturbed = Deployments(deployments.access, uuid.uuid4().hex[:8])
    told = Audience(STEPS)
    made = undisturbed.deployment(model(), rounds=ROUNDS, k=2, at_least=2)
    serving = undisturbed.serve(made, model(), told)
    for name in STEPS:
        start(name, of=undisturbed)
    assert serving.result().ended == "finished"

    access, names = deployments.access, deployments.names
    file = tmp_path / "weights.npz"
    words = ["server", access.servers, names.federated_id, str(ROUNDS), ",".join(STEPS), str(file)]
    for name in STEPS:
        start(name)
    lives: list[int] = []
    while 0 not in lives:
        assert len(lives) < 30, lives
        lives.append(lived([*words, str(len(lives))]))
    assert len(lives) > 3
    assert set(lives[:-1]) == {-signal.SIGKILL}, lives
    found = log(access, names)
    made_versions = [entry["version"] for entry in found if entry["type"] == "aggregated"]
    assert made_versions == list(range(ROUNDS)), found
    counted = Counter((e["client"], e["version"]) for e in found if e["type"] == "update")
    assert counted == {(name, version): 1 for name in STEPS for version in range(ROUNDS)}
    with np.load(file) as kept:
        bits = [kept[name].tobytes() for name in kept.files]
    assert bits == [array.tobytes() for array in told.published[0]]


def lived(words: list[str]) -> int:
    """How a server of its own process ended."""
    command = [sys.executable, "-m", "tests.cluster.kafkaml.killable", *words]
    return subprocess.run(command, timeout=60, check=False).returncode


def written(access: Access, topic: str) -> int:
    return ends(access, topic, patience=60)[0].end


def test_control_messages_come_twice_and_in_any_order(
    deployments: Deployments, start: Start
) -> None:
    sent: list[Any] = []

    def confused(client: Scripted, said: ModelControl, arrays: list[np.ndarray]) -> None:
        where = client.sender.send_weights(client.own, client.learnt(arrays))
        client.say(7, where)  # there is no such version
        client.say(said.version, where)
        client.say(said.version, where)
        for version, before in sent:
            client.say(version, before)
        sent.append((said.version, where))

    told = Audience(STEPS)
    made = deployments.deployment(model(), rounds=ROUNDS, k=2, at_least=2)
    serving = deployments.serve(made, model(), told)
    start("a", confused)
    start("b")
    rounds = serving.result()
    assert rounds.ended == "finished", rounds.why
    assert all(entry["samples"] == 100 for entry in rounds.history)
    assert same(told.published[0], expected(ROUNDS))
    found = log(deployments.access, deployments.names)
    counted = Counter((e["client"], e["version"]) for e in found if e["type"] == "update")
    assert set(counted.values()) == {1}


def test_a_client_takes_the_newest_version_whatever_comes_after(deployments: Deployments) -> None:
    x, y = digits()
    where = deployments.inject(f"d-{deployments.names.federated_id}", x[:60], y[:60])
    access, names = deployments.access, deployments.names
    ensure(access, names.own())
    made = deployments.deployment(model(), rounds=2)
    with Sender(access) as sender:
        weights = sender.send_weights(names.model_data, model().get_weights())
        for version in (0, 1, 0, -1, 1, 0):
            said = ModelControl([weights], version, made.training_settings, made.architecture,
                                made.compile_args, "numpy")  # fmt: skip
            sender.send(names.model_control, said.encode(), key=b"1")
    process = deployments.client("c", where)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    answers = [json.loads(r.value or b"") for r in stored(access, names.client_control)]
    assert [answer["version"] for answer in answers] == [-1]


class Trap:
    """A pickle that makes a file where it is read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self._file}",)


def poison(deployments: Deployments, trap: bytes) -> int:
    """Bad messages everywhere; how many of them the server has to answer for."""
    access, names = deployments.access, deployments.names
    own, id_ = names.client_data("real"), names.federated_id
    ensure(access, [*names.own(), Topic(own, LARGEST)])
    with Sender(access) as sender:
        traps = [Part(bytes([place]), trap, ()) for place in range(4)]
        bad = [*traps, Part(b"wrong key", b"x", ()), Part(b"\0", b"\x93NUMPY garbage", ())]
        theirs, ours = sender.send_all(own, bad), sender.send_all(names.model_data, bad)
        said = {"version": 1, "num_data": 60, "metrics": {}}
        ranges = [f"{own}:0:0:4", f"{own}:0:4:5", f"{own}:0:5:6", f"{own}:0:0:{10**15}",
                  f"{own}:0:0:{10**30}", f"{own}:{10**12}:0:1", f"{own}:9:0:1",
                  f"{names.model_data}:0:0:4", "no-such-topic:0:0:1", "garbage"]  # fmt: skip
        bodies = [json.dumps({**said, "topic": where}) for where in ranges]
        fine = {**said, "topic": str(theirs)}
        bodies += [json.dumps({**fine, "num_data": 10**40}), json.dumps({**fine, "num_data": -1})]
        bodies += [json.dumps({**fine, "version": 10**40}), '{"metrics": ' + "[" * 20_000, "\0"]
        bodies += [json.dumps({**fine, "metrics": {"training": {"loss": [10**400, 1e999]}}})]
        key = f"FED-MODEL-{id_}-CLIENT-real".encode()
        # before any version of the model: none of them can be the update of version 0
        for body in bodies:
            sender.send(names.client_control, body.encode(), key=key)
        for wrong in (None, b"\xff", b"FED-MODEL-other-CLIENT-real"):
            sender.send(names.client_control, json.dumps(fine).encode(), key=wrong)
        sender.send(names.client_control, trap, key=key)
        control = {"training_settings": {}, "model_architecture": "", "model_compile_args": {}}
        for where in (ours, f"{names.model_data}:0:0:{10**12}", theirs, "garbage"):
            body = json.dumps({**control, "topic": str(where), "version": 10**30})
            sender.send(names.model_control, body.encode(), key=b"1")
        sender.send(names.model_control, trap)
    return len(bodies) + 4


@pytest.mark.parametrize("legacy", [False, True])
def test_poisoned_messages_run_nothing_and_stop_nobody(
    deployments: Deployments, start: Start, tmp_path: Path, legacy: bool
) -> None:
    file = tmp_path / "it-ran"
    trap = pickle.dumps(Trap(file))
    bad = poison(deployments, trap)
    x, y = digits()
    where = deployments.inject(f"d-{deployments.names.federated_id}", x[:60], y[:60])
    told = Audience(["real"])
    made = deployments.deployment(model(), rounds=2, open=True, k=1)
    made = dataclasses.replace(made, legacy=legacy)
    serving = deployments.serve(made, model(), told)
    process = deployments.client("real", where, KAFKAML_LEGACY_WEIGHTS=str(legacy).lower())
    rounds = serving.result()
    assert rounds.ended == "finished", rounds.why
    assert [entry["samples"] for entry in rounds.history] == [60, 60]
    assert len(told.remarks) == bad, told.remarks
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert not file.exists()


def test_a_client_that_sends_nan_does_not_count(deployments: Deployments, start: Start) -> None:
    def mad(client: Scripted, said: ModelControl, arrays: list[np.ndarray]) -> None:
        learnt = client.learnt(arrays)
        learnt[1][3] = np.nan
        client.send(said.version, learnt)

    told = Audience(STEPS)
    made = deployments.deployment(model(), rounds=2, at_least=2)
    serving = deployments.serve(made, model(), told)
    first = start("a", mad)
    wait_for("its update is there", lambda: 0 in first.heard)
    start("b")
    rounds = serving.result()
    assert rounds.ended == "finished", rounds.why
    assert [entry["clients"] for entry in rounds.history] == [["b"], ["b"]]
    assert ("a", "array 1 holds a NaN or an infinity") in told.remarks
    assert same(told.published[0], expected(2, {"b": STEPS["b"]}))


@pytest.mark.parametrize("role", ["client_control", "model_control", "state"])
def test_a_topic_that_is_deleted_ends_it_by_its_name(deployments: Deployments, role: str) -> None:
    topic = getattr(deployments.names, role)
    made = deployments.deployment(model(), rounds=2, at_least=1)
    serving = deployments.serve(made, model(), Audience(["a"]))
    wait_for("version 0 is out", lambda: written(deployments.access, deployments.names.state) > 0)
    remove(deployments.access, [topic])
    rounds = serving.result()
    assert rounds.ended == "failed"
    assert topic in rounds.why
