"""Attacks on the broker: without a login, and with that of another namespace."""

from __future__ import annotations

import base64
import contextlib
import struct
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from corral.cluster.broker.api.table import BEFORE_LOGIN, TABLE
from corral.cluster.broker.logins import Login
from tests.cluster.broker.broker_tenants import SOON, GuardedBroker, Scram, said
from tests.cluster.broker.broker_wire import Wire, batch, produce_request

TOPIC, GROUP = "models", "readers"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(tmp_path_factory.mktemp("guarded"))
    broker.start()
    yield broker
    broker.stop()


class Victim:
    """A namespace with a topic, records, a group and committed offsets."""

    def __init__(self, broker: GuardedBroker) -> None:
        self.wire = broker.wire("victim")
        self.wire.ask(said(20, 1, topic_names=[TOPIC], timeout=SOON))
        row = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
        self.wire.ask(said(19, 2, topics=[{**row, "assignments": [], "configs": []}]))
        assert self.wire.produce(TOPIC, batch(b"weights")).base_offset == 0
        self.topic_id: uuid.UUID = self.metadata([TOPIC])[0].topic_id
        joined = self.wire.ask(join())
        self.member, self.generation = joined.member_id, joined.generation_id
        self.wire.ask(
            said(
                14, 0, group_id=GROUP, generation_id=self.generation, member_id=self.member,
                assignments=[{"member_id": self.member, "assignment": b"mine"}],
            )
        )  # fmt: skip
        row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "secret"}
        self.wire.ask(
            said(
                8, 2, group_id=GROUP, generation_id_or_member_epoch=self.generation,
                member_id=self.member, topics=[{"name": TOPIC, "partitions": [row]}],
            )
        )  # fmt: skip

    def metadata(self, names: list[str] | None) -> Any:
        wanted = None if names is None else [{"name": name, "topic_id": None} for name in names]
        request = said(
            3, 12, topics=wanted, allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )  # fmt: skip
        return self.wire.ask(request).topics

    def state(self) -> Any:
        """All that an attacker could have changed."""
        offsets = {"partition_index": 0, "timestamp": -1}
        ends = self.wire.ask(
            said(2, 1, replica_id=-1, topics=[{"name": TOPIC, "partitions": [offsets]}])
        )
        starts = self.wire.ask(
            said(
                2, 1, replica_id=-1,
                topics=[{"name": TOPIC, "partitions": [{**offsets, "timestamp": -2}]}],
            )
        )  # fmt: skip
        wanted = {"resource_type": 2, "resource_name": TOPIC, "configuration_keys": None}
        (group,) = self.wire.ask(said(15, 0, groups=[GROUP])).groups
        return (
            [(t.name, t.topic_id, len(t.partitions)) for t in self.metadata(None)],
            ends.topics[0].partitions[0].offset,
            starts.topics[0].partitions[0].offset,
            self.wire.ask(said(32, 1, resources=[wanted])).results,
            (group.group_state, [m.member_id for m in group.members]),
            self.wire.ask(said(9, 1, group_id=GROUP, topics=ROWS)).topics,
        )


ROWS = [{"name": TOPIC, "partition_indexes": [0]}]


def join(member: str = "") -> Any:
    return said(
        11, 2, group_id=GROUP, session_timeout=SOON * 12, rebalance_timeout=SOON,
        member_id=member, protocol_type="consumer",
        protocols=[{"name": "range", "metadata": b"subscription"}],
    )  # fmt: skip


@pytest.fixture
def victim(guarded: GuardedBroker) -> Iterator[Victim]:
    victim = Victim(guarded)
    with victim.wire:
        yield victim
        victim.wire.ask(said(13, 0, group_id=GROUP, member_id=victim.member))
        victim.wire.ask(said(42, 0, groups_names=[GROUP]))


@pytest.fixture
def attacker(guarded: GuardedBroker) -> Iterator[Wire]:
    """Logged in, as another namespace."""
    with guarded.wire(f"attacker-{uuid.uuid4().hex[:8]}") as wire:
        yield wire


# -- without a login ------------------------------------------------------------------------------


