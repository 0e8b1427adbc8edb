"""Weights through Kafka against plain messages of the same bytes, and what a round costs.

``ratio``: MB/s of a model's weights (arrays to messages, sent until stored, read, arrays again) by
MB/s of the same messages with a plain producer and consumer on the same broker, in turns; the
smaller of the medians' ratios of writing and reading. Arrays are those of a model, some above the
limit of a message. ``round_s``: one round of a deployment (a version goes out, all clients read
it and send it back, the next one is made), with clients that do nothing but echo. All of that is
overhead: training is not in it. ``server_models``: the peak of the server's memory above what its
process had before, in multiples of the model; it must not grow with the clients.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

import numpy as np
from common import ROOT, arguments, median, report
from confluent_kafka import Consumer, Producer, TopicPartition

from corral.podtools.kafka.client import LARGEST, PART, Access, Sender, Topic, ensure, read, remove
from corral.podtools.kafka.names import Names
from corral.podtools.kafka.ranges import Range
from corral.podtools.kafka.weights import WeightsReader, parts_of
from corral.podtools.kafkaml.memory import give_back
from corral.podtools.kafkaml.rounds import RoundSettings
from corral.podtools.kafkaml.serving import Deployment, Server
from tests.cluster.broker.broker_servers import OwnBroker
from tests.cluster.kafkaml.deployments import Audience
from tests.cluster.kafkaml.scripted import Scripted, stored

SAMPLES = 100


def weights(parameters: int) -> list[np.ndarray]:
    """Arrays of a model: one has half of all, the others are ever smaller."""
    chance = np.random.default_rng(3)
    out, left = [], parameters
    while left:
        size = max(left // 2, min(left, 1000))
        out.append(chance.standard_normal(size, dtype=np.float32))
        left -= size
    return out


# --- throughput ----------------------------------------------------------------------------------


def ours(access: Access, topic: str, arrays: list[np.ndarray]) -> tuple[float, float, Range]:
    """Seconds to write, seconds to read, and where it is."""
    with Sender(access) as sender:
        sender.send(topic, b"first")
        begin = time.perf_counter()
        where = sender.send_weights(topic, arrays)
        wrote = time.perf_counter() - begin
    begin = time.perf_counter()
    found: dict[int, np.ndarray] = {}
    reader = WeightsReader(limit=1 << 40, take=found.__setitem__)
    for record in read(access, [where]):
        reader.add(record.key, record.value, record.headers)
    reader.finish(len(arrays))
    spent = time.perf_counter() - begin
    assert all(found[place].tobytes() == array.tobytes() for place, array in enumerate(arrays))
    return wrote, spent, where


def raw(access: Access, topic: str, messages: list[tuple[bytes, bytes]]) -> tuple[float, float]:
    """The same with a plain producer and a plain consumer."""
    failed: list[object] = []
    settings = {
        "enable.idempotence": True,
        "acks": "all",
        "message.max.bytes": LARGEST + 200_000,
        "queue.buffering.max.kbytes": 65_536,
        "linger.ms": 2,
    }
    producer = Producer({**access.settings(), **settings})
    producer.produce(topic, b"first", partition=0)
    assert producer.flush(60) == 0

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    begin = time.perf_counter()
    for key, value in messages:
        while True:
            try:
                producer.produce(topic, value, key=key, partition=0, on_delivery=delivered)
                break
            except BufferError:
                producer.poll(0.05)
        producer.poll(0)
    assert producer.flush(120) == 0 and not failed, failed
    wrote = time.perf_counter() - begin
    begin = time.perf_counter()
    reading = {
        "group.id": "unused",
        "enable.auto.commit": False,
        "fetch.max.bytes": 4 * LARGEST,
        "max.partition.fetch.bytes": 2 * LARGEST,
        "fetch.wait.max.ms": 100,
    }
    consumer = Consumer({**access.settings(), **reading})
    consumer.assign([TopicPartition(topic, 0, 1)])
    total, wanted = 0, sum(len(value) for _, value in messages)
    while total < wanted:
        message = consumer.poll(1.0)
        if message is not None:
            assert message.error() is None, message.error()
            total += len(message.value())
        assert time.perf_counter() - begin < 120
    consumer.close()
    return wrote, time.perf_counter() - begin


def throughput(access: Access, parameters: int, repeats: int) -> dict[str, dict[str, float]]:
    arrays = weights(parameters)
    messages = [(part.key, part.value) for part in parts_of(arrays, limit=PART)]
    megabytes = sum(len(value) for _, value in messages) / 1e6
    figures: dict[str, dict[str, list[float]]] = {
        who: {"write": [], "read": []} for who in ("ours", "raw")
    }
    for number in range(-1, repeats):
        topics = [f"bench-{uuid.uuid4().hex[:8]}" for _ in range(2)]
        ensure(access, [Topic(topic, LARGEST) for topic in topics])
        turns = {"ours": lambda t=topics[0]: ours(access, t, arrays)[:2],
                 "raw": lambda t=topics[1]: raw(access, t, messages)}  # fmt: skip
        for who in sorted(turns, reverse=bool(number % 2)):
            wrote, spent = turns[who]()
            if number >= 0:  # the first is for warming up
                figures[who]["write"].append(megabytes / wrote)
                figures[who]["read"].append(megabytes / spent)
        remove(access, topics)
    return {
        who: {what: round(median(values), 1) for what, values in rows.items()}
        for who, rows in figures.items()
    }


# --- rounds --------------------------------------------------------------------------------------


def peak() -> int:
    """Bytes that this process has had at most (``ru_maxrss`` may be that of who started it)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


