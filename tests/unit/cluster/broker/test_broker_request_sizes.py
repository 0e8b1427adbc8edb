"""How much a request names, found before and after it is read."""

from __future__ import annotations

import io
from datetime import timedelta
from typing import Any

import pytest
from kio.serial import entity_writer

from corral.cluster.broker.api.table import TABLE
from corral.cluster.broker.protocol.codec import Malformed, check_produce, items_in, read
from tests.cluster.broker.broker_tenants import said
from tests.cluster.broker.broker_wire import batch

PRODUCE = range(TABLE[0].oldest, TABLE[0].newest + 1)


def frame(request: Any, client: str | None = "a client") -> bytes:
    kind = type(request)
    header = kind.__header_schema__(
        request_api_key=kind.__api_key__,
        request_api_version=kind.__version__,
        correlation_id=1,
        client_id=client,
    )
    out = io.BytesIO()
    entity_writer(type(header))(out, header)
    entity_writer(kind)(out, request)
    return out.getvalue()


def produce(version: int, topics: int, partitions: int) -> Any:
    rows = [{"index": n, "records": batch(b"x" * 300)} for n in range(partitions)]
    return said(
        0, version, acks=-1, timeout=timedelta(seconds=1), transactional_id=None,
        topic_data=[{"name": f"topic-{n}", "partition_data": rows} for n in range(topics)],
    )  # fmt: skip


@pytest.mark.parametrize("version", PRODUCE)
@pytest.mark.parametrize("client", ["a client", "", None])
def test_partitions_are_counted_before_they_are_read(version: int, client: str | None) -> None:
    data = frame(produce(version, 3, 5), client)
    check_produce(data, version, 18)
    assert items_in(read(data, 0, version)) == 18
    with pytest.raises(Malformed, match="more than 17"):
        check_produce(data, version, 17)


@pytest.mark.parametrize("version", [PRODUCE[0], PRODUCE[-1]])
def test_what_is_cut_off_is_refused_or_left_to_the_reader(version: int) -> None:
    """Never read beyond, never without an end."""
    data = frame(produce(version, 2, 2))
    for end in range(len(data)):
        try:
            check_produce(data[:end], version, 100)
        except Malformed:
            continue
        with pytest.raises(Malformed):
            read(data[:end], 0, version)


def test_names_are_counted() -> None:
    assert items_in(said(42, 0, groups_names=["a", "b"])) == 2
    assert items_in(said(3, 1, topics=None)) == 0
    rows = [{"partition_index": n, "timestamp": -1} for n in range(3)]
    assert items_in(said(2, 1, replica_id=-1, topics=[{"name": "t", "partitions": rows}])) == 4
    assert items_in(said(16, 0)) == 0
