"""``corral fl inject``, ``topics`` and ``tail`` as people run them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from corral.cli.samples import load
from corral.podtools.kafka.client import Access, Sender, Topic, ensure, read
from corral.podtools.kafka.messages import DataControl
from corral.podtools.kafka.ranges import parse_ranges
from corral.podtools.kafka.records import labelled
from corral.podtools.kafka.weights import parts_of
from tests.cluster.broker.broker_servers import Server
from tests.cluster.objects import Objects

API = "kafkaml.corral.dev/v1alpha1"


def fl(*words: str, code: int = 0) -> str:
    argv = [sys.executable, "-m", "corral.cli.main", "fl", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100)
    assert done.returncode == code, (done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def rows(*words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(fl(*words, "-o", "json"))
    return found


def test_every_shard_becomes_a_datasource_with_its_data(
    kafka: Server, kubeconfig: str, objects: Objects, namespace: str, unique: str
) -> None:
    topic = f"mnist-{unique}"
    found = rows(
        "inject", "mnist", "--topic", topic, "--bootstrap", kafka.address, "--kubeconfig",
        kubeconfig, "-n", namespace, "--split", "0.6,0.3,0.1", "--seed", "3", "--rate", "5000",
        "--restriction", '{"site": "a"}', "--validation-rate", "0.1", "--name", "shard",
        "--announce",
    )  # fmt: skip
    assert [row["datasource"] for row in found] == ["shard-0", "shard-1", "shard-2"]
    assert [row["samples"] for row in found] == [330, 165, 55]
    access, sent = Access(kafka.address), []
    for row in found:
        spec = objects.get(API, "datasources", row["datasource"])["spec"]
        assert spec["topic"] == row["topic"]
        assert spec["totalMsg"] == row["samples"]
        assert spec["datasetRestrictions"] == {"site": "a"}
        assert int((1 - spec["testRate"]) * spec["totalMsg"]) == row["samples"] - row["test"]
        records = read(access, parse_ranges(spec["topic"]), patience=30)
        x, y = labelled(((r.key, r.value) for r in records), "RAW", spec["inputConfig"])
        sent.append((x, y))
    made = load("mnist", count=550, seed=3)
    assert np.array_equal(sent[0][0][:300], made.x[:300])
    assert np.array_equal(sent[2][1][-5:], made.y[-5:])

    listed = {row["topic"]: row for row in rows("topics", "--bootstrap", kafka.address)}
    assert listed[topic] == {"topic": topic, "partitions": 1, "messages": 550}
    control = "FEDERATED_DATA_CONTROL_TOPIC"
    count = listed[control]["messages"]
    (last,) = read(access, parse_ranges(f"{control}:0:{count - 1}:{count}"), patience=30)
    assert DataControl.decode(last.value).topic == found[2]["topic"]
    told = fl("tail", control, "--last", "1", "--bootstrap", kafka.address)
    assert f'"topic": "{found[2]["topic"]}"' in told
    assert "key=(40 bytes) data, 3136 bytes" in fl("tail", topic, "--bootstrap", kafka.address)


def test_a_table_without_a_cluster(kafka: Server, tmp_path: Path, unique: str) -> None:
    table = tmp_path / "t.csv"
    table.write_text("a,b,kind\n" + "".join(f"{n},{n * 2},{n % 2}\n" for n in range(20)))
    topic = f"table-{unique}-{{shard}}"
    found = rows(
        "inject", str(table), "--topic", topic, "--bootstrap", kafka.address, "--train", "18",
        "--test", "2", "--split", "2", "--no-datasource",
    )  # fmt: skip
    assert [row["topic"] for row in found] == [f"table-{unique}-{n}:0:0:10" for n in range(2)]
    records = list(read(Access(kafka.address), parse_ranges(found[1]["topic"]), patience=30))
    x, y = labelled(((r.key, r.value) for r in records), "RAW", found[1]["inputConfig"])
    assert x[:, 0].tolist() == [*range(9, 18), 19]
    assert y.argmax(1).tolist() == [n % 2 for n in [*range(9, 18), 19]]


def test_weights_are_summarised(kafka: Server, unique: str) -> None:
    access, topic = Access(kafka.address), f"weights-{unique}"
    ensure(access, [Topic(topic, 1_000_000)])
    with Sender(access) as sender:
        sender.send_all(topic, list(parts_of([np.zeros((64, 32), np.float32)], limit=900_000)))
    assert "weights[0] float32 64x32" in fl("tail", topic, "--bootstrap", kafka.address)


def test_what_goes_wrong_is_one_line(kafka: Server, kubeconfig: str, namespace: str) -> None:
    where = ("--bootstrap", kafka.address, "--kubeconfig", kubeconfig, "-n", namespace)
    assert "no topic nowhere" in fl("tail", "nowhere", "--bootstrap", kafka.address, code=3)
    assert "not valid JSON" in fl("inject", "--restriction", "{", *where, code=2)
    assert "not mnist" in fl("inject", "nothing.csv", *where, code=2)
    assert "not a valid split" in fl("inject", "--split", "x", *where, code=2)
    before = rows("topics", "--bootstrap", kafka.address)
    assert "nobody" in fl("inject", "--topic", "never", "--deployment", "nobody", *where, code=3)
    # nothing was sent
    assert rows("topics", "--bootstrap", kafka.address) == before