@pytest.mark.attack(
    "broker", "sends requests without a login", "the connection is closed, whatever is asked"
)
@pytest.mark.parametrize("key", sorted(TABLE.keys() - BEFORE_LOGIN))
def test_nobody_asks_anything_without_a_login(guarded: GuardedBroker, key: int) -> None:
    for version in {TABLE[key].oldest, TABLE[key].newest}:
        with Wire(guarded.port) as wire:
            frame = struct.pack(">hhih", key, version, 1, -1) + b"\0" * 40
            wire.sock.sendall(struct.pack(">i", len(frame)) + frame)
            with contextlib.suppress(ConnectionResetError):
                assert wire.sock.recv(1) == b""


@pytest.mark.attack(
    "broker", "writes training data without a login", "nothing is stored, the connection is closed"
)
def test_anonymous_records_are_not_stored(guarded: GuardedBroker, victim: Victim) -> None:
    before = victim.state()
    with Wire(guarded.port) as wire, pytest.raises(ConnectionError):
        wire.produce(TOPIC, batch(b"poison"))
    assert victim.state() == before


@pytest.mark.attack(
    "broker", "asks for records while its login is half done", "the connection is closed"
)
def test_half_a_login_is_none(guarded: GuardedBroker) -> None:
    with Wire(guarded.port) as wire:
        wire.ask(said(17, 1, mechanism="SCRAM-SHA-256"))
        answer = wire.ask(said(36, 0, auth_bytes=Scram(guarded.login("victim")).first))
        assert answer.error_code.name == "none"
        with pytest.raises(ConnectionError):
            wire.produce(TOPIC, batch(b"poison"))


# -- wrong logins ---------------------------------------------------------------------------------


def wrong_password(broker: GuardedBroker) -> Scram:
    return Scram(Login(broker.login("victim").username, broker.login("other").password))


def made_up_name(broker: GuardedBroker) -> Scram:
    return Scram(Login("victim", "password"))


def forged_tag(broker: GuardedBroker) -> Scram:
    own = broker.login("attacker").username.rpartition(".")[2]
    name = f"{broker.login('victim').username.rpartition('.')[0]}.{own}"
    return Scram(Login(name, broker.login("attacker").password))


def no_password(broker: GuardedBroker) -> Scram:
    return Scram(Login(broker.login("victim").username, ""))


def acts_for_another(broker: GuardedBroker) -> Scram:
    return Scram(broker.login("attacker"), acts_for=broker.login("victim").username)


@pytest.mark.attack(
    "broker",
    "logs in with a guessed password, a made-up name, or its own login for another's name",
    "the login is refused, in the same words each time",
)
@pytest.mark.parametrize(
    "attempt", [wrong_password, made_up_name, forged_tag, no_password, acts_for_another]
)
@pytest.mark.route("broker")
def test_wrong_logins(guarded: GuardedBroker, attempt: Callable[[GuardedBroker], Scram]) -> None:
    with Wire(guarded.port) as wire:
        answer = attempt(guarded).run(wire)
        assert answer.error_code.name == "sasl_authentication_failed"
        assert "no such" not in (answer.error_message or "")
        with pytest.raises(ConnectionError):
            wire.ask(said(3, 1, topics=None))


@pytest.mark.attack(
    "broker", "replays a login that it has overheard", "the login is refused: nonces are used once"
)
@pytest.mark.route("broker")
def test_a_replayed_login(guarded: GuardedBroker) -> None:
    scram = Scram(guarded.login("victim"))
    with Wire(guarded.port) as wire:
        wire.ask(said(17, 1, mechanism="SCRAM-SHA-256"))
        answer = wire.ask(said(36, 0, auth_bytes=scram.first))
        heard = scram.final(answer.auth_bytes)
        assert wire.ask(said(36, 0, auth_bytes=heard)).error_code.name == "none"
    with Wire(guarded.port) as wire:
        wire.ask(said(17, 1, mechanism="SCRAM-SHA-256"))
        wire.ask(said(36, 0, auth_bytes=scram.first))
        answer = wire.ask(said(36, 0, auth_bytes=heard))
        assert answer.error_code.name == "sasl_authentication_failed"


