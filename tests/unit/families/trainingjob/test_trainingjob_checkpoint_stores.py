"""Opening stores: whose keys are used, and that slow ones stop nobody."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any, cast

import obstore
import pytest

from corral.checkpoints.errors import InvalidLocation, StoreUnavailable
from corral.checkpoints.location import Location
from corral.checkpoints.objects import ObjectStore
from corral.checkpoints.places import Place
from corral.families.trainingjob.checkpoints.stores import Stores, StoreSettings
from corral.kube.client import KubeClient
from corral.kube.types import Obj

OTHERS = {
    "AWS_ACCESS_KEY_ID": "OPERATOR",
    "AWS_SECRET_ACCESS_KEY": "operator-secret",
    "AWS_SESSION_TOKEN": "operator-token",
    "AZURE_STORAGE_ACCOUNT_KEY": "b3BlcmF0b3I=",
}


class FakeClient:
    def __init__(self, **data: str) -> None:
        self.data = data
        self.reads = 0

    async def get(self, resource: Any, name: str, *, namespace: str) -> Obj:
        self.reads += 1
        return {"metadata": {"name": name, "namespace": namespace}, "data": self.data}


async def test_keys_of_the_process_are_not_mixed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in OTHERS.items():
        monkeypatch.setenv(name, value)
    client = FakeClient(AWS_ACCESS_KEY_ID="dXNlcg==", AWS_SECRET_ACCESS_KEY="dXNlcg==")
    with Stores(cast(KubeClient, client)) as stores:
        place = Place(Location("s3", "b", "p"), "keys")
        opened = await stores.open("a", place)
        assert opened.signer is not None
        store = opened.repository.store
        assert isinstance(store, ObjectStore)
        signed = [
            obstore.sign(store._client, "GET", "x", timedelta(seconds=60)),
            opened.signer.get("x", ttl=60).url,
        ]
        for url in signed:
            assert "user" in url
            assert "OPERATOR" not in url and "operator" not in url


async def test_opened_stores_are_remembered_for_a_minute() -> None:
    client, now = FakeClient(AZURE_STORAGE_ACCOUNT_KEY="dXNlcg=="), [0.0]
    with Stores(cast(KubeClient, client), monotonic=lambda: now[0]) as stores:
        place = Place(Location("az", "c", "p", account="acc"), "keys")
        first = await stores.open("a", place)
        assert await stores.open("a", place) is first
        assert await stores.open("b", place) is not first, "namespaces share no credentials"
        now[0] = 61.0
        assert await stores.open("a", place) is not first
        assert client.reads == 3


async def test_bad_keys_are_not_quoted() -> None:
    client = FakeClient(AZURE_STORAGE_ACCOUNT_KEY="VE9QU0VDUkVU")  # "TOPSECRET" is not base64
    with Stores(cast(KubeClient, client)) as stores:
        place = Place(Location("az", "c", "p", account="acc"), "keys")
        with pytest.raises(InvalidLocation) as caught:
            await stores.open("a", place)
        assert "TOPSECRET" not in str(caught.value)
        assert caught.value.__cause__ is None


async def test_a_call_that_hangs() -> None:
    held = threading.Event()
    settings = StoreSettings(call_timeout=0.01)
    with Stores(cast(KubeClient, FakeClient()), settings=settings) as stores:
        try:
            with pytest.raises(StoreUnavailable, match="did not answer"):
                await stores.call(held.wait)
            assert await stores.call(lambda: 1) == 1
        finally:
            held.set()
