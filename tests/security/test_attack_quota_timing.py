"""When a quota refuses says nothing about others: what A may do is the same whatever B does.

What is compared is the whole sequence of answers, with their words: not the time that they take,
which depends on the machine.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from corral.cluster.broker.errors import BrokerError
from corral.cluster.broker.settings import Limits, Share
from corral.cluster.broker.tenants import Tenants
from corral.cluster.registry.errors import Refused
from corral.cluster.registry.settings import StoreSettings
from corral.cluster.registry.store import Store
from corral.gateway.limits import LimitSettings
from corral.oci.manifest import digest_of
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.unit.gateway.gateway_stage import Stage
from tests.unit.gateway.test_gateway_app import path

ROUTE = pytest.mark.route("timing of quotas")


# -- API server ------------------------------------------------------------------------------------


@pytest.mark.attack(
    "tenant against tenant",
    "learns from its ResourceQuota how much another namespace has, by when and how it refuses",
    "it counts its own namespace alone: the answers are the same to the word",
)
@ROUTE
def test_resource_quotas(backend: Backend, cluster: Objects, unique: str) -> None:
    answers = []
    for busy in (False, True):
        names = {who: f"{who}-{unique}-{int(busy)}" for who in ("mine", "theirs")}
        for name in names.values():
            about = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            cluster.create("namespaces", about)
            quota = {"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "4"}}}
            inside = Objects(backend, name)
            inside.create("resourcequotas", {"apiVersion": "v1", "kind": "ResourceQuota", **quota})
            counted(inside)
        if busy:
            filled(backend, names["theirs"])
        answers.append(
            [
                (code, words.replace(names["mine"], ""))
                for code, words in filled(backend, names["mine"])
            ]
        )
        for name in names.values():
            cluster.delete("v1", "namespaces", name)
    assert answers[0] == answers[1]
    assert {code for code, _ in answers[0]} == {201, 403}


def counted(inside: Objects) -> None:
    """Wait until the quota says what there is, the Secrets that every namespace is given too."""

    def steady() -> bool:
        found = inside.get("v1", "resourcequotas", "q").get("status") or {}
        used = (found.get("used") or {}).get("count/secrets")
        return used is not None and int(used) == len(inside.names("v1", "secrets"))

    eventually(lambda: inside.find("v1", "serviceaccounts", "default"))
    eventually(steady)


def filled(backend: Backend, namespace: str) -> list[tuple[int, str]]:
    """Secrets until well beyond the quota."""
    answers = []
    for number in range(8):
        about = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s{number}"}}
        reply = backend.request("POST", f"/api/v1/namespaces/{namespace}/secrets", about)
        answers.append((reply.code, "" if reply.code == 201 else reply.json()["message"]))
    return answers


# -- gateway ---------------------------------------------------------------------------------------


@pytest.mark.attack(
    "tenant against tenant",
    "learns from the gateway's 429 how much another user asks",
    "rates are of a user: the answers are the same, however much another asks in between",
)
@ROUTE
async def test_rates_of_the_gateway() -> None:
    found = []
    for theirs in (0, 1, 30):
        stage = Stage(LimitSettings(rate=0.001, burst=5))
        stage.gateway.users |= {"mine": "mallory", "other": "alice"}
        codes = []
        for _ in range(8):
            for _ in range(theirs):
                await stage.ask("GET", path("/pi"), token="other")
            codes.append((await stage.ask("GET", path("/pi"), token="mine")).status)
        found.append(codes)
    assert found[0] == found[1] == found[2]
    assert set(found[0]) == {200, 429}


# -- registry --------------------------------------------------------------------------------------


@pytest.mark.attack(
    "tenant against tenant",
    "learns by its quota of the registry whether another namespace has a blob, or how many",
    "a blob counts for whoever pushes it, whoever has it too; the answers are the same to the word",
)
@ROUTE
def test_bytes_in_the_registry(tmp_path: Path) -> None:
    blobs = [bytes([65 + number]) * 30_000 for number in range(5)]
    found = []
    for name, theirs in (("idle", []), ("same", blobs[:2]), ("full", blobs)):
        kept = Store(tmp_path / name, StoreSettings(max_namespace=100_000))
        pushed(kept, "theirs/x", theirs)
        found.append(pushed(kept, "mine/x", blobs))
        kept.close()
    assert found[0] == found[1] == found[2]
    assert found[0][0] == "" and "of at most 100000" in found[0][-1]


def pushed(kept: Store, repository: str, blobs: list[bytes]) -> list[str]:
    """What was said of each; nothing where it was taken."""
    said = []
    for content in blobs:
        upload = kept.begin(repository, "me")
        try:
            kept.append(upload, [content])
            kept.finish(repository, upload, digest_of(content))
        except Refused as error:
            said.append(str(error))
        else:
            said.append("")
    return said


@pytest.mark.attack(
    "tenant against tenant",
    "asks its own repository for a blob that another namespace has, to learn that it is there",
    "it is not in that repository, as one that nobody has",
)
@ROUTE
def test_blobs_of_others_in_the_registry(tmp_path: Path) -> None:
    kept = Store(tmp_path, StoreSettings())
    secret = b"another's model" * 100
    pushed(kept, "theirs/x", [secret])
    pushed(kept, "mine/x", [b"own"])
    answers = []
    for digest in (digest_of(secret), digest_of(b"nobody's")):
        with pytest.raises(Refused) as refused:
            kept.blob("mine/x", digest)
        answers.append(str(refused.value).replace(str(digest), ""))
    assert answers[0] == answers[1]
    assert kept.blob("mine/x", digest_of(b"own"))
    kept.close()


# -- broker ----------------------------------------------------------------------------------------


@pytest.mark.attack(
    "tenant against tenant",
    "learns from the broker's refusals how many topics another namespace makes",
    "shares are of a namespace: the answers are the same to the word",
)
@ROUTE
def test_shares_of_the_broker() -> None:
    limits = Limits(share=Share(topics=4, partitions=6, changes=10**6))
    found = []
    for theirs in (0, 3, 20):
        tenants = Tenants(limits)
        other = tenants.get("theirs.uid")
        made(other, theirs)
        found.append(made(tenants.get("mine.uid"), 8))
    assert found[0] == found[1] == found[2]
    assert "namespace mine may have" in found[0][-1]


def made(tenant: Any, count: int) -> list[str]:
    """What was said of each topic with a partition."""
    said = []
    for number in range(count):
        try:
            tenant.check_room(1, 1)
            tenant.change(2)
        except BrokerError as error:
            said.append(str(error))
        else:
            tenant.topics[f"t{number}"] = object()
            tenant.partitions += 1
            said.append("")
    return said