@pytest.mark.attack(
    "broker", "logs in by a mechanism that sends passwords", "the mechanism is not offered"
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "OAUTHBEARER", "GSSAPI", ""])
def test_weaker_mechanisms(guarded: GuardedBroker, mechanism: str) -> None:
    with Wire(guarded.port) as wire:
        answer = wire.ask(said(17, 1, mechanism=mechanism))
        assert answer.error_code.name == "unsupported_sasl_mechanism"
        answer = wire.ask(said(36, 0, auth_bytes=b"\0victim\0password"))
        assert answer.error_code.name == "illegal_sasl_state"


@pytest.mark.attack(
    "broker",
    "logs in a second time on its connection, to be another namespace there",
    "the second login is refused",
)
@pytest.mark.route("broker")
def test_who_has_logged_in_stays_who_it_is(guarded: GuardedBroker, attacker: Wire) -> None:
    answer = attacker.ask(said(17, 1, mechanism="SCRAM-SHA-256"))
    assert answer.error_code.name == "illegal_sasl_state"


@pytest.mark.attack(
    "broker",
    "makes a namespace anew under the name of one that was deleted",
    "it is another one, and sees nothing of the old one",
)
def test_a_namespace_of_the_same_name(guarded: GuardedBroker, victim: Victim) -> None:
    with Wire(guarded.port) as wire:
        answer = Scram(guarded.login("victim", number=2)).run(wire)
        assert answer.error_code.name == "none"
        assert wire.ask(said(3, 1, topics=None)).topics == ()
        assert wire.ask(said(16, 0)).groups == ()


# -- with the login of another namespace ----------------------------------------------------------


def told(found: Any) -> str:
    """The error of an answer's first row, wherever that is."""
    text = repr(found)
    return text.partition("error_code=<ErrorCode.")[2].partition(":")[0]


NAMED = [{"name": TOPIC, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
FETCHED = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
ALTERED = {"resource_type": 2, "resource_name": TOPIC}
SETTING = {"name": "retention.ms", "value": "1"}
UNKNOWN = "unknown_topic_or_partition"

TOPIC_REQUESTS: dict[str, tuple[Callable[[Victim], Any], str]] = {
    "Produce": (lambda _: produce_request(TOPIC, batch(b"poison")), UNKNOWN),
    "Fetch": (
        lambda _: said(
            1, 4, max_wait=SOON * 0, min_bytes=1,
            topics=[{"topic": TOPIC, "partitions": [FETCHED]}],
        ),
        UNKNOWN,
    ),
    "ListOffsets": (lambda _: said(2, 1, replica_id=-1, topics=NAMED), UNKNOWN),
    "Metadata by id": (
        lambda victim: said(
            3, 12, topics=[{"name": None, "topic_id": victim.topic_id}],
            include_topic_authorized_operations=False,
        ),
        "unknown_topic_id",
    ),
    "OffsetForLeaderEpoch": (
        lambda _: said(
            23, 2, topics=[{"topic": TOPIC, "partitions": [{"partition": 0, "leader_epoch": 0}]}]
        ),
        UNKNOWN,
    ),
    "DeleteRecords": (
        lambda _: said(
            21, 2, timeout=SOON,
            topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "offset": -1}]}],
        ),
        UNKNOWN,
    ),
    "DeleteTopics": (lambda _: said(20, 1, topic_names=[TOPIC], timeout=SOON), UNKNOWN),
    "DeleteTopics by id": (
        lambda victim: said(
            20, 6, topics=[{"name": None, "topic_id": victim.topic_id}], timeout=SOON
        ),
        "unknown_topic_id",
    ),
    "CreatePartitions": (
        lambda _: said(
            37, 0, timeout=SOON, validate_only=False,
            topics=[{"name": TOPIC, "count": 5, "assignments": []}],
        ),
        UNKNOWN,
    ),
    "DescribeConfigs": (lambda _: said(32, 1, resources=[ALTERED]), UNKNOWN),
    "AlterConfigs": (
        lambda _: said(
            33, 0, resources=[{**ALTERED, "configs": [SETTING]}], validate_only=False
        ),
        UNKNOWN,
    ),
    "IncrementalAlterConfigs": (
        lambda _: said(
            44, 0, validate_only=False,
            resources=[{**ALTERED, "configs": [{**SETTING, "config_operation": 0}]}],
        ),
        UNKNOWN,
    ),
    "OffsetCommit": (
        lambda _: said(
            8, 2, group_id=GROUP, member_id="",
            topics=[{"name": TOPIC, "partitions": [
                {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}]}],
        ),
        UNKNOWN,
    ),
}  # fmt: skip


