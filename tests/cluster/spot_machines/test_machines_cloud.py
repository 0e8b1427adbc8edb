"""Machines of a cloud: credentials from a Secret, joined over SSH, refused, taken and deleted.

The cloud is a server on loopback with Google's API, the machine a real sshd; its node is written
down here, as a kubelet would do it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from corral.api.spot.kinds import CLOUD_LABEL, INSTANCE_LABEL
from corral.clouds import OWNER_LABEL, REQUEST_LABEL
from corral.egress import EgressPolicy
from tests.clouds.gcp_server import GcpServer
from tests.clouds.joiner.vm import Machine
from tests.cluster.apps.loops import LoopThread
from tests.cluster.objects import eventually
from tests.cluster.spot_machines.machines_stage import API, VMS, Stage

Obj = dict[str, Any]
ZONE = "us-central1-a"
PLACE = {"cloud": "gcp", "region": "us-central1", "zone": ZONE, "machineType": "n1-standard-1"}
HASH = "sha256:" + "ab" * 32
TOKEN = "abcdef.0123456789abcdef"


class Google(LoopThread):
    """Compute Engine, in a thread of its own."""

    def __init__(self) -> None:
        super().__init__("google")

    async def work(self, ready: Callable[[], None]) -> None:
        self.server = GcpServer()
        self.server.address = "127.0.0.1"
        await self.server.start()
        ready()
        try:
            await asyncio.Event().wait()
        finally:
            await self.server.stop()

    def names(self) -> set[str]:
        return {name for _, name in self.server.instances}


@pytest.fixture
def google() -> Iterator[Google]:
    made = Google()
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def service_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def secret(stage: Stage, name: str, **data: str) -> None:
    encoded = {key.replace("_", "-"): value for key, value in data.items()}
    body = {key: base64.b64encode(value.encode()).decode() for key, value in encoded.items()}
    meta = {"name": name}
    stage.objects.create(
        "secrets", {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": body}
    )


@pytest.fixture
def cloudy(stage: Stage, google: Google, service_key: str) -> Stage:
    """An operator, a job with credentials, and machines of Google's."""
    account = {
        "client_email": "a@p.example",
        "private_key": service_key,
        "token_uri": f"{google.server.endpoint}/token",
    }
    body = {"credentials.json": base64.b64encode(json.dumps(account).encode()).decode()}
    stage.objects.create(
        "secrets",
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "google"}, "data": body},
    )
    stage.settings_of_cloud("gcp", endpoint=google.server.endpoint)
    stage.settings = replace(stage.settings, egress=EgressPolicy.of(["127.0.0.1"]))
    return stage


def machines(stage: Stage, **spec: Any) -> None:
    gcp = {"project": "p", "zone": ZONE, "machineType": PLACE["machineType"]}
    meta = {"name": "here"}
    body = {"vmImage": "projects/debian-cloud/global/images/family/debian-12", "gcp": gcp, **spec}
    stage.objects.create(
        VMS, {"apiVersion": API, "kind": "SpotInstanceVM", "metadata": meta, "spec": body}
    )


def kubelet(stage: Stage, name: str, status: str = "True") -> None:
    """What the kubelet of a machine writes when it has joined."""
    if stage.node(name) is None:
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
        stage.cluster.create("nodes", body)
    ready = {"type": "Ready", "status": status, "reason": "Kubelet", "message": ""}
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), "2026-01-15T08:00:00Z")
    patch = {"status": {"conditions": [{**ready, **times}]}}
    stage.cluster.patch("v1", "nodes", name, patch, subresource="status")


@pytest.fixture
def machine(tmp_path: Path, google: Google) -> Iterator[Machine]:
    """Where ssh leads to."""
    made = Machine(tmp_path)
    (made.cluster / "ca-hash").write_text(HASH)
    kind, key = made.host_key[1].split()[:2]
    item = {"namespace": "hostkeys", "key": kind, "value": key}
    google.server.guest_attributes = {"queryValue": {"items": [item]}}
    made.boot()
    yield made
    made.stop()


def by_ssh(stage: Stage, machine: Machine) -> Obj:
    secret(stage, "node-ssh-key", ssh_privatekey=machine.user_key[0])
    ssh = {
        "user": "root",
        "port": machine.port,
        "privateKeySecretRef": {"name": "node-ssh-key"},
    }
    config = {"caCertHash": HASH, "controlPlaneEndpoint": "10.0.0.1:6443"}
    return {"ssh": ssh, "kubeadmJoinConfig": config}


