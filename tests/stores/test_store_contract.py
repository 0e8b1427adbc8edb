"""What every store guarantees."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from corral.checkpoints.errors import (
    AlreadyExists,
    Conflict,
    NotFound,
    PermissionDenied,
    StoreError,
)
from corral.checkpoints.location import Location, open_store
from corral.checkpoints.store import Store
from tests.stores.gcs_server import service_account_key
from tests.stores.servers import Served


def test_write_and_read_back(store: Store) -> None:
    store.write("a/b.bin", [b"hello ", b"world"])
    assert store.read("a/b.bin").data == b"hello world"
    assert store.stat("a/b.bin").size == 11
    store.write("a/b.bin", [b"other"])
    assert store.read("a/b.bin").data == b"other"


def test_empty_object(store: Store) -> None:
    store.write("empty", [])
    assert store.read("empty").data == b""


@pytest.mark.usefixtures("ranged")
def test_large_objects_go_in_parts(store: Store) -> None:
    block = os.urandom(1 << 20)
    store.write("large", (block for _ in range(40)))
    assert store.stat("large").size == 40 << 20
    middle = memoryview(bytearray(1 << 20))
    assert store.read_into("large", middle, start=21 << 20) == 1 << 20
    assert middle == block
    assert store.read_into("large", middle, start=(39 << 20) + 5) == (1 << 20) - 5
    assert store.read_into("large", middle, start=40 << 20) == 0


def test_a_failing_source_leaves_no_object(store: Store) -> None:
    def source() -> object:
        for _ in range(40):
            yield bytes(1 << 20)
        raise RuntimeError("the training died")

    with suppress(RuntimeError, StoreError):
        store.write("torn", source())  # type: ignore[arg-type]
    with pytest.raises(NotFound):
        store.read("torn")


@pytest.mark.usefixtures("conditional")
def test_create_only_once(store: Store) -> None:
    store.create("mark", b"1")
    with pytest.raises(AlreadyExists):
        store.create("mark", b"2")
    assert store.read("mark").data == b"1"


@pytest.mark.usefixtures("conditional")
def test_one_of_many_creators_wins(store: Store) -> None:
    def create(number: int) -> bool:
        try:
            store.create("race", str(number).encode())
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(create, range(16)))
    assert won.count(True) == 1
    assert store.read("race").data == str(won.index(True)).encode()


@pytest.mark.usefixtures("conditional")
def test_replace_only_what_was_read(store: Store) -> None:
    store.create("hint", b"1")
    seen = store.read("hint").etag
    store.replace("hint", b"2", etag=seen)
    with pytest.raises(Conflict):
        store.replace("hint", b"3", etag=seen)
    assert store.read("hint").data == b"2"


def test_listing(store: Store) -> None:
    for path in ("top", "x/1", "x/y/2", "z/3"):
        store.write(path, [path.encode()])
    assert store.entries("") == (["x", "z"], ["top"])
    assert store.entries("x") == (["y"], ["1"])
    assert {stat.path: stat.size for stat in store.walk("x")} == {"x/1": 3, "x/y/2": 5}
    assert store.entries("nowhere") == ([], [])
    assert list(store.walk("nowhere")) == []


def test_delete_twice(store: Store) -> None:
    store.write("a/1", [b"1"])
    store.delete(["a/1", "a/2"])
    store.delete(["a/1"])
    assert store.entries("a") == ([], [])


def test_absent(store: Store) -> None:
    with pytest.raises(NotFound):
        store.read("absent")
    with pytest.raises(NotFound):
        store.stat("absent")
    with pytest.raises(NotFound):
        store.read_into("absent", memoryview(bytearray(1)))


@pytest.mark.parametrize("name", ["with space", "ünïcode", "a+b&c=d", "100%25", "tilde~#hash?"])
def test_odd_names(store: Store, name: str) -> None:
    store.write(f"odd/{name}", [name.encode()])
    assert store.read(f"odd/{name}").data == name.encode()
    assert [stat.path for stat in store.walk("odd")] == [f"odd/{name}"]
    assert store.entries("odd")[1] == [name]
    store.delete([f"odd/{name}"])
    assert store.entries("odd") == ([], [])


def test_wrong_credentials_say_what_to_do(served: Served, location: Location) -> None:
    if location.scheme == "file":
        pytest.skip("a folder has no credentials")
    wrong = dict(served.credentials)
    if location.scheme == "s3":
        wrong["AWS_SECRET_ACCESS_KEY"] = "not the secret"
    elif location.scheme == "az":
        wrong["AZURE_STORAGE_ACCOUNT_KEY"] = "bm90IHRoZSBrZXk="
    else:
        # A wrong key, never none: without a key the client would ask for the machine's identity.
        wrong["GOOGLE_SERVICE_ACCOUNT_KEY"] = service_account_key(
            rsa.generate_private_key(65537, 2048), served.location.endpoint
        )
    with pytest.raises(PermissionDenied, match="check the keys"):
        open_store(location, wrong).create("x", b"")


def test_a_bucket_that_is_not_there(served: Served, location: Location) -> None:
    if location.scheme == "file":
        pytest.skip("folders are made")
    with pytest.raises(NotFound, match="check bucket and prefix"):
        open_store(replace(location, bucket="nobody"), served.credentials).read("x")


def test_transient_errors_are_ridden_out(served: Served, store: Store) -> None:
    if served.google is None:
        pytest.skip("only our own server can be told to fail")
    served.google.failures = [503, 500, 429]
    store.write("x", [b"1"])
    served.google.failures = [503]
    assert store.read("x").data == b"1"
    assert served.google.failures == []