@pytest.mark.attack(
    "broker",
    "names another namespace's topic, or its id, in each request that knows topics",
    "there is no such topic for it, and nothing changes",
)
@pytest.mark.parametrize("name", sorted(TOPIC_REQUESTS))
@pytest.mark.route("broker")
def test_topics_of_others(victim: Victim, attacker: Wire, name: str) -> None:
    request, error = TOPIC_REQUESTS[name]
    before = victim.state()
    answer = attacker.ask(request(victim))
    assert told(answer) == error, answer
    assert "weights" not in repr(answer)
    assert victim.state() == before


GROUP_REQUESTS: dict[str, tuple[Callable[[Victim], Any], str]] = {
    "Heartbeat": (
        lambda v: said(
            12, 0, group_id=GROUP, generation_id=v.generation, member_id=v.member
        ),
        "unknown_member_id",
    ),
    "SyncGroup": (
        lambda v: said(
            14, 0, group_id=GROUP, generation_id=v.generation, member_id=v.member, assignments=[]
        ),
        "unknown_member_id",
    ),
    "JoinGroup as the member": (lambda v: join(v.member), "unknown_member_id"),
    "LeaveGroup": (lambda v: said(13, 0, group_id=GROUP, member_id=v.member), "unknown_member_id"),
    "DescribeGroups": (lambda _: said(15, 0, groups=[GROUP]), "none"),
    "DeleteGroups": (lambda _: said(42, 0, groups_names=[GROUP]), "group_id_not_found"),
    "OffsetFetch": (lambda _: said(9, 1, group_id=GROUP, topics=ROWS), "none"),
    "OffsetDelete": (
        lambda _: said(
            47, 0, group_id=GROUP,
            topics=[{"name": TOPIC, "partitions": [{"partition_index": 0}]}],
        ),
        "group_id_not_found",
    ),
    "OffsetCommit as the member": (
        lambda v: said(
            8, 2, group_id=GROUP, member_id=v.member, generation_id_or_member_epoch=v.generation,
            topics=[],
        ),
        "",
    ),
}  # fmt: skip


@pytest.mark.attack(
    "broker",
    "names another namespace's group, and a member of it, in each request that knows groups",
    "there is no such group for it, and the members go on",
)
@pytest.mark.parametrize("name", sorted(GROUP_REQUESTS))
@pytest.mark.route("broker")
def test_groups_of_others(victim: Victim, attacker: Wire, name: str) -> None:
    request, error = GROUP_REQUESTS[name]
    before = victim.state()
    answer = attacker.ask(request(victim))
    assert told(answer) == error, answer
    for hidden in ("secret", "mine", "subscription", "committed_offset=1"):
        assert hidden not in repr(answer)
    assert victim.state() == before


@pytest.mark.attack(
    "broker",
    "makes a topic and joins a group of the names that another namespace uses",
    "it gets its own ones, and no partition of the other's",
)
@pytest.mark.route("broker")
def test_the_same_names(victim: Victim, attacker: Wire) -> None:
    before = victim.state()
    row = {"name": TOPIC, "num_partitions": 1, "replication_factor": 1}
    made = attacker.ask(said(19, 2, topics=[{**row, "assignments": [], "configs": []}]))
    assert told(made) == "none"
    assert attacker.produce(TOPIC, batch(b"poison")).base_offset == 0
    joined = attacker.ask(join())
    assert [m.member_id for m in joined.members] == [joined.member_id]
    attacker.ask(said(20, 1, topic_names=[TOPIC], timeout=SOON))
    assert victim.state() == before


