"""Attacks on the broker: whoever uses it up gets no more than its own share."""

from __future__ import annotations

import gzip
import socket
import statistics
import struct
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from tests.cluster.broker.broker_servers import OwnBroker
from tests.cluster.broker.broker_tenants import SOON, GuardedBroker, half_sent, said
from tests.cluster.broker.broker_wire import Wire, batch, produce_request
from tests.cluster.objects import eventually

MIB = 2**20


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(tmp_path_factory.mktemp("guarded"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def other(guarded: GuardedBroker) -> Iterator[Wire]:
    """A namespace that only wants to work."""
    with guarded.wire("works") as wire:
        wire.ask(said(3, 1, topics=[{"name": "work"}]))
        yield wire


def rounds(wire: Wire, count: int = 60) -> float:
    """Seconds that most of its requests take, at most."""
    took = []
    for _ in range(count):
        begun = time.perf_counter()
        assert wire.produce("work", batch(b"x")).error_code.name == "none"
        took.append(time.perf_counter() - begun)
    return statistics.quantiles(took, n=10)[-1]


def unhurt(quiet: float, busy: float) -> bool:
    """Whether it was served as before; what a busy machine does to single requests is no matter."""
    return busy < 20 * max(quiet, 0.0125)


@contextmanager
def connections(port: int, count: int, send: bytes) -> Iterator[list[socket.socket]]:
    """So many, each of which says something and then nothing."""
    with ExitStack() as held:
        found = []
        for _ in range(count):
            sock = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            found.append(sock)
            sock.sendall(send)
        yield found


def closed(sock: socket.socket) -> bool:
    try:
        return sock.recv(1) == b""
    except ConnectionError:
        return True


# -- memory ---------------------------------------------------------------------------------------


@pytest.mark.attack(
    "broker",
    "opens 1,000 connections without a login, each with half a request of 700 kB",
    "each is closed at its length; others log in and work meanwhile",
)
def test_half_sent_requests_of_strangers(guarded: GuardedBroker, other: Wire) -> None:
    before, quiet = guarded.memory(), rounds(other)
    with connections(guarded.port, 1000, half_sent(700_000)) as attack:
        busy = rounds(other)
        with guarded.wire("comes-later") as later:
            assert later.ask(said(3, 1, topics=None)).topics == ()
        assert all(closed(sock) for sock in attack)
    assert unhurt(quiet, busy)
    assert guarded.memory() < before + 64 * MIB


@pytest.mark.attack(
    "broker",
    "opens 1,000 connections without a login that say nothing, or send half a small request",
    "256 stay at most, the oldest go first, and whoever logs in gets in",
)
@pytest.mark.parametrize("send", [b"", half_sent(8000, 5000), b"\0\0"])
def test_strangers_that_wait(guarded: GuardedBroker, other: Wire, send: bytes) -> None:
    before = guarded.memory()
    with ExitStack() as held:
        attack = held.enter_context(_patient(guarded.port, 1000, send))
        with guarded.wire("comes-later") as later:
            assert later.ask(said(3, 1, topics=None)).topics == ()
        rounds(other)
        assert eventually(lambda: sum(not _open(sock) for sock in attack) >= 1000 - 256)
        assert guarded.memory() < before + 64 * MIB


@contextmanager
def _patient(port: int, count: int, send: bytes) -> Iterator[list[socket.socket]]:
    with ExitStack() as held:
        found = []
        for _ in range(count):
            sock = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30))
            found.append(sock)
            if send:
                sock.sendall(send)
            sock.setblocking(False)
        yield found


def _open(sock: socket.socket) -> bool:
    try:
        return sock.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@pytest.mark.attack(
    "broker",
    "logs in 256 times and sends half a request of 20 MB on each connection",
    "its own share of memory is full, another namespace works on and the broker stays small",
)
@pytest.mark.route("broker, shares of it")
def test_half_sent_requests_of_a_namespace(guarded: GuardedBroker, other: Wire) -> None:
    before, quiet = guarded.memory(), rounds(other)
    with ExitStack() as held:
        for _ in range(250):
            wire = held.enter_context(guarded.wire("greedy"))
            wire.sock.sendall(half_sent(20 * MIB, 10_000))
        busy = rounds(other)
        assert guarded.memory() < before + 128 * MIB
    assert unhurt(quiet, busy)


