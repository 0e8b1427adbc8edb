"""Which topics there are, over restarts and losses."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from corral.cluster.broker.errors import BrokerError, DataError
from corral.cluster.broker.identities import Identities
from corral.cluster.broker.settings import BrokerSettings, Limits, Share
from corral.cluster.broker.topics import OwnTopics, Topics
from tests.cluster.broker.broker_wire import batch


def all_of(folder: Path, **limits: int) -> Topics:
    topics = Topics(BrokerSettings(data_dir=folder, limits=Limits(**limits)))
    topics.load()
    return topics


def loaded(folder: Path, **limits: int) -> OwnTopics:
    """Those of everybody."""
    topics = all_of(folder, **limits)
    return topics.of(topics.tenants.get(""))


def test_topics_come_back(tmp_path: Path) -> None:
    topics = loaded(tmp_path)
    topics.create("a", 2, {"retention.ms": "5"})
    topics.create("b", -1, {})
    topics.log("a", 1).append(batch(b"x"))
    topics.grow("b", 3)
    topics.configure("b", {"max.message.bytes": "77"})
    again = loaded(tmp_path)
    assert {topic.name: len(topic.logs) for topic in again} == {"a": 2, "b": 3}
    assert again.log("a", 1).end == 1
    found = again.get("b")
    assert found is not None
    assert found.config.max_message_bytes == 77


def test_tenants_have_names_of_their_own(tmp_path: Path) -> None:
    topics = all_of(tmp_path)
    for owner in ("", "a.1", "b.2"):
        own = topics.of(topics.tenants.get(owner))
        own.create("news", 1, {})
        own.log("news", 0).append(batch(owner.encode()))
    again = all_of(tmp_path)
    for owner in ("", "a.1", "b.2"):
        tenant = again.tenants.get(owner)
        own = again.of(tenant)
        (found,) = own
        assert (found.name, found.tenant, tenant.partitions) == ("news", tenant, 1)
        assert tenant.usage.size == own.log("news", 0).size > 0
        assert own.by_id(found.id) is found
    others = again.of(again.tenants.get("c.3"))
    assert others.by_id(found.id) is None
    assert list(others) == []


def test_what_a_tenant_may_have(tmp_path: Path) -> None:
    share = Share(topics=2, partitions=4, disk_bytes=200, changes=10)
    topics = Topics(BrokerSettings(data_dir=tmp_path, limits=Limits(share=share)))
    topics.load()
    own = topics.of(topics.tenants.get("a.1"))
    own.create("one", 3, {})
    with pytest.raises(BrokerError, match="may have 4"):
        own.create("two", 2, {})
    own.create("two", 1, {})
    with pytest.raises(BrokerError, match="namespace a may have 2"):
        own.create("three", 1, {})
    with pytest.raises(BrokerError, match="too many partitions"):
        own.grow("two", 2)
    own.log("one", 0).append(batch(b"x" * 60))
    with pytest.raises(BrokerError, match=r"namespace a has 1.. bytes of records") as error:
        own.log("two", 0).append(batch(b"x" * 60))
    assert error.value.code.name == "policy_violation"
    own.delete("one")
    own.log("two", 0).append(batch(b"x" * 60))
    # another one is not concerned
    topics.of(topics.tenants.get("b.1")).create("one", 4, {})


def test_topics_are_not_made_too_fast(tmp_path: Path) -> None:
    share = Share(changes=4)
    topics = Topics(BrokerSettings(data_dir=tmp_path, limits=Limits(share=share)))
    topics.load()
    own = topics.of(topics.tenants.get("a.1"))
    own.create("one", 1, {})
    own.create("two", 1, {})
    with pytest.raises(BrokerError, match="too fast") as error:
        own.create("three", 1, {})
    assert error.value.code.name == "throttling_quota_exceeded"


def test_a_deleted_topic_is_gone_with_its_folder(tmp_path: Path) -> None:
    topics = loaded(tmp_path)
    topics.create("a", 1, {})
    log = topics.log("a", 0)
    log.append(batch(b"x"))
    topics.delete("a")
    with pytest.raises(BrokerError):
        log.append(batch(b"y"))
    again = all_of(tmp_path)  # as after a kill: the folder is still there
    assert len(again) == 0
    asyncio.run(again.clear())
    assert list((tmp_path / "topics").iterdir()) == []


def test_records_without_their_list_are_not_thrown_away(tmp_path: Path) -> None:
    topics = loaded(tmp_path)
    topics.create("a", 1, {})
    (tmp_path / "topics.json").unlink()
    with pytest.raises(DataError, match="restore the file"):
        loaded(tmp_path)
    assert len(list((tmp_path / "topics").iterdir())) == 1


@pytest.mark.parametrize("data", ["", "{", "[]", '{"topics": 1}'])
def test_a_damaged_list_is_said(tmp_path: Path, data: str) -> None:
    (tmp_path / "topics.json").write_text(data)
    with pytest.raises(DataError, match="restore it from a copy"):
        loaded(tmp_path)


@pytest.mark.parametrize(
    ("name", "partitions", "code"),
    [
        ("third", 1, "policy_violation"),
        ("a.b", 1, "invalid_topic_exception"),
        ("..", 1, "invalid_topic_exception"),
        ("x" * 250, 1, "invalid_topic_exception"),
        ("many", 6, "invalid_partitions"),
    ],
)
def test_limits(tmp_path: Path, name: str, partitions: int, code: str) -> None:
    topics = loaded(tmp_path, topics=2, partitions_per_topic=5)
    topics.create("a_b", 1, {})
    topics.create("second", 1, {})
    with pytest.raises(BrokerError) as error:
        topics.create(name, partitions, {})
    assert error.value.code.name == code


def test_all_partitions_together(tmp_path: Path) -> None:
    topics = loaded(tmp_path, partitions=5)
    topics.create("a", 3, {})
    with pytest.raises(BrokerError):
        topics.create("b", 3, {})
    with pytest.raises(BrokerError):
        topics.grow("a", 6)
    topics.grow("a", 5)


def test_numbers_are_never_given_twice(tmp_path: Path) -> None:
    given = []
    for _ in range(3):  # each as after a kill
        identities = Identities(tmp_path / "i.json")
        given += [identities.producer() for _ in range(1500)]
    assert len(set(given)) == 4500
    assert Identities(tmp_path / "i.json").cluster == identities.cluster
