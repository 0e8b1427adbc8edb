"""A client that says exactly what a case wants said, in the protocol's own words."""

from __future__ import annotations

import io
import socket
import struct
from typing import Any

from crc32c import crc32c
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

HEADER = struct.Struct(">qiibIhiqqqhii")


def batch(
    *values: bytes,
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    timestamp: int = 1_700_000_000_000,
) -> bytes:
    """A record batch without compression."""
    records = b"".join(_record(number, value) for number, value in enumerate(values))
    last = len(values) - 1
    rest = struct.pack(
        ">hiqqqhii", 0, last, timestamp, timestamp, producer, epoch, sequence, len(values)
    )
    body = rest + records
    return struct.pack(">qiibI", 0, 9 + len(body), -1, 2, crc32c(body)) + body


def _record(number: int, value: bytes) -> bytes:
    body = b"\0" + _varint(0) + _varint(number) + _varint(-1) + _varint(len(value)) + value
    body += _varint(0)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    number = (value << 1) ^ (value >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


class Wire:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._number = 0

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def request(self, key: int, version: int) -> type[Any]:
        return load_request_schema(key, version)

    def send(self, request: Any) -> int:
        """Write it; the number of the answer."""
        self._number += 1
        kind = type(request)
        header = kind.__header_schema__(
            request_api_key=kind.__api_key__,
            request_api_version=kind.__version__,
            correlation_id=self._number,
            client_id="case",
        )
        buffer = io.BytesIO()
        entity_writer(type(header))(buffer, header)
        entity_writer(kind)(buffer, request)
        data = buffer.getvalue()
        self.sock.sendall(struct.pack(">i", len(data)) + data)
        return self._number

    def receive(self, request: Any) -> Any:
        kind = load_response_schema(type(request).__api_key__, type(request).__version__)
        frame = self._exactly(struct.unpack(">i", self._exactly(4))[0])
        header, size = entity_reader(kind.__header_schema__)(frame, 0)
        assert header.correlation_id == self._number
        return entity_reader(kind)(frame, size)[0]

    def ask(self, request: Any) -> Any:
        self.send(request)
        return self.receive(request)

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise ConnectionError("closed by the broker")
            data += more
        return data

    def produce(self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1) -> Any:
        """The partition's part of the answer; None without acks."""
        request = produce_request(topic, records, partition=partition, acks=acks)
        self.send(request)
        if acks == 0:
            return None
        return self.receive(request).responses[0].partition_responses[0]


def produce_request(topic: str, records: bytes, *, partition: int = 0, acks: int = -1) -> Any:
    from datetime import timedelta

    from kio.schema.produce.v9.request import (
        PartitionProduceData,
        ProduceRequest,
        TopicProduceData,
    )

    part = PartitionProduceData(index=partition, records=records)
    return ProduceRequest(
        acks=acks,
        timeout=timedelta(seconds=10),
        topic_data=(TopicProduceData(name=topic, partition_data=(part,)),),
    )
