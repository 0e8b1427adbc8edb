"""What may be opened with whose credentials."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from corral.checkpoints.places import PlaceRefused, StoreRules
from corral.egress import EgressPolicy
from corral.families.trainingjob.checkpoints.credentials import CredentialsMissing, usable
from corral.families.trainingjob.checkpoints.places import (
    address_place,
    checkpoint_place,
    checkpoint_uri,
    job_place,
    local_folder,
)
from corral.families.trainingjob.checkpoints.summaries import JOB_UID, STORAGE
from corral.kube.types import Obj

ID = "step-000000000007.abc"
UID = "00000000-0000-0000-0000-000000000001"
OTHER = "00000000-0000-0000-0000-000000000002"
RULES = StoreRules()


def job(storage: Obj, namespace: str = "team-a") -> Obj:
    metadata = {"name": "mnist", "namespace": namespace, "uid": UID}
    return {"metadata": metadata, "spec": {"checkpoint": {"storage": storage}}}


def s3(**more: Any) -> Obj:
    return {"s3": {"bucket": "b", **more}}


OWN = {"secretRef": {"name": "keys"}}


def test_every_job_has_a_folder_of_its_own() -> None:
    place = job_place(job(s3(prefix="x/y", region="eu-1")), RULES)
    assert place is not None
    assert place.location.prefix == f"x/y/team-a/mnist/{UID}"
    assert place.secret is None
    address = f"s3://b/x/y/team-a/mnist/{UID}/{ID}?region=eu-1"
    assert checkpoint_uri(job(s3()), place, ID) == address
    assert job_place(job({"pvc": {"size": "1Gi"}}), RULES) is None
    assert checkpoint_uri(job(s3()), None, ID) == f"pvc://mnist-checkpoints/{ID}"
    azure = {"azure": {"account": "acc", "container": "c", **OWN}}
    place = job_place(job(azure), RULES)
    assert place is not None and place.secret == "keys"


@pytest.mark.parametrize(
    "storage",
    [
        s3(endpoint="http://evil.test"),
        s3(bucket="a/../b"),
        s3(bucket="../b"),
        s3(prefix="../../other"),
        s3(prefix="a//b"),
        s3(region="evil.test/"),
        {"azure": {"account": "evil.test/", "container": "c"}},
        {"local": {}},
        {},
        {"s3": None},
    ],
)
def test_refused(storage: Obj) -> None:
    with pytest.raises(PlaceRefused):
        job_place(job(storage), RULES)


def test_what_administrators_allow() -> None:
    rules = StoreRules(endpoints=frozenset({"http://minio:9000"}), buckets=("s3://b/train",))
    assert job_place(job(s3(endpoint="http://minio:9000", prefix="train/x")), rules)
    for storage in (s3(prefix="training"), s3(bucket="c", prefix="train")):
        with pytest.raises(PlaceRefused, match="not for this bucket"):
            job_place(job(storage), rules)
    assert job_place(job(s3(bucket="c", **OWN)), rules), "own keys open what they open"


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        (f"s3://b/team-a/other/{OTHER}/{ID}", True),
        (f"s3://b/deep/down/team-a/other/{OTHER}/{ID}", True),
        (f"s3://another-bucket/team-a/other/{OTHER}/{ID}", True),
        (f"s3://b/team-b/other/{OTHER}/{ID}", False),
        (f"s3://b/team-b/team-a/{OTHER}/{ID}", False),  # a job named like our namespace
        (f"s3://b/team-a/team-b/mnist/{OTHER}/{ID}", False),
        (f"s3://b/team-b/team-a/{OTHER}/replica-0/{ID}", False),  # a copy of such a spot job
        (f"s3://b/team-a/other/{OTHER}/replica-0/{ID}", False),
        (f"s3://b/team-a/other/u-2/{ID}", False),
        (f"s3://b/team-a/other/{OTHER}-0/{ID}", False),
        (f"s3://b/team-a/../team-b/x/{ID}", False),
        (f"s3://b/{ID}", False),
        (f"s3://b/team-a/other/{OTHER}/data", False),
        (f"s3://b/team-a/other/{OTHER}/{ID}?endpoint=http://evil.test", False),
        (f"gs://b/team-a/other/{OTHER}/{ID}", False),
        (f"file:///etc/{ID}", False),
        (f"/etc/{ID}", False),
    ],
)
def test_addresses_with_the_operators_keys(address: str, allowed: bool) -> None:
    if allowed:
        place, identifier = address_place(job(s3()), address, RULES)
        assert (identifier, place.secret) == (ID, None)
    else:
        with pytest.raises(PlaceRefused):
            address_place(job(s3()), address, RULES)


def test_addresses_with_own_keys() -> None:
    place, _ = address_place(job(s3(**OWN)), f"s3://anything/anywhere/{ID}", RULES)
    assert (place.location.prefix, place.secret) == ("anywhere", "keys")
    with pytest.raises(PlaceRefused, match="elsewhere"):
        address_place(job(s3(**OWN)), f"s3://b/x/{ID}?endpoint=http://evil.test", RULES)
    with pytest.raises(PlaceRefused, match="no credentials"):
        address_place(job({"pvc": {}}), f"s3://b/x/{ID}", RULES)


def checkpoint(uri: str, storage: Obj) -> Obj:
    notes = {STORAGE: json.dumps(storage), JOB_UID: UID}
    spec = {"uri": uri, "jobRef": {"name": "mnist"}}
    return {"metadata": {"namespace": "team-a", "annotations": notes}, "spec": spec}


def test_checkpoint_objects_are_not_trusted() -> None:
    """Users can write them: the same rules hold."""
    good = checkpoint(f"s3://b/team-a/mnist/{UID}/{ID}", s3())
    place, identifier = checkpoint_place(good, RULES)
    assert place is not None and identifier == ID
    for uri, storage in (
        (f"s3://b/team-b/mnist/{UID}/{ID}", s3()),
        (f"s3://b/team-a/mnist/{UID}/{ID}", {}),
        (f"file:///home/somebody/{ID}", {"local": {}}),
        (f"file:///home/somebody/{ID}", s3(**OWN)),
        (f"s3://b/team-b/mnist/{UID}/{ID}", s3(**OWN)),
        (f"s3://b/team-a/other/{UID}/{ID}", s3(**OWN)),
        (f"s3://b/team-a/mnist/{OTHER}/{ID}", s3(**OWN)),
        ("pvc://claim/../../etc", {}),
    ):
        with pytest.raises(PlaceRefused):
            checkpoint_place(checkpoint(uri, storage), RULES)
    assert checkpoint_place(checkpoint(f"pvc://claim/{ID}", {}), RULES) == (None, ID)


LOCAL = StoreRules(local_root=Path("/data"), local_folders=(("team-a", Path("/shared/a")),))


@pytest.mark.parametrize(
    ("folder", "base"),
    [
        (f"/data/team-a/mnist/{UID}", "/data/team-a"),
        ("/shared/a/anything", "/shared/a"),
        (f"/data/team-b/mnist/{UID}", None),
        (f"/data/team-a/../team-b/mnist/{UID}", None),
        (f"/data/team-a/other/{UID}", None),
        ("/data", None),
        ("/shared/b", None),
        ("/", None),
    ],
)
def test_folders_of_checkpoint_objects(folder: str, base: str | None) -> None:
    local = checkpoint(f"file://{folder}/{ID}", {"local": {}})
    if base is None:
        with pytest.raises(PlaceRefused):
            checkpoint_place(local, LOCAL)
        return
    place, _ = checkpoint_place(local, LOCAL)
    assert place is not None and (place.location.prefix, place.base) == (folder, base)


@pytest.mark.parametrize(
    "endpoint",
    [
        "http://127.0.0.1:7999",
        "https://127.0.0.1",
        "https://169.254.169.254",
        "https://10.96.0.1",
        "https://[::1]:9000",
        "https://[::ffff:127.0.0.1]",
        "http://minio.example:9000",
    ],
)
def test_servers_that_are_not_called(endpoint: str) -> None:
    with pytest.raises(PlaceRefused, match="--allow-endpoint"):
        job_place(job(s3(endpoint=endpoint, **OWN)), RULES)
    rules = StoreRules(egress=EgressPolicy().allowing(endpoint))
    assert job_place(job(s3(endpoint=endpoint, **OWN)), rules)


def test_local_folders() -> None:
    root = Path("/root")
    assert local_folder(job({"local": {}}), root) == root / f"team-a/mnist/{UID}"
    assert local_folder(job({"local": {"path": "/elsewhere"}}), root) == Path("/elsewhere")


# --- credentials -----------------------------------------------------------------------------


def secret(**data: str) -> Obj:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {"metadata": {"namespace": "a", "name": "keys"}, "data": encoded}


def test_only_what_is_needed_is_taken() -> None:
    given = secret(AWS_ACCESS_KEY_ID="id\n", AWS_SECRET_ACCESS_KEY="key", AWS_PROFILE="admin")
    assert usable(given, "s3") == {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "key"}
    key = json.dumps({"private_key": "k", "client_email": "e"})
    assert usable(secret(GOOGLE_SERVICE_ACCOUNT_KEY=key), "gs")
    assert usable(secret(AZURE_STORAGE_ACCOUNT_KEY="k"), "az")


@pytest.mark.parametrize(
    ("scheme", "data"),
    [
        ("s3", {"AWS_ACCESS_KEY_ID": "only"}),
        ("s3", {}),
        ("gs", {"GOOGLE_APPLICATION_CREDENTIALS": "/etc/passwd"}),
        ("gs", {"credentials.json": "{}"}),
        ("gs", {"credentials.json": "not json TOPSECRET"}),
        ("az", {"AZURE_FEDERATED_TOKEN_FILE": "/etc/passwd"}),
        ("az", {"AZURE_STORAGE_SAS_TOKEN": "TOPSECRET"}),
    ],
)
def test_incomplete_secrets(scheme: str, data: dict[str, str]) -> None:
    with pytest.raises(CredentialsMissing) as caught:
        usable(secret(**data), scheme)
    assert "TOPSECRET" not in str(caught.value)


def test_values_that_are_no_text() -> None:
    broken = {"metadata": {"name": "k"}, "data": {"AWS_ACCESS_KEY_ID": "/w=="}}
    with pytest.raises(CredentialsMissing, match="not text"):
        usable(broken, "s3")