def test_a_machine_joins_over_ssh_and_goes(cloudy: Stage, google: Google, machine: Machine) -> None:
    (machine.cluster / "tokens" / "abcdef").write_text(TOKEN.partition(".")[2])
    secret(cloudy, "kubeadm-join-token", token=TOKEN)
    machines(cloudy, **by_ssh(cloudy, machine))
    known, google.server.guest_attributes = google.server.guest_attributes, {}
    cloudy.job(credentialsSecretRef={"name": "google"})
    cloudy.start()
    cloudy.wish("m-0-1", **PLACE)
    eventually(lambda: google.server.faults.requests["guest"])
    google.server.guest_attributes = known  # a machine that has booted tells its host keys
    joined = machine.cluster / "joined"
    eventually(lambda: joined.exists() and joined.read_text().strip(), seconds=60)
    (record,) = map(json.loads, joined.read_text().splitlines())
    registration = record["config"]["nodeRegistration"]
    assert registration["name"] == "m-0-1"
    assert registration["taints"][0]["key"] == INSTANCE_LABEL
    (body,) = google.server.inserted
    items = {item["key"]: item["value"] for item in body["metadata"]["items"]}
    assert items["ssh-keys"].split()[:2] == f"root:{machine.user_key[1]}".split()[:2]
    entry = cloudy.entry("m-0-1")
    assert body["labels"][REQUEST_LABEL] == entry["requestID"]
    assert body["labels"][OWNER_LABEL].startswith("corral-")
    assert TOKEN not in json.dumps(body)
    kubelet(cloudy, "m-0-1")
    cloudy.await_entry("m-0-1", joinedCluster=True, state="RUNNING")
    node = eventually(lambda: (n := cloudy.node("m-0-1")) and n["spec"].get("taints") and n)
    assert node["metadata"]["labels"][CLOUD_LABEL] == "gcp"
    cloudy.wish()
    cloudy.await_entry("m-0-1", state="TERMINATED", reason="Deleted")
    assert google.names() == set()
    assert cloudy.node("m-0-1") is None


def test_a_machine_whose_token_is_refused_is_given_back(
    cloudy: Stage, google: Google, machine: Machine
) -> None:
    secret(cloudy, "kubeadm-join-token", token=TOKEN)
    machines(cloudy, **by_ssh(cloudy, machine))
    cloudy.job(credentialsSecretRef={"name": "google"})
    cloudy.start()
    cloudy.wish("m-0-1", **PLACE)
    entry = cloudy.await_entry("m-0-1", state="TERMINATED", reason="NotJoined")
    assert "could not find a JWS signature" in entry["message"]
    assert "token was ***" in entry["message"]
    eventually(lambda: cloudy.entry("m-0-1").get("endTime"))
    assert google.names() == set()
    tokens = [
        name
        for name in type(cloudy.cluster)(cloudy.backend, "kube-system").names("v1", "secrets")
        if name.startswith("bootstrap-token-")
    ]
    assert tokens == []


def test_a_cloud_takes_a_machine_and_has_no_other(cloudy: Stage, google: Google) -> None:
    machines(cloudy)
    cloudy.job(credentialsSecretRef={"name": "google"})
    cloudy.start()
    cloudy.wish("m-0-1", **PLACE)
    cloudy.await_entry("m-0-1", state="RUNNING")
    google.server.take(ZONE, "m-0-1")
    cloudy.await_entry("m-0-1", state="TERMINATED")
    google.server.failing = [{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "none left"}]
    cloudy.wish("m-0-2", **PLACE)
    entry = cloudy.await_entry("m-0-2", state="TERMINATED", reason="StockOut")
    assert "ZONE_RESOURCE_POOL_EXHAUSTED" in entry["message"]
    assert google.names() == set()


def test_a_machine_whose_node_is_silent_is_given_up(cloudy: Stage, google: Google) -> None:
    machines(cloudy)
    cloudy.job(credentialsSecretRef={"name": "google"})
    cloudy.start()
    cloudy.wish("m-0-1", **PLACE)
    cloudy.await_entry("m-0-1", state="RUNNING")
    kubelet(cloudy, "m-0-1")
    cloudy.await_entry("m-0-1", joinedCluster=True)
    kubelet(cloudy, "m-0-1", "Unknown")
    entry = cloudy.await_entry("m-0-1", state="TERMINATED", reason="Lost")
    assert "has not been ready" in entry["message"]
    eventually(lambda: cloudy.entry("m-0-1").get("endTime"))
    assert google.names() == set()
    assert cloudy.node("m-0-1") is None


def test_machines_go_though_their_secret_went_first(cloudy: Stage, google: Google) -> None:
    machines(cloudy)
    cloudy.job(credentialsSecretRef={"name": "google"})
    cloudy.start()
    cloudy.wish("m-0-1", **PLACE)
    cloudy.await_entry("m-0-1", state="RUNNING")
    cloudy.objects.delete("v1", "secrets", "google")
    cloudy.objects.delete(API, VMS, "here")
    eventually(lambda: cloudy.objects.find(API, VMS, "here") is None)
    assert google.names() == set()


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"name": "nothing"}, "there is no Secret nothing"),
        ({"name": "google", "namespace": "kube-system"}, "copy it to"),
    ],
)
def test_credentials_must_be_there_and_the_job_s_own(
    cloudy: Stage, reference: Obj, words: str
) -> None:
    machines(cloudy)
    cloudy.job(credentialsSecretRef=reference)
    cloudy.start()
    cloudy.wish("m-0-1", **PLACE)
    entry = cloudy.await_entry("m-0-1", state="TERMINATED", reason="AccountRefused")
    assert words in entry["message"]
    conditions = eventually(lambda: cloudy.status().get("conditions"))
    assert [(each["type"], each["status"]) for each in conditions] == [("Available", "False")]
