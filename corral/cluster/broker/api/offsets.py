"""OffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import orjson

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.consumergroups.offsets import Committed, Place
from corral.cluster.broker.errors import BrokerError, ErrorCode

__all__ = ["offset_commit", "offset_delete", "offset_fetch"]


async def offset_commit(call: Call) -> Answer:
    request = call.request
    now = time.time()
    errors: dict[Place, ErrorCode] = {}
    entries: dict[Place, Committed] = {}
    for topic in request.topics:
        for row in topic.partitions:
            place = (topic.name, row.partition_index)
            error = _problem(call, place, row)
            if error is not None:
                errors[place] = error
                continue
            epoch = getattr(row, "committed_leader_epoch", -1)
            entries[place] = Committed(
                row.committed_offset, epoch, row.committed_metadata or "", now
            )
    try:
        call.broker.coordinator.commit(
            call.tenant,
            call.group(request.group_id),
            request.member_id,
            request.generation_id_or_member_epoch,
            entries,
        )
    except BrokerError as err:
        errors |= dict.fromkeys(entries, err.code)
    return _answer(request, errors)


def _problem(call: Call, place: Place, row: Any) -> ErrorCode | None:
    try:
        call.topics.log(*place)
    except BrokerError as err:
        return err.code
    # as it is written down: a control character is one letter and six bytes
    size = len(orjson.dumps(row.committed_metadata or ""))
    if size > call.broker.settings.limits.metadata_bytes + len('""'):
        return ErrorCode.offset_metadata_too_large
    return None


def _answer(request: Any, errors: Mapping[Place, ErrorCode]) -> dict[str, Any]:
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": row.partition_index,
                        "error_code": errors.get((topic.name, row.partition_index), ErrorCode.none),
                    }
                    for row in topic.partitions
                ],
            }
            for topic in request.topics
        ]
    }


async def offset_fetch(call: Call) -> Answer:
    groups = getattr(call.request, "groups", None)
    if groups is None:
        topics = _fetched(call, call.request.group_id, call.request.topics)
        return {"topics": topics, "error_code": ErrorCode.none}
    return {
        "groups": [
            {
                "group_id": wish.group_id,
                "topics": _fetched(call, wish.group_id, wish.topics),
                "error_code": ErrorCode.none,
            }
            for wish in {wish.group_id: wish for wish in groups}.values()  # each once
        ]
    }


def _fetched(call: Call, group: str, topics: Any) -> list[Mapping[str, Any]]:
    held = call.broker.coordinator.offsets.of(call.group(group))
    wanted: dict[str, list[int]] = {}
    if topics is None:
        for topic, partition in held:
            wanted.setdefault(topic, []).append(partition)
    else:
        wanted = {topic.name: list(dict.fromkeys(topic.partition_indexes)) for topic in topics}
    nothing = Committed(-1, -1, "", 0.0)
    return [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": index,
                    "committed_offset": entry.offset,
                    "committed_leader_epoch": entry.epoch,
                    "metadata": entry.metadata,
                    "error_code": ErrorCode.none,
                }
                for index in indexes
                for entry in (held.get((topic, index), nothing),)
            ],
        }
        for topic, indexes in wanted.items()
    ]


async def offset_delete(call: Call) -> Answer:
    request = call.request
    places = [
        (topic.name, row.partition_index) for topic in request.topics for row in topic.partitions
    ]
    try:
        errors = call.broker.coordinator.forget(call.group(request.group_id), places)
    except BrokerError as err:
        return {"error_code": err.code, "topics": ()}
    return {"error_code": ErrorCode.none, **_answer(request, errors)}
