"""Which endpoints are called."""

from __future__ import annotations

import pytest

from corral.egress import Allowance, EgressPolicy, EndpointRefused
from corral.egress.reading import AnswerTooLarge, decoded, load_json


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("https://store.example.com", ["93.184.216.34"]),
        ("https://store.example.com:9000", ["93.184.216.34", "2606:2800:220:1::1"]),
        ("https://s3.eu-west-1.amazonaws.com", ["10.1.2.3"]),
        ("https://bucket.s3.eu-west-1.amazonaws.com", ["10.1.2.3"]),
        ("https://storage.googleapis.com", ["199.36.153.8"]),
        ("https://acc.blob.core.windows.net", ["10.1.2.3"]),
    ],
)
def test_what_is_called(url: str, addresses: list[str]) -> None:
    EgressPolicy().check(url, addresses)


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("http://store.example.com", ["93.184.216.34"]),
        ("https://store.example.com", ["93.184.216.34", "127.0.0.1"]),
        ("https://store.example.com", ["10.0.0.1"]),
        ("https://store.example.com", ["169.254.169.254"]),
        ("https://store.example.com", ["fe80::1%eth0"]),
        ("https://store.example.com", ["::"]),
        ("https://store.example.com", ["224.0.0.1"]),
        ("https://store.example.com", ["255.255.255.255"]),
        ("https://store.example.com", ["64:ff9b::a00:1"]),
        ("https://s3.eu-west-1.amazonaws.com", ["127.0.0.1"]),
        ("https://metadata.googleapis.com", ["169.254.169.254"]),
        ("https://ec2-1-2-3-4.compute-1.amazonaws.com", ["10.0.0.1"]),
        ("https://s3.eu-west-1.amazonaws.com.evil.example", ["10.0.0.1"]),
        ("https://user:password@store.example.com", ["93.184.216.34"]),
        ("ftp://store.example.com", ["93.184.216.34"]),
        ("https://", ["93.184.216.34"]),
        ("https://store.example.com:99999", ["93.184.216.34"]),
    ],
)
def test_what_is_not(url: str, addresses: list[str]) -> None:
    with pytest.raises(EndpointRefused):
        EgressPolicy().check(url, addresses)


@pytest.mark.parametrize(
    ("allowance", "url", "addresses", "permitted"),
    [
        ("10.0.0.0/8", "http://minio.example:9000", ["10.1.1.1"], True),
        ("10.0.0.0/8", "http://minio.example:9000", ["10.1.1.1", "11.1.1.1"], False),
        ("10.0.0.0/8:9000", "http://10.1.1.1:9001", ["10.1.1.1"], False),
        ("minio.example", "http://MINIO.example.:9000", ["127.0.0.1"], True),
        ("minio.example:9000", "http://minio.example:9001", ["127.0.0.1"], False),
        ("minio.example", "http://a.minio.example", ["127.0.0.1"], False),
        ("127.0.0.1", "http://127.0.0.1:5", ["127.0.0.1"], True),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]:5", ["::ffff:127.0.0.1"], True),
        ("[::1]:5", "http://[::1]:5", ["::1"], True),
        ("::1", "http://[::1]:7", ["::1"], True),
        ("http://127.0.0.1:5", "http://127.0.0.1:5", ["127.0.0.1"], True),
        ("http://127.0.0.1:5", "http://127.0.0.1:6", ["127.0.0.1"], False),
    ],
)
def test_allowances(allowance: str, url: str, addresses: list[str], permitted: bool) -> None:
    policy = EgressPolicy.of([allowance])
    if permitted:
        policy.check(url, addresses)
    else:
        with pytest.raises(EndpointRefused):
            policy.check(url, addresses)


@pytest.mark.parametrize("text", ["", "a b", "host:0", "host:x", "10.0.0.0/99", "[::1]:", "-a"])
def test_what_is_no_allowance(text: str) -> None:
    with pytest.raises(ValueError):
        Allowance.parse(text)


def test_only_what_is_named() -> None:
    policy = EgressPolicy.of(["kafka.example:9092", "10.0.0.0/8"])
    assert policy.names("kafka.example", 9092) and policy.names("10.1.1.1", 1)
    assert not policy.names("kafka.example", 9093)
    assert not policy.names("public.example", 9092)


def test_bounded_answers() -> None:
    import gzip

    packed = gzip.compress(bytes(1000))
    assert decoded(packed, "gzip", 1000) == bytes(1000)
    assert decoded(b"x", "", 1) == b"x"
    with pytest.raises(AnswerTooLarge):
        decoded(packed, "gzip", 999)
    with pytest.raises(OSError, match="not asked for"):
        decoded(packed, "br", 1000)
    with pytest.raises(OSError, match="unpacked"):
        decoded(b"no gzip", "gzip", 1000)
    with pytest.raises(ValueError):
        load_json(b"[" * 100_000)