@pytest.mark.attack(
    "broker",
    "sends 1,000 halves of large requests to a broker that is open to all",
    "who does not come on loses its place to who waits for it",
)
def test_half_sent_requests_to_an_open_broker(tmp_path: Path) -> None:
    broker = OwnBroker(tmp_path)
    broker.start()
    try:
        assert broker.process is not None
        pid = broker.process.pid
        with Wire(broker.port) as wire, _patient(broker.port, 990, half_sent(700_000)) as attack:
            wire.ask(said(3, 1, topics=[{"name": "work"}]))
            large = [bytes(900_000) for _ in range(3)]
            for value in large:  # needs memory that the halves have taken
                assert wire.produce("work", batch(value)).error_code.name == "none"
            assert sum(_open(sock) for sock in attack) < 990
            for line in Path(f"/proc/{pid}/status").read_text().splitlines():
                if line.startswith("VmHWM"):
                    assert int(line.split()[1]) < 350 * 1024, line
    finally:
        broker.stop()


@pytest.mark.attack(
    "broker",
    "announces a request of 2 GB, of a negative length, or of nothing",
    "the connection is closed at once",
)
@pytest.mark.parametrize("size", [2**31 - 1, 33 * MIB, -1, -(2**31), 0])
@pytest.mark.parametrize("logged_in", [True, False])
def test_announced_lengths(guarded: GuardedBroker, size: int, logged_in: bool) -> None:
    before = guarded.memory()
    with guarded.wire("liar") if logged_in else Wire(guarded.port) as wire:
        wire.sock.sendall(struct.pack(">i", size) + b"\0" * 100)
        assert closed(wire.sock)
    assert guarded.memory() < before + 32 * MIB


# -- work -----------------------------------------------------------------------------------------


def varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out) + bytes([number])


def head(key: int, version: int, *, flexible: bool = True) -> bytes:
    return struct.pack(">hhih", key, version, 1, -1) + (b"\0" if flexible else b"")


PARTITIONS = b"\2a" + varint(5_000_001) + (b"\0\0\0\0\0\0" * 5_000_000)
LARGE: dict[str, bytes] = {
    "five million partitions to produce to": head(0, 9)
    + b"\0\xff\xff\0\0\0\1"
    + varint(2)
    + PARTITIONS,
    "a list of 2^31 that is not there": head(42, 2) + varint(2**31) + b"\1\1",
    "a text of 2^31 bytes that is not there": head(0, 9) + varint(2**31) + b"x",
    "a number that never ends": head(0, 9) + b"\xff" * 100,
    "a hundred thousand tags": head(0, 9)[:-1] + varint(100_000) + b"\0\0" * 100_000,
    "sixty thousand groups to delete": head(42, 2) + varint(60_001) + b"\1" * 60_000 + b"\0",
    "forty thousand topics to describe": head(3, 1, flexible=False)
    + struct.pack(">i", 40_000)
    + b"\0\1x" * 40_000,
    "a megabyte of a heartbeat": head(12, 0, flexible=False) + b"\0" * MIB,
}


@pytest.mark.attack(
    "broker",
    "sends requests whose inside is huge: lists, lengths and numbers, true or not",
    "the connection is closed before there is work; others do not notice",
)
@pytest.mark.parametrize("name", sorted(LARGE))
def test_huge_insides(guarded: GuardedBroker, other: Wire, name: str) -> None:
    before, quiet = guarded.memory(), rounds(other)
    with guarded.wire("huge") as wire:
        frame = LARGE[name]
        try:
            wire.sock.sendall(struct.pack(">i", len(frame)) + frame)
        except ConnectionError:
            assert True  # it did not want the rest of it
        busy = rounds(other)
        assert closed(wire.sock)
    assert unhurt(quiet, busy)
    assert guarded.memory() < before + 128 * MIB