def serve(servers: str, federated_id: str, parameters: str, rounds: str, clients: str) -> None:
    """A server as a process of its own: says what its rounds cost."""
    give_back()  # as the server's own process does
    names = [f"c{number}" for number in range(int(clients))]
    before = peak()
    made = Deployment(
        names=Names.of(federated_id),
        rounds=RoundSettings(rounds=int(rounds), k=len(names), at_least=len(names)),
        framework="numpy",
        architecture="{}",
        compile_args={},
        training_settings={},
    )
    first = weights(int(parameters))
    size = sum(array.nbytes for array in first)

    class Silent(Audience):
        def publish(self, weights: object, rounds: object) -> str:
            return "nowhere"

    server = Server(Access(servers), made, first, Silent(names))
    del first
    ended = server.run()
    assert ended.ended == "finished", ended.why
    aggregation = [float(entry["seconds"]) for entry in ended.history]
    report({"models": (peak() - before) / size, "aggregation_s": median(aggregation)})


class Echo(Scripted):
    """Sends what it has got."""

    def learnt(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        return list(arrays)


def deployment(access: Access, parameters: int, rounds: int, clients: int) -> dict[str, float]:
    """One deployment: seconds of a round, and the server's own words."""
    names = Names.of(uuid.uuid4().hex[:8])
    words = [access.servers, names.federated_id, str(parameters), str(rounds), str(clients)]
    command = [sys.executable, str(Path(__file__).resolve()), "serve", *words]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        ensure(access, names.own())
        running = [Echo(access, names, f"c{n}", step=SAMPLES / 100) for n in range(clients)]
        output, _ = server.communicate(timeout=560)
        assert server.returncode == 0, "the server failed"
        for client in running:
            client.end()
    finally:
        server.kill()
        server.wait(30)
    log = [(json.loads(r.value or b""), r.time) for r in stored(access, names.state)]
    began = [at for entry, at in log if entry["type"] == "published"]
    made = [at for entry, at in log if entry["type"] == "aggregated"]
    # the first round has the clients' start in it
    spent = [end - begin for begin, end in itertools.pairwise(made)]
    assert len(began) == len(made) == rounds
    said: dict[str, float] = json.loads(output.splitlines()[-1])
    remove(access, [topic.name for topic in names.own()] + [client.own for client in running])
    return {"round_s": median(spent), **said}


def main() -> None:
    args = arguments(__doc__ or "")
    sizes = [1_000_000] if args.quick else [1_000_000, 10_000_000]
    repeats = args.repeats or (3 if args.quick else 9)
    parameters = 1_000_000 if args.quick else 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        broker = OwnBroker(Path(folder) / "broker")
        try:
            broker.start()
            access = Access(broker.address)
            speeds = {f"{size // 1_000_000}M": throughput(access, size, repeats) for size in sizes}
            costs = {
                count: deployment(access, parameters, rounds=4, clients=count) for count in (2, 8)
            }
        finally:
            broker.stop()
    ratios = {
        f"{what} {size}": round(rows["ours"][what] / rows["raw"][what], 3)
        for size, rows in speeds.items()
        for what in ("write", "read")
    }
    for what, value in ratios.items():
        print(f"{what:10} ratio {value:.2f}")
    for count, cost in costs.items():
        print(f"{count} clients: round {cost['round_s']:.2f} s, "
              f"server {cost['models']:.1f} models")  # fmt: skip
    report(
        {
            "name": "kafka_rounds",
            "ratio": min(ratios.values()),
            "ratios": ratios,
            "mb_per_s": speeds,
            "parameters": parameters,
            "clients": 8,
            "round_s": round(costs[8]["round_s"], 3),
            "aggregation_s": round(costs[8]["aggregation_s"], 3),
            "server_models": round(costs[8]["models"], 2),
            "server_models_2_clients": round(costs[2]["models"], 2),
            "repeats": repeats,
        }
    )


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        main()
