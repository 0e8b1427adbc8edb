"""What our broker does with what nobody should send it. Apache Kafka is not asked."""

from __future__ import annotations

import io
import os
import random
import socket
import struct
import subprocess

import pytest
from confluent_kafka.admin import AdminClient
from kio.schema.metadata.v1.request import MetadataRequest, MetadataRequestTopic
from kio.serial import entity_writer

from tests.cluster.broker.broker_servers import OwnBroker
from tests.cluster.broker.broker_wire import Wire, batch, produce_request

SEED = int(os.environ.get("CRASH_SEED", "20261116"))


def closed(sock: socket.socket) -> bool:
    """Whether the broker has ended it."""
    sock.settimeout(30)
    try:
        return sock.recv(65536) == b""
    except ConnectionError:
        return True


def works(own: OwnBroker) -> bool:
    return bool(AdminClient(own.client).list_topics(timeout=30).brokers)


@pytest.mark.parametrize("size", [-1, 0, 2**31 - 1, 200 * 2**20])
def test_a_frame_of_no_size(own: OwnBroker, size: int) -> None:
    with socket.create_connection(("127.0.0.1", own.port)) as sock:
        sock.sendall(struct.pack(">i", size) + b"x" * 100)
        assert closed(sock)
    assert works(own)


def test_a_request_that_is_not_offered(own: OwnBroker) -> None:
    with socket.create_connection(("127.0.0.1", own.port)) as sock:
        sock.sendall(struct.pack(">ihhih", 10, 24, 0, 1, -1))
        assert closed(sock)
    assert works(own)


def test_somebody_who_speaks_a_newer_version_is_told_ours(own: OwnBroker) -> None:
    with socket.create_connection(("127.0.0.1", own.port)) as sock:
        sock.sendall(struct.pack(">ihhih", 10, 18, 99, 5, -1))
        sock.settimeout(30)
        answer = sock.recv(65536)
    _, number, error, count = struct.unpack_from(">iihi", answer)
    assert (number, error) == (5, 35)
    assert count > 20


def test_noise(own: OwnBroker) -> None:
    """Requests with bytes changed, and bytes that never were a request."""
    rng = random.Random(SEED)
    request = produce_request("noise", batch(b"x" * 200, b"y"))
    header = type(request).__header_schema__(
        request_api_key=0, request_api_version=9, correlation_id=1, client_id="noise"
    )
    buffer = io.BytesIO()
    entity_writer(type(header))(buffer, header)
    entity_writer(type(request))(buffer, request)
    good = buffer.getvalue()
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            bad[rng.randrange(len(bad))] = rng.randrange(256)
        if rng.random() < 0.3:
            bad = bytearray(rng.randbytes(rng.randrange(1, 300)))
            bad[:2] = struct.pack(">h", rng.choice((0, 1, 2, 3, 8, 9, 10, 11, 14, 18, 19, 32)))
            bad[2:4] = struct.pack(">h", rng.randrange(0, 12))
        with socket.create_connection(("127.0.0.1", own.port)) as sock:
            sock.sendall(struct.pack(">i", len(bad)) + bad)
            sock.shutdown(socket.SHUT_WR)
            sock.settimeout(30)
            try:
                while sock.recv(65536):
                    continue
            except ConnectionError:
                continue
    assert own.process is not None
    assert own.process.poll() is None
    assert works(own)


def test_a_second_broker_on_the_folder_is_refused(own: OwnBroker) -> None:
    words = own.command()
    words[words.index("--port") + 1] = "0"
    done = subprocess.run(words, capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert b"stop that one first" in done.stderr


def test_many_requests_at_once_are_answered_in_order(own: OwnBroker) -> None:
    with Wire(own.port) as wire:
        made = MetadataRequest(topics=(MetadataRequestTopic(name="row"),))
        wire.ask(made)
        request = produce_request("row", batch(b"x"))
        for _ in range(500):
            wire.send(request)
        wire._number -= 500
        offsets = []
        for _ in range(500):
            wire._number += 1
            offsets.append(wire.receive(request).responses[0].partition_responses[0].base_offset)
    assert offsets == list(range(500))
