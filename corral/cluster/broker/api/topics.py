"""CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.settings import NODE_ID
from corral.cluster.broker.topicconfig import SETTINGS
from corral.cluster.broker.topics import Topic

__all__ = ["create_partitions", "create_topics", "delete_topics"]


async def create_topics(call: Call) -> Answer:
    times = Counter(wish.name for wish in call.request.topics)

    async def create(wish: Any) -> Mapping[str, Any]:
        await call.breathe()
        try:
            if times[wish.name] > 1:
                raise BrokerError(ErrorCode.invalid_request, f"{wish.name} is there twice")
            topic = call.topics.create(
                wish.name,
                _count(wish),
                {config.name: config.value for config in wish.configs},
                dry=call.request.validate_only,
            )
        except BrokerError as err:
            return {
                "name": wish.name,
                "topic_id": None,
                "error_code": err.code,
                "error_message": str(err),
                "configs": None,
            }
        return _created(wish, topic)

    seen = {wish.name: wish for wish in call.request.topics}
    return {"topics": [await create(wish) for wish in seen.values()]}


def _count(wish: Any) -> int:
    """How many partitions. Raises BrokerError."""
    if wish.assignments:
        indexes = sorted(row.partition_index for row in wish.assignments)
        alone = all(row.broker_ids == (NODE_ID,) for row in wish.assignments)
        if indexes != list(range(len(indexes))) or not alone:
            raise BrokerError(
                ErrorCode.invalid_replica_assignment, f"all partitions are of broker {NODE_ID}"
            )
        return len(indexes)
    if wish.replication_factor not in (-1, 1):
        raise BrokerError(
            ErrorCode.invalid_replication_factor,
            f"replication factor {wish.replication_factor}: there is one broker",
        )
    return int(wish.num_partitions)


def _created(wish: Any, topic: Topic | None) -> Mapping[str, Any]:
    configs = None
    if topic is not None:
        configs = [
            {
                "name": name,
                "value": topic.config.value(name),
                "read_only": False,
                "config_source": 1 if name in topic.config.own else 5,
                "is_sensitive": False,
            }
            for name in SETTINGS
        ]
    return {
        "name": wish.name,
        "topic_id": topic.id if topic else None,
        "error_code": ErrorCode.none,
        "error_message": None,
        "num_partitions": len(topic.logs) if topic else wish.num_partitions,
        "replication_factor": 1,
        "configs": configs,
    }


async def delete_topics(call: Call) -> Answer:
    request = call.request
    names = getattr(request, "topic_names", None)
    wishes = (
        [(wish.name, wish.topic_id) for wish in request.topics]
        if names is None
        else [(name, None) for name in names]
    )
    return {"responses": [await _delete(call, name, number) for name, number in wishes]}


async def _delete(call: Call, name: str | None, number: Any) -> Mapping[str, Any]:
    await call.breathe()
    topics = call.topics
    if name is None:
        held = topics.by_id(number)
        if held is None:
            return {"name": None, "topic_id": number, "error_code": ErrorCode.unknown_topic_id}
        name = held.name
    try:
        topic = topics.delete(name)
        call.broker.coordinator.offsets.remove_topic(name, call.tenant.inner(""))
    except BrokerError as err:
        return {
            "name": name,
            "topic_id": number,
            "error_code": err.code,
            "error_message": str(err),
        }
    call.broker.hurry()
    return {"name": name, "topic_id": topic.id, "error_code": ErrorCode.none}


async def create_partitions(call: Call) -> Answer:
    async def grow(wish: Any) -> Mapping[str, Any]:
        await call.breathe()
        try:
            call.topics.grow(wish.name, wish.count, dry=call.request.validate_only)
        except BrokerError as err:
            return {"name": wish.name, "error_code": err.code, "error_message": str(err)}
        return {"name": wish.name, "error_code": ErrorCode.none}

    return {"results": [await grow(wish) for wish in call.request.topics]}