def packed(records: bytes, count: int, codec: int) -> bytes:
    """A batch that says what it likes of its records."""
    stamp = 1_700_000_000_000
    rest = struct.pack(">hiqqqhii", codec, count - 1, stamp, stamp + 9, -1, -1, -1, count)
    body = rest + records
    return struct.pack(">qiibI", 0, 9 + len(body), -1, 2, crc32c(body)) + body


@pytest.mark.attack(
    "broker",
    "stores a batch that says it has 2^31 records, and asks for an offset by time",
    "a batch with fewer records than it says is refused; one that is packed is not believed",
)
def test_batches_that_lie(guarded: GuardedBroker, other: Wire) -> None:
    with guarded.wire("liar") as wire:
        wire.ask(said(3, 1, topics=[{"name": "lies"}]))
        refused = wire.produce("lies", packed(b"", 2**31 - 1, 0))
        assert refused.error_code.name == "invalid_record"
        stored = wire.produce("lies", packed(gzip.compress(b""), 2**31 - 1, 1))
        assert stored.error_code.name == "none"
        wanted = {"partition_index": 0, "timestamp": 1_700_000_000_005}
        request = said(2, 1, replica_id=-1, topics=[{"name": "lies", "partitions": [wanted] * 50}])
        wire.send(request)
        rounds(other)
        found = wire.receive(request).topics[0].partitions
        assert {row.offset for row in found} == {0}


@pytest.mark.attack(
    "broker",
    "stores a batch that unpacks to 200 MB, and asks for an offset by time",
    "nothing is unpacked beyond 4 MiB",
)
def test_a_batch_that_unpacks_to_much(guarded: GuardedBroker, other: Wire) -> None:
    before = guarded.memory()
    pack = zlib.compressobj(6, wbits=31)
    bomb = b"".join(pack.compress(bytes(MIB)) for _ in range(200)) + pack.flush()
    with guarded.wire("bomber") as wire:
        wire.ask(said(3, 1, topics=[{"name": "bombs"}]))
        assert wire.produce("bombs", packed(bomb, 10, 1)).error_code.name == "none"
        wanted = {"partition_index": 0, "timestamp": 1_700_000_000_005}
        request = said(2, 1, replica_id=-1, topics=[{"name": "bombs", "partitions": [wanted] * 20}])
        wire.send(request)
        rounds(other)
        assert wire.receive(request).topics[0].partitions[0].offset == 0
    assert guarded.memory() < before + 64 * MIB


@pytest.mark.attack(
    "broker",
    "keeps the broker busy on 100 connections at once",
    "namespaces have the same share of its time, however many connections they have",
)
@pytest.mark.route("broker, shares of it")
def test_many_busy_connections(guarded: GuardedBroker, other: Wire) -> None:
    quiet = rounds(other)
    with ExitStack() as held:
        wires = [held.enter_context(guarded.wire("busy")) for _ in range(100)]
        wires[0].ask(said(3, 1, topics=[{"name": "busy"}]))
        request = produce_request("busy", batch(bytes(20_000)))
        for _ in range(20):
            for wire in wires:
                wire.send(request)
        busy = rounds(other)
    assert unhurt(quiet, busy)


@pytest.mark.attack(
    "broker",
    "waits for records of 500 partitions on 40 connections and wakes them all with each record",
    "that is its own time, and not that of others",
)
def test_many_waiting_fetches(guarded: GuardedBroker, other: Wire) -> None:
    quiet = rounds(other)
    with ExitStack() as held:
        wires = [held.enter_context(guarded.wire("waits")) for _ in range(40)]
        row = {"name": "many", "num_partitions": 190, "replication_factor": 1}
        wires[0].ask(said(19, 2, topics=[{**row, "assignments": [], "configs": []}]))
        parts = [
            {"partition": n % 190, "fetch_offset": 0, "partition_max_bytes": 1000}
            for n in range(500)
        ]
        request = said(
            1, 4, max_wait=SOON, min_bytes=2**30, topics=[{"topic": "many", "partitions": parts}]
        )
        for wire in wires[1:]:
            wire.send(request)
        for n in range(20):
            wires[0].send(produce_request("many", batch(b"x"), partition=n))
        busy = rounds(other)
    assert unhurt(quiet, busy)