@pytest.mark.attack(
    "broker", "lists all topics and groups", "it sees its own, and that there are others nowhere"
)
@pytest.mark.route("broker")
def test_lists(victim: Victim, attacker: Wire) -> None:
    assert attacker.ask(said(3, 1, topics=None)).topics == ()
    assert attacker.ask(said(16, 0)).groups == ()
    found = attacker.ask(said(10, 0, key=GROUP))
    assert found.error_code.name == "none"


@pytest.mark.attack(
    "broker",
    "writes the inner name of another namespace's topic (NAMESPACE.UID/NAME)",
    "that is no name of a topic",
)
@pytest.mark.route("broker")
def test_inner_names(guarded: GuardedBroker, victim: Victim, attacker: Wire) -> None:
    owner = guarded.login("victim").username.rpartition(".")[0]
    name = f"{owner}/{TOPIC}"
    assert attacker.produce(name, batch(b"poison")).error_code.name == UNKNOWN
    row = {"name": name, "num_partitions": 1, "replication_factor": 1}
    made = attacker.ask(said(19, 2, topics=[{**row, "assignments": [], "configs": []}]))
    assert told(made) == "invalid_topic_exception"
    (group,) = attacker.ask(said(15, 0, groups=[f"{owner}/{GROUP}"])).groups
    assert group.group_state == "Dead"


@pytest.mark.attack(
    "broker", "lists the broker's users, or gives itself or others a password", "it is refused"
)
@pytest.mark.route("broker")
def test_users(guarded: GuardedBroker, attacker: Wire) -> None:
    assert told(attacker.ask(said(50, 0, users=[]))) == "cluster_authorization_failed"
    row = {
        "name": guarded.login("victim").username, "mechanism": 1, "iterations": 4096,
        "salt": b"salt", "salted_password": b"x" * 32,
    }  # fmt: skip
    for request in (
        said(51, 0, deletions=[], upsertions=[row]),
        said(51, 0, deletions=[{"name": row["name"], "mechanism": 1}], upsertions=[]),
    ):
        assert told(attacker.ask(request)) == "cluster_authorization_failed"
    guarded.wire("victim").sock.close()


@pytest.mark.attack(
    "broker",
    "takes a transaction or a producer's number of another to have its records refused",
    "there are no transactions, and numbers count within one's own topics",
)
@pytest.mark.route("broker")
def test_producers_of_others(guarded: GuardedBroker, attacker: Wire) -> None:
    refused = attacker.ask(said(22, 0, transactional_id="theirs", transaction_timeout=SOON))
    assert refused.error_code.name == "unsupported_version"
    with guarded.wire("victim") as wire:
        number = wire.ask(said(22, 0, transactional_id=None, transaction_timeout=SOON)).producer_id
        for one in (attacker, wire):
            one.ask(said(3, 1, topics=[{"name": "numbered"}]))
        # a larger epoch fences the smaller one: of the same topic only
        attacker.produce("numbered", batch(b"x", producer=number, epoch=9, sequence=0))
        mine = wire.produce("numbered", batch(b"y", producer=number, epoch=0, sequence=0))
        assert mine.error_code.name == "none"


@pytest.mark.attack(
    "broker", "sets the broker's own configuration", "only topics of one's own can be configured"
)
def test_the_broker_is_not_configured(attacker: Wire) -> None:
    row = {"resource_type": 4, "resource_name": "1", "configs": [SETTING]}
    assert told(attacker.ask(said(33, 0, resources=[row], validate_only=False))) == (
        "invalid_request"
    )


def test_names_and_passwords_follow_from_the_key(guarded: GuardedBroker) -> None:
    one, again, other = (guarded.login(name) for name in ("a", "a", "b"))
    assert one == again
    assert {one.username, one.password}.isdisjoint({other.username, other.password})
    assert one.password not in repr(one)
    assert len(base64.urlsafe_b64decode(one.password + "=")) == 32
