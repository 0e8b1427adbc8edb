"""Produce, InitProducerId, DeleteRecords."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from corral.cluster.broker.api.call import Answer, Call
from corral.cluster.broker.errors import BrokerError, ErrorCode
from corral.cluster.broker.storage.log import PartitionLog

__all__ = ["delete_records", "init_producer_id", "produce"]


async def produce(call: Call) -> Answer | None:
    request = call.request
    refused: BrokerError | None = None
    if request.acks not in (-1, 0, 1):
        refused = BrokerError(ErrorCode.invalid_required_acks, "acks is -1, 0 or 1")
    elif request.transactional_id is not None:
        refused = BrokerError(ErrorCode.invalid_request, "this broker has no transactions")
    written: list[tuple[PartitionLog, dict[str, Any]]] = []
    responses = [
        {
            "name": topic.name,
            "partition_responses": [
                _append(call, topic.name, part, refused, written) for part in topic.partition_data
            ],
        }
        for topic in request.topic_data
    ]
    for log, answer in written:
        try:
            await log.flush()
        except BrokerError as err:
            answer |= {"error_code": err.code, "error_message": str(err)}
    if request.acks == 0:
        return None
    return {"responses": responses}


def _append(
    call: Call,
    topic: str,
    part: Any,
    refused: BrokerError | None,
    written: list[tuple[PartitionLog, dict[str, Any]]],
) -> Mapping[str, Any]:
    try:
        if refused is not None:
            raise refused
        log = call.topics.log(topic, part.index)
        appended = log.append(part.records or b"")
    except BrokerError as err:
        return {
            "index": part.index,
            "error_code": err.code,
            "base_offset": -1,
            "record_errors": (),
            "error_message": str(err),
        }
    answer = {
        "index": part.index,
        "error_code": ErrorCode.none,
        "base_offset": appended.base_offset,
        "log_start_offset": log.start,
        "record_errors": (),
    }
    if log.must_flush:
        written.append((log, answer))
    return answer


async def init_producer_id(call: Call) -> Answer:
    if call.request.transactional_id is not None:
        return {"error_code": ErrorCode.unsupported_version, "producer_epoch": -1}
    number = call.broker.identities.producer()
    return {"error_code": ErrorCode.none, "producer_id": number, "producer_epoch": 0}


async def delete_records(call: Call) -> Answer:
    async def remove(topic: str, part: Any) -> Mapping[str, Any]:
        await call.breathe()
        try:
            start = call.topics.log(topic, part.partition_index).delete_before(part.offset)
        except BrokerError as err:
            return {
                "partition_index": part.partition_index,
                "low_watermark": -1,
                "error_code": err.code,
            }
        return {
            "partition_index": part.partition_index,
            "low_watermark": start,
            "error_code": ErrorCode.none,
        }

    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [await remove(topic.name, p) for p in topic.partitions],
            }
            for topic in call.request.topics
        ]
    }