@pytest.mark.attack(
    "broker",
    "sends small requests without end before it has logged in, on 200 connections",
    "each connection has 20 of them, and all strangers together one share of the broker's time",
)
def test_busy_strangers(guarded: GuardedBroker, other: Wire) -> None:
    quiet = rounds(other)
    asked = struct.pack(">ihhih", 10, 18, 0, 7, -1)
    with _patient(guarded.port, 200, asked * 500) as attack:
        busy = rounds(other)
        with guarded.wire("comes-later") as later:
            assert later.ask(said(3, 1, topics=None)).topics == ()
        eventually(lambda: not any(_unread(sock) for sock in attack))
    assert unhurt(quiet, busy)


def _unread(sock: socket.socket) -> bool:
    """Whether the broker has not closed it yet; what it has said is read."""
    try:
        while sock.recv(65536):
            continue
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    return False


# -- numbers --------------------------------------------------------------------------------------


def topic_row(name: str, partitions: int) -> dict[str, Any]:
    return {
        "name": name, "num_partitions": partitions, "replication_factor": 1,
        "assignments": [], "configs": [],
    }  # fmt: skip


def many_topics(wire: Wire) -> list[str]:
    rows = [topic_row(f"flood-{n}", 1) for n in range(1200)]
    answer = wire.ask(said(19, 2, topics=rows))
    return [row.error_code.name for row in answer.topics]


def many_partitions(wire: Wire) -> list[str]:
    rows = [topic_row(f"wide-{n}", 1000) for n in range(5)]
    return [row.error_code.name for row in wire.ask(said(19, 2, topics=rows)).topics]


def topics_by_asking(wire: Wire) -> list[str]:
    answer = wire.ask(said(3, 1, topics=[{"name": f"asked-{n}"} for n in range(1200)]))
    return [row.error_code.name for row in answer.topics]


@pytest.mark.attack(
    "broker",
    "makes topics and partitions without end",
    "a namespace makes few at once, and has a number of them at most; others make theirs",
)
@pytest.mark.parametrize("flood", [many_topics, many_partitions, topics_by_asking])
@pytest.mark.route("broker, shares of it")
def test_floods_of_topics(
    guarded: GuardedBroker, other: Wire, flood: Callable[[Wire], list[str]]
) -> None:
    with guarded.wire(flood.__name__.replace("_", "-")) as wire:
        codes = flood(wire)
        made = codes.count("none")
        assert made <= 1000
        assert set(codes) - {"none"} <= {"throttling_quota_exceeded", "policy_violation"}
        assert codes.count("throttling_quota_exceeded") + codes.count("policy_violation") > 0
    name = f"mine-{flood.__name__}"
    made_mine = other.ask(said(19, 2, topics=[topic_row(name, 1)]))
    assert made_mine.topics[0].error_code.name == "none"
    assert rounds(other, 20) > 0


