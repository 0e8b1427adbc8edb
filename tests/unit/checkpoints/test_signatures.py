"""Signatures against published examples, and the folder's own."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from corral.checkpoints import InvalidSignature, LocalStore, SignatureExpired, StoreUnavailable
from corral.checkpoints.errors import AlreadyExists, NotFound, PermissionDenied, StoreError
from corral.checkpoints.signing import LocalSigner, SignedRequest
from corral.checkpoints.signing.http import Sender, error_of
from corral.checkpoints.signing.v4 import V4, amazon, object_url


def test_the_example_of_the_s3_manual() -> None:
    scheme = amazon(
        "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", region="us-east-1"
    )
    signed = scheme.presign(
        "GET", "https://examplebucket.s3.amazonaws.com/test.txt", now=1369353600, ttl=86400
    )
    assert parse_qs(urlsplit(signed.url).query)["X-Amz-Signature"] == [
        "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
    ]
    assert signed.expires == 1369440000


@pytest.mark.parametrize(
    ("day", "ttl", "host", "digest"),
    [
        (
            1549011600,
            10,
            "storage.googleapis.com",
            "00e2fb794ea93d7adb703edaebdd509821fcc7d4f1a79ac5c8d2b394df109320",
        ),
        (
            1551430800,
            20,
            "storage.googleapis.com",
            "779f19fdb6fd381390e2d5af04947cf21750277ee3c20e0c97b7e46a1dff8907",
        ),
        (
            1549011600,
            10,
            "xyz.googleapis.com",
            "4f6f519cc03e25d19fcd476d7a45bffcccdba33d10e00214a0f2debc204e2386",
        ),
    ],
)
def test_what_googles_conformance_tests_sign(day: int, ttl: int, host: str, digest: str) -> None:
    signed: list[str] = []

    def sign(date: str, message: bytes) -> bytes:
        signed.append(message.decode())
        return b"\xab"

    email = "test-iam-credentials@dummy-project-id.iam.gserviceaccount.com"
    scheme = V4("GOOG4-RSA-SHA256", "Goog", email, "auto/storage/goog4_request", sign)
    request = scheme.presign("GET", f"https://{host}/test-bucket/test-object", now=day, ttl=ttl)
    assert signed[0].splitlines()[-1] == digest
    assert request.url.endswith("&X-Goog-Signature=ab")


def test_temporary_credentials_and_conditions_are_signed() -> None:
    scheme = amazon("a", "s", region="r", token="t/+")
    signed = scheme.presign(
        "PUT", object_url("http://h", "a b"), now=0, ttl=1, headers={"If-None-Match": "*"}
    )
    assert "X-Amz-Security-Token=t%2F%2B" in signed.url
    assert "X-Amz-SignedHeaders=host%3Bif-none-match" in signed.url
    assert signed.headers == {"If-None-Match": "*"}
    assert "/a%20b?" in signed.url


@pytest.mark.parametrize("ttl", [0, -1, 604801])
def test_lifetimes_that_no_store_accepts(ttl: float) -> None:
    with pytest.raises(ValueError, match="7 days"):
        amazon("a", "s", region="r").presign("GET", "http://h/x", now=0, ttl=ttl)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def signer(tmp_path: Path, clock: Clock) -> LocalSigner:
    keys = {"old": b"o" * 32, "new": b"n" * 32}
    return LocalSigner(LocalStore(tmp_path), base="https://host/v1/files", keys=keys, clock=clock)


def test_a_folders_url(signer: LocalSigner, clock: Clock) -> None:
    signed = signer.put("jöb/a b", ttl=10, create=True)
    grant = signer.verify("PUT", signed.url)
    assert (grant.path, grant.create, grant.expires) == ("jöb/a b", True, 1010.0)
    target = signed.url.removeprefix("https://host")
    assert signer.verify("PUT", target) == grant
    clock.now = 1010.0
    with pytest.raises(SignatureExpired):
        signer.verify("PUT", signed.url)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a.bin", "b.bin"),
        ("create=1", "create=0"),
        ("expires=1010", "expires=9999"),
        ("kid=new", "kid=old"),
        ("kid=new", "kid=none"),
        ("sig=", "sig=0"),
        ("sig=", "sig=%C3%BC"),
        ("create=1", "create=1&create=1"),
        ("/a.bin", "/x/../a.bin"),
    ],
)
def test_a_changed_url_is_refused(signer: LocalSigner, old: str, new: str) -> None:
    url = signer.put("a.bin", ttl=10, create=True).url
    assert old in url
    with pytest.raises(InvalidSignature):
        signer.verify("PUT", url.replace(old, new))
    with pytest.raises(InvalidSignature):
        signer.verify("GET", url)


def test_replaced_keys_still_verify(tmp_path: Path, signer: LocalSigner, clock: Clock) -> None:
    before = LocalSigner(
        LocalStore(tmp_path), base="https://host/v1/files", keys={"old": b"o" * 32}, clock=clock
    )
    assert signer.verify("GET", before.get("x", ttl=5).url).path == "x"
    with pytest.raises(InvalidSignature):
        before.verify("GET", signer.get("x", ttl=5).url)
    with pytest.raises(ValueError, match="32 bytes"):
        LocalSigner(LocalStore(tmp_path), base="x", keys={"weak": b"short"})


REQUEST = SignedRequest("GET", "http://127.0.0.1:1/x?secret=1", 0.0)


def test_transient_errors_are_retried_with_jitter() -> None:
    pauses: list[float] = []
    sender = Sender(attempts=4, sleep=pauses.append, chance=lambda: 0.5)
    with pytest.raises(StoreUnavailable) as caught:
        sender.send(REQUEST)  # nobody listens on that port
    assert pauses == pytest.approx([0.05, 0.1, 0.2])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (503, StoreUnavailable),
        (429, StoreUnavailable),
        (403, PermissionDenied),
        (404, NotFound),
        (412, AlreadyExists),
        (409, AlreadyExists),
        (400, StoreError),
    ],
)
def test_what_answers_mean(status: int, kind: type[StoreError]) -> None:
    error = error_of(status, b"<Error><Code>SlowDown</Code></Error>", REQUEST)
    assert type(error) is kind
    assert "SlowDown" in str(error)
    other = error_of(status, b"<Error><Code>AnyWord</Code></Error>", REQUEST)
    assert "AnyWord" not in str(other), "what others say is not repeated"
