"""Addresses of stores, and the commands that take them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import corral.checkpoints
from corral.checkpoints import (
    CheckpointError,
    InvalidLocation,
    LocalStore,
    Location,
    NotFound,
    Reason,
    from_storage,
    open_store,
    parse,
)
from corral.checkpoints.commands import (
    list_checkpoints,
    open_repository,
    restore_checkpoint,
    verify_checkpoints,
)
from corral.checkpoints.location import service_account


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/data/x", Location("file", prefix="/data/x")),
        ("file:///data/a%20b", Location("file", prefix="/data/a b")),
        ("s3://b", Location("s3", "b")),
        ("s3://b/p/q/", Location("s3", "b", "p/q")),
        (
            "s3://b/p?endpoint=http%3A%2F%2F127.0.0.1%3A9000&region=r",
            Location("s3", "b", "p", "http://127.0.0.1:9000", "r"),
        ),
        ("gcs://b/p", Location("gs", "b", "p")),
        ("azure://c/p?account=a", Location("az", "c", "p", account="a")),
    ],
)
def test_addresses(url: str, expected: Location) -> None:
    location = parse(url)
    assert location == expected
    assert parse(location.url) == location


@pytest.mark.parametrize(
    ("url", "advice"),
    [
        ("ftp://x/y", "use /path"),
        ("relative/path", "use /path"),
        ("file://host/x", "absolute"),
        ("s3:///x", "BUCKET"),
        ("s3://key:secret@b/x", "without credentials"),
        ("s3://b?colour=red", "known are endpoint, region"),
        ("s3://b?endpoint=localhost:9000", "looks like"),
    ],
)
def test_addresses_that_are_refused(url: str, advice: str) -> None:
    with pytest.raises(InvalidLocation, match=advice):
        parse(url)


@pytest.mark.parametrize(
    ("storage", "expected"),
    [
        ({"pvc": {"size": "50Gi"}}, Location("file", prefix="/checkpoints")),
        ({"local": None}, Location("file", prefix="/checkpoints")),
        (
            {"s3": {"bucket": "b", "prefix": "/p/", "region": "r", "secretRef": {"name": "s"}}},
            Location("s3", "b", "p", region="r"),
        ),
        ({"gcs": {"bucket": "b"}}, Location("gs", "b")),
        ({"azure": {"container": "c", "account": "a"}}, Location("az", "c", account="a")),
    ],
)
def test_storage_of_a_job(storage: dict[str, Any], expected: Location) -> None:
    assert from_storage(storage) == expected


@pytest.mark.parametrize(
    "storage", [{}, {"s3": {}}, {"pvc": {}, "s3": {}}, {"tape": {"bucket": "x"}}]
)
def test_storage_that_is_refused(storage: dict[str, Any]) -> None:
    with pytest.raises(InvalidLocation):
        from_storage(storage)


def test_below() -> None:
    assert parse("s3://b/p").below("ns", "/job/").prefix == "p/ns/job"
    assert parse("/data").below("job").prefix == "/data/job"
    assert parse("s3://b").below("job").url == "s3://b/job"


def test_service_accounts(tmp_path: Path) -> None:
    account = {"client_email": "e", "private_key": "k"}
    file = tmp_path / "key.json"
    file.write_text(json.dumps(account))
    assert service_account({"GOOGLE_APPLICATION_CREDENTIALS": str(file)}) == account
    assert service_account({"credentials.json": json.dumps(account)}) == account
    assert service_account({"GOOGLE_SERVICE_ACCOUNT_KEY": "{}"}) is None
    assert service_account({}) is None
    with pytest.raises(InvalidLocation, match="cannot be read"):
        service_account({"GOOGLE_SERVICE_ACCOUNT_KEY": "nonsense"})
    with pytest.raises(InvalidLocation, match="cannot be read"):
        service_account({"GOOGLE_SERVICE_ACCOUNT": str(tmp_path / "absent")})


def test_opening(tmp_path: Path) -> None:
    assert isinstance(open_store(str(tmp_path)), LocalStore)
    with pytest.raises(InvalidLocation, match="account=NAME"):
        open_store("az://container", {})


def test_commands(tmp_path: Path) -> None:
    repository = open_repository(str(tmp_path / "store"))
    for step in (1, 2, 3):
        with repository.begin(step) as writer:
            writer.add("w", [b"%d" % step * 10])
            writer.commit()
    dead = repository.begin(4)
    dead.add("w", [b"4"])
    rows = list_checkpoints(repository)
    assert [(row.step, row.status) for row in rows] == [
        (3, "Ready"),
        (2, "Ready"),
        (1, "Ready"),
        (None, Reason.INCOMPLETE),
    ]
    assert rows[0].bytes == 10
    newest = tmp_path / "store" / rows[0].name / "w"
    newest.write_bytes(b"3333x33333")
    checked = verify_checkpoints(repository)
    assert [row.status for row in checked[:3]] == [Reason.CORRUPT, "Verified", "Verified"]
    assert verify_checkpoints(repository, rows[0].name)[0].status == Reason.CORRUPT
    assert verify_checkpoints(repository, dead.id)[0].status == Reason.INCOMPLETE
    result = restore_checkpoint(repository, tmp_path / "out")
    assert (result["step"], len(result["skipped"])) == (2, 1)
    assert (tmp_path / "out/w").read_bytes() == b"2" * 10
    assert len(list_checkpoints(repository, broken=False)) == 3  # looking changed nothing
    with pytest.raises(CheckpointError, match="empty folder"):
        restore_checkpoint(repository, tmp_path / "out")
    with pytest.raises(NotFound):
        restore_checkpoint(repository, tmp_path / "other", "step-9.x")


def test_public_names() -> None:
    names = corral.checkpoints.__all__
    assert names == sorted(names)
    assert all(hasattr(corral.checkpoints, name) for name in names)