@pytest.mark.attack(
    "broker", "joins groups without end", "a namespace has 200 groups at most; others join theirs"
)
@pytest.mark.route("broker, shares of it")
def test_floods_of_groups(guarded: GuardedBroker, other: Wire) -> None:
    def join_named(wire: Wire, group: str, size: int = 10) -> str:
        request = said(
            11, 4, group_id=group, session_timeout=SOON * 12, rebalance_timeout=SOON,
            member_id="", protocol_type="consumer",
            protocols=[{"name": "range", "metadata": bytes(size)}],
        )  # fmt: skip
        return str(wire.ask(request).error_code.name)

    with guarded.wire("joins") as wire:
        codes = [join_named(wire, f"g{n}") for n in range(230)]
        assert codes.count("member_id_required") == 200
        assert codes[200:] == ["group_max_size_reached"] * 30
        more = [join_named(wire, "g0") for _ in range(350)]
        assert more.count("member_id_required") == 300
        assert join_named(wire, "g1", 100_000) == "invalid_group_id"
        assert join_named(wire, "x" * 1000) == "invalid_group_id"
        committed = said(
            8, 2, group_id="x" * 1000, member_id="",
            topics=[{"name": "t", "partitions": [
                {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]}],
        )  # fmt: skip
        wire.ask(said(3, 1, topics=[{"name": "t"}]))
        found = wire.ask(committed).topics[0].partitions[0]
        assert found.error_code.name == "invalid_group_id"
    assert join_named(other, "mine") == "member_id_required"


def join(group: str, member: str = "", size: int = 10) -> Any:
    return said(
        11, 2, group_id=group, session_timeout=SOON * 12, rebalance_timeout=SOON,
        member_id=member, protocol_type="consumer",
        protocols=[{"name": "range", "metadata": bytes(size)}],
    )  # fmt: skip


@pytest.mark.attack(
    "broker",
    "has a large group described 5,000 times in a request, on connections that read no answer",
    "it is described once, and answers that are not taken are few",
)
def test_answers_larger_than_questions(guarded: GuardedBroker, other: Wire) -> None:
    before = guarded.memory()
    with ExitStack() as held:
        for n in range(20):
            wire = held.enter_context(guarded.wire("describes"))
            wire.send(join(f"large-{n}", size=30_000))
        asking = [held.enter_context(guarded.wire("describes")) for _ in range(60)]
        names = [f"large-{n % 20}" for n in range(4900)]
        for wire in asking:
            for _ in range(10):
                wire.send(said(15, 0, groups=names))
        rounds(other)
        assert guarded.memory() < before + 192 * MIB


@pytest.mark.attack(
    "broker",
    "names one topic of 1,000 partitions 4,900 times, or its group's offsets as often",
    "each is answered once",
)
def test_names_that_are_repeated(guarded: GuardedBroker, other: Wire) -> None:
    with guarded.wire("repeats") as wire:
        wire.ask(create(name="wide", num_partitions=1000))
        before = guarded.memory()
        described = wire.ask(said(3, 7, topics=[{"name": "wide"}] * 4900))
        assert [len(topic.partitions) for topic in described.topics] == [1000]
        rows = [
            {"partition_index": n, "committed_offset": 1, "committed_metadata": "m" * 100}
            for n in range(1000)
        ]
        wire.ask(commit(rows))
        fetched = wire.ask(
            said(9, 8, require_stable=False, groups=[{"group_id": "g", "topics": None}] * 4900)
        )
        assert [len(group.topics[0].partitions) for group in fetched.groups] == [1000]
        asked = [{"name": "wide", "partition_indexes": [0] * 4900}]
        fetched = wire.ask(said(9, 5, group_id="g", topics=asked))
        assert len(fetched.topics[0].partitions) == 1
        rounds(other)
        assert guarded.memory() < before + 64 * MIB


def create(**topic: Any) -> Any:
    row = {"replication_factor": 1, "assignments": [], "configs": [], **topic}
    return said(19, 5, topics=[row], timeout=SOON, validate_only=False)


def commit(rows: list[dict[str, Any]]) -> Any:
    """Offsets of the topic ``wide`` for the group ``g``, which has no members."""
    return said(
        8, 2, group_id="g", member_id="", generation_id_or_member_epoch=-1,
        retention_time=timedelta(milliseconds=-1), topics=[{"name": "wide", "partitions": rows}],
    )  # fmt: skip


@pytest.mark.attack(
    "broker",
    "has offsets deleted that nobody committed, of a topic with a name of 32 kB, 4,900 of them",
    "nothing is written of what is merely named",
)
def test_offsets_that_are_merely_named(guarded: GuardedBroker) -> None:
    with guarded.wire("forgets") as wire:
        wire.ask(said(3, 1, topics=[{"name": "wide"}]))
        wire.ask(commit([{"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}]))
        size = (guarded.folder / "data" / "offsets.journal").stat().st_size
        partitions = [{"partition_index": n} for n in range(4900)]
        named = [{"name": "\x01" * 32_000, "partitions": partitions}]
        wire.ask(said(47, 0, group_id="g", topics=named))
        assert (guarded.folder / "data" / "offsets.journal").stat().st_size == size
        assert wire.ask(said(9, 5, group_id="g", topics=None)).topics


@pytest.mark.attack(
    "broker",
    "writes 4,096 control characters beside each committed offset, six bytes each on disk",
    "their size is that on disk, and they are refused",
)
def test_metadata_that_grows_on_disk(guarded: GuardedBroker) -> None:
    with guarded.wire("grows") as wire:
        wire.ask(said(3, 1, topics=[{"name": "wide"}]))
        row = {"partition_index": 0, "committed_offset": 1}
        answers = [
            wire.ask(commit([{**row, "committed_metadata": letter * 4096}]))
            for letter in ("\x01", "m")
        ]
    found = [answer.topics[0].partitions[0].error_code.name for answer in answers]
    assert found == ["offset_metadata_too_large", "none"]


@pytest.mark.attack(
    "broker",
    "keeps 100 kB of spaces as the number of milliseconds of a topic's retention",
    "a number has up to 19 digits and nothing else",
)
@pytest.mark.parametrize("number", [" " * 100_000 + "1", "1_000", "\u0661"])
def test_numbers_with_other_letters(guarded: GuardedBroker, number: str) -> None:
    with guarded.wire("sets") as wire:
        configs = [{"name": "retention.ms", "value": number}]
        answer = wire.ask(create(name="t", num_partitions=1, configs=configs))
    assert answer.topics[0].error_code.name == "invalid_config"
    assert len(answer.topics[0].error_message) < 200


@pytest.mark.attack(
    "broker",
    "writes as ever new producers, which the broker remembers",
    "a namespace's oldest producers are forgotten, and its own only",
)
def test_floods_of_producers(guarded: GuardedBroker) -> None:
    from corral.cluster.broker.storage.batches import parse
    from corral.cluster.broker.storage.producers import Producers
    from corral.cluster.broker.storage.usage import Usage

    usage = Usage(2**40, most_producers=50)
    partitions = [Producers(10_000, usage) for _ in range(5)]
    others = Producers(10_000, Usage(2**40, most_producers=50))
    for producers in (others, *partitions):
        for number in range(100):
            found = parse(batch(b"x", producer=number, epoch=0, sequence=0))
            assert found is not None
            producers.note(found, number, 0.0)
    assert usage.producers == sum(map(len, partitions)) <= 55
    assert len(others) == 50


@pytest.mark.attack(
    "broker",
    "has the broker write to disk again and again: records deleted one by one, settings changed",
    "others are served between any two of them",
)
def test_floods_of_small_writes(guarded: GuardedBroker, other: Wire) -> None:
    quiet = rounds(other)
    with guarded.wire("writes") as wire:
        wire.ask(said(3, 1, topics=[{"name": "t"}]))
        wire.produce("t", batch(*[b"x"] * 400))
        rows = [{"partition_index": 0, "offset": n} for n in range(1, 400)]
        request = said(21, 2, timeout=SOON, topics=[{"name": "t", "partitions": rows}])
        wire.send(request)
        busy = rounds(other)
        row = {
            "resource_type": 2, "resource_name": "t",
            "configs": [{"name": "retention.ms", "value": "1000"}],
        }  # fmt: skip
        assert wire.receive(request).topics[0].partitions[-1].low_watermark >= 399
        codes = [
            answer.error_code.name
            for answer in wire.ask(
                said(33, 0, resources=[row] * 400, validate_only=False)
            ).responses
        ]
        assert "throttling_quota_exceeded" in codes
    assert unhurt(quiet, busy)


@pytest.mark.attack(
    "broker",
    "logs in more often than it may",
    "a namespace has 256 connections; another one still comes in",
)
@pytest.mark.route("broker, shares of it")
def test_floods_of_connections(guarded: GuardedBroker) -> None:
    with ExitStack() as held:
        came = 0
        for _ in range(300):
            try:
                held.enter_context(guarded.wire("everywhere"))
            except ConnectionError:
                continue
            came += 1
        assert came == 256
        with guarded.wire("elsewhere") as wire:
            assert wire.ask(said(3, 1, topics=None)).topics == ()
