"""ApiVersions, Metadata, DescribeCluster, FindCoordinator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.api.fetch import EPOCH
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.settings import NODE_ID
from corral.cluster.broker.topics import Topic

__all__ = ["api_versions", "describe_cluster", "find_coordinator", "metadata"]

_GROUP: Final = 0
_OLD_ALL: Final = 0
"""Version of Metadata in which no topics means all."""


async def api_versions(call: Call) -> Answer:
    return {"error_code": ErrorCode.none, "api_keys": versions()}


def versions() -> list[Mapping[str, int]]:
    """What there is."""
    from corral.cluster.broker.api.table import TABLE

    return [
        {"api_key": key, "min_version": api.oldest, "max_version": api.newest}
        for key, api in TABLE.items()
    ]


def _broker(call: Call) -> Mapping[str, Any]:
    host, port = call.session.address
    return {"node_id": NODE_ID, "host": host, "port": port}


async def metadata(call: Call) -> Answer:
    request = call.request
    wanted = request.topics
    if wanted is None or (not wanted and call.version == _OLD_ALL):
        rows = [_described(topic) for topic in call.topics]
    else:
        create = getattr(request, "allow_auto_topic_creation", True)
        # each once, as Kafka: a short request that repeats a name has no endless answer
        once = {(wish.name, getattr(wish, "topic_id", None)): wish for wish in wanted}
        rows = [await _wanted(call, wish, create=create) for wish in once.values()]
    return {
        "brokers": [_broker(call)],
        "cluster_id": call.broker.identities.cluster,
        "controller_id": NODE_ID,
        "topics": rows,
    }


async def _wanted(call: Call, wish: Any, *, create: bool) -> Mapping[str, Any]:
    topics = call.topics
    if wish.name is None:
        topic = topics.by_id(wish.topic_id)
        if topic is None:
            return _refused(None, ErrorCode.unknown_topic_id, wish.topic_id)
        return _described(topic)
    topic = topics.get(wish.name)
    if topic is None and create and call.broker.settings.auto_create:
        await call.breathe()
        try:
            topic = topics.create(wish.name, -1, {})
        except BrokerError as err:
            return _refused(wish.name, err.code)
    return _described(topic) if topic else _refused(wish.name, ErrorCode.unknown_topic_or_partition)


def _refused(name: str | None, code: ErrorCode, number: object = None) -> Mapping[str, Any]:
    return {"error_code": code, "name": name, "topic_id": number, "partitions": ()}


def _described(topic: Topic) -> Mapping[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.id,
        "is_internal": False,
        "partitions": [
            {
                "error_code": ErrorCode.none,
                "partition_index": index,
                "leader_id": NODE_ID,
                "leader_epoch": EPOCH,
                "replica_nodes": (NODE_ID,),
                "isr_nodes": (NODE_ID,),
            }
            for index in range(len(topic.logs))
        ],
    }


async def describe_cluster(call: Call) -> Answer:
    host, port = call.session.address
    return {
        "error_code": ErrorCode.none,
        "cluster_id": call.broker.identities.cluster,
        "controller_id": NODE_ID,
        "brokers": [{"broker_id": NODE_ID, "host": host, "port": port, "is_fenced": False}],
    }


async def find_coordinator(call: Call) -> Answer:
    request = call.request
    groups = getattr(request, "key_type", _GROUP) == _GROUP
    error = ErrorCode.none if groups else ErrorCode.unsupported_version
    says = None if groups else "this broker coordinates consumer groups only"
    where = _broker(call) if groups else {"node_id": -1, "host": "", "port": -1}
    answer = {**where, "error_code": error, "error_message": says}
    keys = getattr(request, "coordinator_keys", ())
    return {**answer, "coordinators": [{"key": key, **answer} for key in keys]}
