"""Fetch and ListOffsets. Fetch sessions are not kept: every answer says so with session 0."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.protocol.codec import milliseconds
from corral.cluster.broker.storage.files import FileSlice
from corral.cluster.broker.storage.log import PartitionLog

__all__ = ["fetch", "list_offsets", "offset_for_leader_epoch"]

_LATEST: Final = -1
_EARLIEST: Final = -2
_LARGEST_TIME: Final = -3
EPOCH: Final = 0
"""Of the leader of every partition: there is never another."""


async def fetch(call: Call) -> Answer:
    request = call.request
    if getattr(request, "session_id", 0):
        return {"error_code": ErrorCode.fetch_session_id_not_found, "responses": ()}
    limits = call.broker.settings.limits
    loop = asyncio.get_running_loop()
    until = loop.time() + min(milliseconds(request.max_wait), limits.fetch_wait)
    changed = asyncio.Event()
    logs = _logs(call)
    for log in logs:
        log.on_change(changed.set)
    try:
        while True:
            changed.clear()
            found, size, failed = _look(call, min(request.max_bytes, limits.fetch_bytes))
            if size >= request.min_bytes or failed or not await _wait(changed, until):
                return {"error_code": ErrorCode.none, "session_id": 0, "responses": found}
            await call.session.turn()
    finally:
        for log in logs:
            log.forget(changed.set)


def _logs(call: Call) -> set[PartitionLog]:
    logs = set()
    for topic in call.request.topics:
        held = call.topics.get(topic.topic)
        if held is not None:
            count = len(held.logs)
            logs |= {held.logs[p.partition] for p in topic.partitions if 0 <= p.partition < count}
    return logs


async def _wait(changed: asyncio.Event, until: float) -> bool:
    """Whether something came before the time is up."""
    try:
        async with asyncio.timeout_at(until):
            await changed.wait()
    except TimeoutError:
        return False
    return True


def _look(call: Call, limit: int) -> tuple[list[Mapping[str, Any]], int, bool]:
    """What there is now, how many bytes, and whether something is wrong."""
    topics: list[Mapping[str, Any]] = []
    size, failed = 0, False
    for topic in call.request.topics:
        partitions = []
        for wish in topic.partitions:
            entry, records = _partition(call, topic.topic, wish, limit - size, first=size == 0)
            size += len(records) if records is not None else 0
            failed |= entry["error_code"] is not ErrorCode.none
            partitions.append(entry)
        topics.append({"topic": topic.topic, "partitions": partitions})
    return topics, size, failed


def _partition(
    call: Call, topic: str, wish: Any, left: int, *, first: bool
) -> tuple[Mapping[str, Any], FileSlice | None]:
    log: PartitionLog | None = None
    records: FileSlice | None = None
    error = ErrorCode.none
    try:
        log = call.topics.log(topic, wish.partition)
        _check_epoch(getattr(wish, "current_leader_epoch", -1))
        room = min(wish.partition_max_bytes, left)
        records = log.read(wish.fetch_offset, max(room, 0), whole_first=first)
    except BrokerError as err:
        error = err.code
    end = log.end if log is not None else -1
    entry = {
        "partition_index": wish.partition,
        "error_code": error,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": log.start if log is not None else -1,
        "aborted_transactions": None,
        "records": b"" if records is None else records,
    }
    return entry, records


def _check_epoch(epoch: int) -> None:
    if epoch > EPOCH:
        raise BrokerError(ErrorCode.unknown_leader_epoch)


async def list_offsets(call: Call) -> Answer:
    async def look(topic: str, wish: Any) -> Mapping[str, Any]:
        if wish.timestamp >= 0:
            await call.breathe()  # a batch is looked through for it
        try:
            log = call.topics.log(topic, wish.partition_index)
            _check_epoch(getattr(wish, "current_leader_epoch", -1))
            offset, time = _offset(log, wish.timestamp)
        except BrokerError as err:
            return {"partition_index": wish.partition_index, "error_code": err.code}
        return {
            "partition_index": wish.partition_index,
            "error_code": ErrorCode.none,
            "timestamp": time,
            "offset": offset,
            "leader_epoch": EPOCH if offset >= 0 else -1,
        }

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [await look(topic.name, p) for p in topic.partitions],
            }
            for topic in call.request.topics
        ]
    }


def _offset(log: PartitionLog, timestamp: int) -> tuple[int, int]:
    if timestamp == _LATEST:
        return log.end, -1
    if timestamp == _EARLIEST:
        return log.start, -1
    if timestamp == _LARGEST_TIME:
        return log.latest_time() or (-1, -1)
    if timestamp < 0:
        raise BrokerError(ErrorCode.unsupported_version, f"{timestamp} is no time")
    return log.offset_at(timestamp) or (-1, -1)


async def offset_for_leader_epoch(call: Call) -> Answer:
    def look(topic: str, wish: Any) -> Mapping[str, Any]:
        try:
            log = call.topics.log(topic, wish.partition)
            _check_epoch(wish.current_leader_epoch)
        except BrokerError as err:
            return {"partition": wish.partition, "error_code": err.code}
        known = wish.leader_epoch == EPOCH
        return {
            "partition": wish.partition,
            "error_code": ErrorCode.none,
            "leader_epoch": EPOCH if known else -1,
            "end_offset": log.end if known else -1,
        }

    return {
        "topics": [
            {"topic": topic.topic, "partitions": [look(topic.topic, p) for p in topic.partitions]}
            for topic in call.request.topics
        ]
    }
