"""The topics there are, durable: which, how many partitions, which settings."""

from __future__ import annotations

import asyncio
import logging
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from corral.cluster.broker.errors import BrokerError, DataError, ErrorCode
from corral.cluster.broker.settings import BrokerSettings
from corral.cluster.broker.storage.files import replace_file
from corral.cluster.broker.storage.log import PartitionLog
from corral.cluster.broker.tenants import Tenant, Tenants
from corral.cluster.broker.topicconfig import TopicConfig, checked

__all__ = ["OwnTopics", "Topic", "Topics", "check_name"]

logger = logging.getLogger(__name__)

_DELETED: Final = ".deleted"
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True)
class Topic:
    """A topic; `logs` has one entry for each partition."""

    name: str
    """As its tenant calls it."""
    tenant: Tenant
    id: uuid.UUID
    config: TopicConfig
    logs: list[PartitionLog]


def check_name(name: str) -> None:
    """Raises BrokerError."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise BrokerError(
            ErrorCode.invalid_topic_exception,
            "a topic's name has 1 to 249 letters, digits, dots, underscores and dashes",
        )


def _twin(name: str) -> str:
    """What two names have in common that differ in dots and underscores only."""
    return name.replace(".", "_")


class Topics:
    """All topics of a broker; what is changed here is on disk when the call returns."""

    def __init__(self, settings: BrokerSettings, tenants: Tenants | None = None) -> None:
        self._settings = settings
        self.tenants = tenants or Tenants(settings.limits)
        self._folder = settings.data_dir / "topics"
        self._file = settings.data_dir / "topics.json"
        self.ids: dict[uuid.UUID, Topic] = {}
        self._twins: set[str] = set()
        self._partitions = 0
        self._removed: list[Path] = []

    def load(self) -> None:
        """Read what is on disk. Raises DataError, OSError."""
        for name, value in self._settings.topic_defaults.items():
            checked(name, value)
        for inner, number, own, partitions in self._stored():
            owner, _, name = inner.rpartition("/")
            self._hold(self.tenants.get(owner), name, number, own, partitions)
        self._folder.mkdir(parents=True, exist_ok=True)
        known = {number.hex for number in self.ids}
        for path in self._folder.iterdir():
            if path.suffix == _DELETED:
                self._removed.append(path)
            elif path.name not in known:
                logger.warning("%s belongs to no topic; remove it if nobody misses it", path)

    def _stored(self) -> list[tuple[str, uuid.UUID, dict[str, str], int]]:
        try:
            return [
                (name, uuid.UUID(row["id"]), dict(row["configs"]), int(row["partitions"]))
                for name, row in orjson.loads(self._file.read_bytes())["topics"].items()
            ]
        except FileNotFoundError:
            if self._folder.is_dir() and any(self._folder.iterdir()):
                raise DataError(
                    f"{self._file} is missing, and {self._folder} has records: restore the file "
                    "from a copy, or move the folder away"
                ) from None
            return []
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise DataError(f"{self._file} is damaged ({err}): restore it from a copy") from err

    def _hold(
        self,
        tenant: Tenant,
        name: str,
        number: uuid.UUID,
        own: Mapping[str, str],
        partitions: int,
    ) -> Topic:
        config = TopicConfig(own, self._settings.topic_defaults)
        topic = Topic(name, tenant, number, config, [])
        self._extend(topic, partitions)
        tenant.topics[name] = self.ids[number] = topic
        self._twins.add(_twin(tenant.inner(name)))
        return topic

    def _extend(self, topic: Topic, partitions: int) -> None:
        tenant = topic.tenant
        for index in range(len(topic.logs), partitions):
            folder = self._folder / topic.id.hex / str(index)
            log = PartitionLog(folder, topic.config, self._settings.limits, tenant.usage)
            topic.logs.append(log)
            tenant.partitions += 1
            self._partitions += 1

    def __iter__(self) -> Iterator[Topic]:
        return iter(tuple(self.ids.values()))

    def __len__(self) -> int:
        return len(self.ids)

    def of(self, tenant: Tenant) -> OwnTopics:
        """Those of a tenant."""
        return OwnTopics(self, tenant)

    # -- changes ---------------------------------------------------------------------------------

    def create(
        self,
        tenant: Tenant,
        name: str,
        partitions: int,
        configs: Mapping[str, str | None],
        *,
        dry: bool = False,
    ) -> Topic | None:
        """Make a topic; None when it is only tried. Raises BrokerError."""
        check_name(name)
        if name in tenant.topics:
            raise BrokerError(ErrorCode.topic_already_exists, f"topic {name} is there already")
        if _twin(tenant.inner(name)) in self._twins:
            raise BrokerError(
                ErrorCode.invalid_topic_exception,
                f"{name} differs from another topic in dots and underscores only",
            )
        count = self._settings.default_partitions if partitions == -1 else partitions
        self._check_room(tenant, count, 0)
        own = {key: checked(key, value) for key, value in configs.items()}
        if dry:
            return None
        tenant.change(1 + count)
        topic = self._hold(tenant, name, uuid.uuid4(), own, count)
        try:
            self._write()
        except BrokerError:
            self._let_go(topic)
            raise
        return topic

    def _check_room(self, tenant: Tenant, count: int, have: int) -> None:
        limits = self._settings.limits
        if not have < count <= limits.partitions_per_topic:
            raise BrokerError(
                ErrorCode.invalid_partitions,
                f"a topic has {have + 1} to {limits.partitions_per_topic} partitions, not {count}",
            )
        tenant.check_room(0 if have else 1, count - have)
        if len(self.ids) + (not have) > limits.topics:
            raise BrokerError(ErrorCode.policy_violation, "there are too many topics")
        if self._partitions + count - have > limits.partitions:
            raise BrokerError(ErrorCode.policy_violation, "there are too many partitions")

    def grow(self, topic: Topic, count: int, *, dry: bool = False) -> None:
        """Give a topic more partitions. Raises BrokerError."""
        self._check_room(topic.tenant, count, len(topic.logs))
        if not dry:
            topic.tenant.change(count - len(topic.logs))
            self._extend(topic, count)
            self._write()

    def configure(self, topic: Topic, own: Mapping[str, str | None], *, dry: bool = False) -> None:
        """Have a topic have these settings of its own, and no others. Raises BrokerError."""
        new = {key: checked(key, value) for key, value in own.items()}
        if not dry:
            topic.tenant.change(1)
            topic.config.change(new)
            self._write()

    def delete(self, topic: Topic) -> None:
        """Raises BrokerError."""
        del self.ids[topic.id]
        try:
            self._write()
        except BrokerError:
            self.ids[topic.id] = topic
            raise
        self._let_go(topic)

    def delete_all(self, tenant: Tenant) -> None:
        """All topics of a tenant. Raises BrokerError."""
        topics = tuple(tenant.topics.values())
        for topic in topics:
            del self.ids[topic.id]
        try:
            if topics:
                self._write()
        except BrokerError:
            self.ids |= {topic.id: topic for topic in topics}
            raise
        for topic in topics:
            self._let_go(topic)

    def _let_go(self, topic: Topic) -> None:
        tenant = topic.tenant
        tenant.topics.pop(topic.name, None)
        self.ids.pop(topic.id, None)
        self._twins.discard(_twin(tenant.inner(topic.name)))
        tenant.partitions -= len(topic.logs)
        self._partitions -= len(topic.logs)
        for log in topic.logs:
            log.delete()
        path = self._folder / topic.id.hex
        try:
            self._removed.append(path.rename(path.with_suffix(_DELETED)))
        except OSError as err:
            logger.error("%s: cannot be set aside: %s", path, err)

    def _write(self) -> None:
        rows: dict[str, Any] = {
            topic.tenant.inner(topic.name): {
                "id": topic.id.hex,
                "partitions": len(topic.logs),
                "configs": topic.config.own,
            }
            for topic in self.ids.values()
        }
        try:
            replace_file(self._file, orjson.dumps({"topics": rows}))
        except OSError as err:
            logger.error("%s: cannot write: %s", self._file, err)
            raise BrokerError(ErrorCode.kafka_storage_error, f"cannot write: {err}") from err

    async def clear(self) -> None:
        """Remove the folders of topics that are gone."""
        while self._removed:
            path = self._removed[0]
            await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
            # not before: who is cancelled meanwhile leaves it to the next
            if path in self._removed:
                self._removed.remove(path)


class OwnTopics:
    """Topics as one tenant sees them: there are no others."""

    __slots__ = ("_all", "_tenant")

    def __init__(self, topics: Topics, tenant: Tenant) -> None:
        self._all, self._tenant = topics, tenant

    def __iter__(self) -> Iterator[Topic]:
        return iter(tuple(self._tenant.topics.values()))

    def get(self, name: str | None) -> Topic | None:
        return self._tenant.topics.get(name) if name else None

    def by_id(self, number: uuid.UUID | None) -> Topic | None:
        found = self._all.ids.get(number) if number is not None else None
        return found if found is not None and found.tenant is self._tenant else None

    def must(self, name: str) -> Topic:
        """Raises BrokerError where there is none."""
        topic = self._tenant.topics.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.unknown_topic_or_partition, f"there is no topic {name}")
        return topic

    def log(self, name: str, partition: int) -> PartitionLog:
        """Raises BrokerError where there is none."""
        topic = self._tenant.topics.get(name)
        if topic is None or not 0 <= partition < len(topic.logs):
            raise BrokerError(ErrorCode.unknown_topic_or_partition)
        return topic.logs[partition]

    def create(
        self, name: str, partitions: int, configs: Mapping[str, str | None], *, dry: bool = False
    ) -> Topic | None:
        """Raises BrokerError."""
        return self._all.create(self._tenant, name, partitions, configs, dry=dry)

    def grow(self, name: str, count: int, *, dry: bool = False) -> None:
        """Raises BrokerError."""
        self._all.grow(self.must(name), count, dry=dry)

    def configure(self, name: str, own: Mapping[str, str | None], *, dry: bool = False) -> None:
        """Raises BrokerError."""
        self._all.configure(self.must(name), own, dry=dry)

    def delete(self, name: str) -> Topic:
        """Raises BrokerError."""
        topic = self.must(name)
        self._all.delete(topic)
        return topic
