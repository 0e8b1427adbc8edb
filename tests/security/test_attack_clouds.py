"""What spot machines have the operator do: calls, accounts, nodes, tokens."""

from __future__ import annotations

import base64
import json
import shutil
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from corral.api.spot.kinds import KINDS
from corral.api.spot.vm import SpotInstanceVMSpec
from corral.checkpoints.errors import InvalidLocation
from corral.checkpoints.location import service_account
from corral.checkpoints.signing.v4 import google
from corral.clouds import AccountRefused, BadRequest, QuotaExceeded, VmRequest
from corral.clouds.azure import AzureProvider, AzureSettings, Place
from corral.clouds.azure.auth import ClientSecret
from corral.clouds.base import Gpu, VmRef
from corral.clouds.calls import Calls
from corral.clouds.errors import CloudError, Transient
from corral.clouds.gcp import GcpProvider, GcpSettings, ServiceAccount
from corral.clouds.joiner import ssh
from corral.clouds.local import LocalProvider, LocalSettings
from corral.clouds.rest import Patience, RestClient, StaticToken
from corral.egress import EgressPolicy
from corral.families.spot.machines import controller
from corral.families.spot.machines.controller import MachineReconciler
from corral.families.spot.machines.joining import Joiner, public_key
from corral.families.spot.machines.providers import Providers
from corral.families.spot.machines.settings import MachineSettings
from corral.families.trainingjob.checkpoints.summaries import STORAGE, storage_of
from corral.kube.client import KubeClient
from corral.kube.resources import SECRETS
from corral.kube.types import Obj
from corral.oci.credentials import docker_config
from corral.oci.errors import InvalidArtifact, RegistryError
from corral.oci.manifest import parse
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import install
from tests.cluster.spot_machines.machines_stage import API, JOBS, VMS, Stage
from tests.security.outsiders import SECRET_WORDS, Outsider, bomb, outsider

QUICK = Patience(attempts=2, request_s=5.0, first_pause_s=0.01, longest_pause_s=0.02)
GCP = {"project": "p", "zone": "us-central1-a", "machineType": "n1-standard-1"}
AZURE = {
    "subscription": "s",
    "resourceGroup": "g",
    "subnetID": "/subnet",
    "region": "westeurope",
    "zone": "1",
    "machineType": "Standard_D2s_v3",
}


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("clouds")) as backend:
        backend.allow()
        install(Objects(backend), [kind.crd() for kind in KINDS])
        yield backend


@pytest.fixture
async def client(backend: Backend) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        yield client


@pytest.fixture
def inner() -> Iterator[Outsider]:
    with outsider() as found:
        yield found


class Watched(Stage):
    """An operator whose accounts can be looked at."""

    reconciler: MachineReconciler

    def _register(self, manager: Any) -> None:
        self.reconciler = controller.register(manager, self.settings)


@pytest.fixture
def stage(backend: Backend, objects: Objects) -> Iterator[Watched]:
    made = Watched(backend, objects)
    yield made
    made.close()
    shutil.rmtree(made.folder)


@pytest.fixture(scope="module")
def pem() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()


def account(pem: str, token_uri: str) -> str:
    return json.dumps({"client_email": "a@p", "private_key": pem, "token_uri": token_uri})


def secret(objects: Objects, name: str, data: Mapping[str, str]) -> None:
    body = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": body}
    objects.create("secrets", made)


def machines_of(stage: Stage, **spec: Any) -> None:
    made = {"apiVersion": API, "kind": "SpotInstanceVM", "metadata": {"name": "here"}}
    stage.objects.create(VMS, {**made, "spec": {"vmImage": "image", **spec}})


def condition(stage: Stage, kind: str, status: str) -> Obj:
    def look() -> Obj | None:
        found = stage.status().get("conditions") or ()
        return next((c for c in found if c["type"] == kind and c["status"] == status), None)

    return eventually(look, seconds=60)


# --- token services --------------------------------------------------------------------------


@pytest.mark.attack(
    "clouds",
    "has the operator post to a service of the machine by the token_uri of a Secret",
    "nothing is called, a condition says why",
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_secret_s_token_service(stage: Watched, inner: Outsider, pem: str, host: str) -> None:
    key = account(pem, f"http://{host}:{inner.port}/token")
    secret(stage.objects, "keys", {"credentials.json": key})
    machines_of(stage, gcp=GCP)
    stage.job(credentialsSecretRef={"name": "keys"})
    stage.start()
    said = condition(stage, "Available", "False")
    assert said["reason"] == "AccountRefused" and "--allow-endpoint" in said["message"]
    assert inner.connections == []


@pytest.mark.attack(
    "clouds",
    "reads a service's answer out of the condition that shows a token service's refusal",
    "of a token service only the status and OAuth's own codes are repeated",
)
@pytest.mark.parametrize("status", [200, 400, 401, 403, 404, 500])
async def test_token_services_are_not_repeated(inner: Outsider, pem: str, status: int) -> None:
    words = {"error": SECRET_WORDS, "error_description": SECRET_WORDS}
    inner.status, inner.body = status, json.dumps(words).encode()
    settings = GcpSettings(project="p", patience=QUICK, egress=EgressPolicy.of([inner.place]))
    provider = GcpProvider(settings, ServiceAccount(account(pem, inner.url)))
    try:
        with pytest.raises(CloudError) as caught:
            await provider.list("owner")
    finally:
        await provider.close()
    assert inner.requests and SECRET_WORDS not in str(caught.value)


@pytest.mark.attack(
    "clouds",
    "has an allowed token service send the operator on to a service of the machine",
    "redirects of token services are not followed",
)
async def test_token_services_that_point_elsewhere(inner: Outsider, pem: str) -> None:
    with outsider("127.0.0.2") as service:
        service.status, service.headers = 307, {"Location": inner.url}
        policy = EgressPolicy.of([service.place])
        settings = GcpSettings(project="p", patience=QUICK, egress=policy)
        provider = GcpProvider(settings, ServiceAccount(account(pem, service.url)))
        try:
            with pytest.raises(AccountRefused, match="status 307"):
                await provider.list("owner")
        finally:
            await provider.close()
        assert service.requests
    assert inner.connections == []


@pytest.mark.attack(
    "clouds",
    "leads Azure's token request to another path by the tenant in a Secret",
    "a tenant is one part of the path",
)
async def test_a_tenant_with_a_path(inner: Outsider) -> None:
    from corral.clouds.calls import Calls

    tokens = ClientSecret(tenant="../../admin?x=", client_id="c", secret="s", authority=inner.url)
    calls = Calls(EgressPolicy.of([inner.place]))
    try:
        with pytest.raises(AccountRefused):
            await tokens.header(calls)
    finally:
        await calls.close()
    (request,) = inner.requests
    assert request.startswith("POST /..%2F..%2Fadmin%3Fx")


BOMBS = {"packed": "gzip", "long": "", "deep": "", "unknown packing": "br"}


def armed(server: Outsider, kind: str) -> None:
    if BOMBS[kind]:
        server.headers = {"Content-Encoding": BOMBS[kind]}
    bodies = {"long": bytes(32 << 20), "deep": b"[" * 60_000, "unknown packing": b"x"}
    server.body = bomb() if kind == "packed" else bodies[kind]


@pytest.mark.attack(
    "clouds",
    "fills the operator's memory by a token service's answer: packed, long, deep",
    "64 KiB are read, unpacked and parsed",
)
@pytest.mark.parametrize("kind", list(BOMBS))
async def test_large_answers_of_token_services(inner: Outsider, pem: str, kind: str) -> None:
    armed(inner, kind)
    settings = GcpSettings(project="p", patience=QUICK, egress=EgressPolicy.of([inner.place]))
    provider = GcpProvider(settings, ServiceAccount(account(pem, inner.url)))
    tracemalloc.start()
    try:
        with pytest.raises(CloudError):
            await provider.list("owner")
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()
        await provider.close()


@pytest.mark.attack(
    "clouds",
    "fills the operator's memory by an answer of a cloud's API that unpacks to much",
    "an answer is read and unpacked up to 16 MiB",
)
@pytest.mark.parametrize("kind", ["packed", "long"])
async def test_large_answers_of_clouds(inner: Outsider, kind: str) -> None:
    armed(inner, kind)
    rest = RestClient(inner.url, StaticToken(""), QUICK)
    tracemalloc.start()
    try:
        for call in (rest.call("GET", "/x"), rest.fetch_text(f"{inner.url}/y")):
            with pytest.raises(Transient):
                await call
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
        await rest.close()


# --- accounts --------------------------------------------------------------------------------


@pytest.mark.attack(
    "clouds",
    "leads the operator's identity, lent for one project, to another by the words of a zone",
    "a zone, a project and a resource group are one part of the path; nothing is called",
)
@pytest.mark.parametrize(
    "zone",
    [
        "us-a/../../../theirs/zones/us-a",
        "us-a/%2e%2e/%2e%2e/%2e%2e/theirs/zones/us-a",
        "us-a/instances/another?x=",
        "us-a\\..\\..",
        "..",
    ],
)
async def test_zones_that_lead_elsewhere(inner: Outsider, zone: str) -> None:
    lent = GcpSettings(project="mine", endpoint=inner.url, patience=QUICK)
    google = GcpProvider(lent, StaticToken("operator"))
    place = Place("/subnet", "", False)
    group = f"mine/{zone}/subscriptions/theirs"
    azure = AzureProvider(
        AzureSettings(
            subscription="mine",
            resource_group=group,
            place=place,
            endpoint=inner.url,
            patience=QUICK,
        ),
        StaticToken("operator"),
    )
    try:
        for call in (google.get, google.delete, google.host_keys, azure.get, azure.delete):
            with pytest.raises(BadRequest, match="a project, group, zone or name is none"):
                await call(VmRef("vm", zone, ""))
        with pytest.raises(BadRequest):
            await google.create(
                VmRequest(
                    name="vm", request_id="r", owner="o", zone=zone, machine_type="m", image="i"
                )
            )
    finally:
        await google.close()
        await azure.close()
    assert inner.requests == []


@pytest.mark.attack(
    "clouds",
    "keeps the operator calling a token service after job, machines and Secret are gone",
    "an account is closed with the last object that names it",
)
def test_accounts_end_with_their_objects(stage: Watched, inner: Outsider, pem: str) -> None:
    inner.status = 500
    secret(stage.objects, "keys", {"credentials.json": account(pem, inner.url)})
    machines_of(stage, gcp=GCP)
    stage.job(credentialsSecretRef={"name": "keys"})
    stage.start(egress=EgressPolicy.of([inner.place]), prices=0.1, sweep=0.1)
    eventually(lambda: inner.requests, seconds=60)
    stage.objects.delete(API, JOBS, "train")
    stage.objects.delete(API, VMS, "here")
    stage.objects.delete("v1", "secrets", "keys")
    providers, works = stage.reconciler.providers, stage.reconciler._works
    eventually(lambda: {each.name for each in providers._open.values()} <= {"local"}, seconds=60)
    eventually(lambda: not works._slots, seconds=60)
    assert providers._known == {}, "what the Secret held is forgotten"
    count = len(inner.requests)
    stage.vm("another")  # and the operator goes on with the others
    eventually(lambda: stage.status("another").get("offers"), seconds=60)
    assert len(inner.requests) == count


@pytest.mark.attack(
    "clouds",
    "uses an account that was closed by what is still under way",
    "a closed account calls nobody",
)
async def test_a_closed_account_calls_nobody(inner: Outsider) -> None:
    rest = RestClient(inner.url, StaticToken(""), QUICK)
    assert (await rest.call("GET", "/x")).status == 200
    await rest.close()
    count = len(inner.requests)
    with pytest.raises(Transient, match="closed"):
        await rest.call("GET", "/x")
    assert len(inner.requests) == count


OWN_IDENTITY = {
    "no Secret": (None, {}),
    "no keys": ({"name": "keys"}, {}),
    "other keys": ({"name": "keys"}, {"AWS_SESSION_TOKEN": "x", "password": "y"}),
    "empty keys": ({"name": "keys"}, {"credentials.json": "", "AZURE_TENANT_ID": ""}),
}


@pytest.mark.attack(
    "clouds",
    "spends the operator's own cloud identity in a project of its choice by naming no credentials",
    "the identity is lent by the operator's settings only, the metadata service is not asked",
)
@pytest.mark.parametrize("given", list(OWN_IDENTITY))
@pytest.mark.parametrize("cloud", ["gcp", "azure"])
async def test_the_operators_own_identity(
    client: KubeClient, objects: Objects, inner: Outsider, given: str, cloud: str
) -> None:
    reference, data = OWN_IDENTITY[given]
    if reference is not None:
        secret(objects, "keys", data)
    assert objects.namespace is not None
    options = {cloud: {"metadata": inner.url, "endpoint": inner.url}}
    providers = Providers(client, MachineSettings(cloud_options=options))
    spec = SpotInstanceVMSpec.model_validate({"gcp": GCP, "azure": AZURE})
    with pytest.raises(AccountRefused):
        await providers.open(cloud, spec, reference, objects.namespace)
    assert inner.connections == []


@pytest.mark.attack(
    "clouds",
    "uses an identity that was lent to another namespace or for another project",
    "it is lent to those and for those that the setting names",
)
@pytest.mark.parametrize(
    ("rule", "lent"),
    [
        ("mine=gcp:p", True),
        ("mine=gcp", True),
        ("*=gcp:p", True),
        ("other=gcp:p", False),
        ("mine=gcp:q", False),
        ("mine=gcp:", False),
        ("mine=azure", False),
        ("min=gcp", False),
    ],
)
async def test_what_is_lent(client: KubeClient, inner: Outsider, rule: str, lent: bool) -> None:
    settings = MachineSettings(lent=(rule,), cloud_options={"gcp": {"metadata": inner.url}})
    providers = Providers(client, settings)
    spec = SpotInstanceVMSpec.model_validate({"gcp": GCP})
    try:
        if lent:
            assert (await providers.open("gcp", spec, None, "mine")).name == "gcp"
        else:
            with pytest.raises(AccountRefused, match="not lent to namespace mine"):
                await providers.open("gcp", spec, None, "mine")
    finally:
        await providers.close()


@pytest.mark.attack(
    "clouds",
    "a spot job without a Secret has machines made with the operator's identity",
    "a condition says that the identity is not lent",
)
def test_a_job_without_a_secret(stage: Watched, inner: Outsider) -> None:
    stage.settings_of_cloud("gcp", endpoint=inner.url, metadata=inner.url)
    machines_of(stage, gcp=GCP)
    stage.job()
    stage.start()
    said = condition(stage, "Available", "False")
    assert "identity is not lent" in said["message"]
    place = {"cloud": "gcp", "region": "us-central1", "zone": GCP["zone"]}
    stage.wish("m-0-1", **place, machineType=GCP["machineType"])
    stage.await_entry("m-0-1", state="TERMINATED", reason="AccountRefused")
    assert inner.connections == []


# --- machines of the operator's own ----------------------------------------------------------


def local(tmp_path: Path, **settings: Any) -> LocalProvider:
    command = ("sleep", "1000")
    return LocalProvider(
        LocalSettings(folder=tmp_path, command=command, stop_grace_s=0.5, **settings)
    )


def wanted(number: int, namespace: str, **more: Any) -> VmRequest:
    return VmRequest(
        name=f"{namespace}-{number}",
        request_id=f"00000000-0000-0000-0000-{number:012d}",
        owner="corral-test",
        zone="local-a",
        machine_type="local",
        labels={"corral-namespace": namespace},
        **more,
    )


@pytest.mark.attack(
    "clouds",
    "starts any number of node agents by a local SpotInstanceVM with many replicas",
    "a namespace has so many machines, and all together so many",
)
async def test_limits_of_local_machines(tmp_path: Path) -> None:
    provider = local(tmp_path, quota=3, label_quota=("corral-namespace", 2))
    made = [await provider.create(wanted(1, "mine"))]
    try:
        made.append(await provider.create(wanted(2, "mine")))
        with pytest.raises(QuotaExceeded, match="at most 2 VMs with corral-namespace mine"):
            await provider.create(wanted(3, "mine"))
        made.append(await provider.create(wanted(4, "theirs")))
        with pytest.raises(QuotaExceeded, match="at most 3 VMs in all"):
            await provider.create(wanted(5, "another"))
    finally:
        for vm in made:
            await provider.delete(vm.ref)


@pytest.mark.attack(
    "clouds",
    "raises the number of local machines by the capacity that it writes",
    "what an object says lowers the limit and never raises it",
)
async def test_capacity_is_not_what_a_tenant_says(tmp_path: Path) -> None:
    capacity = {"local-a": 1_000_000}
    provider = local(tmp_path, quota=1, capacity=capacity)
    vm = await provider.create(wanted(1, "mine"))
    try:
        with pytest.raises(QuotaExceeded, match="at most 1 VMs in all"):
            await provider.create(wanted(2, "mine"))
    finally:
        await provider.delete(vm.ref)


@pytest.mark.attack(
    "clouds",
    "asks a local machine for a million GPUs",
    "pretended GPUs have a limit",
)
async def test_gpus_of_a_local_machine(tmp_path: Path) -> None:
    provider = local(tmp_path)
    with pytest.raises(BadRequest, match="at most 16 GPUs"):
        await provider.create(wanted(1, "mine", gpu=Gpu("any", 1_000_000)))


@pytest.mark.attack(
    "clouds",
    "wishes for more local machines than its namespace may have",
    "those beyond are refused and a condition names the limit",
)
def test_a_condition_names_the_limit(stage: Watched) -> None:
    stage.vm()
    stage.job()
    assert stage.settings.local is not None
    stage.start(local=replace(stage.settings.local, most_per_namespace=1))
    stage.wish("m-0-1", "m-1-1")
    said = condition(stage, "WithinLimits", "False")
    assert "at most 1 VMs with corral-namespace" in said["message"]
    assert said["reason"] == "QuotaExceeded"
    assert len(stage.machines()) <= 1


# --- join tokens -----------------------------------------------------------------------------

HOST_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHk5aGFyZGx5YW55dGhpbmdhdGFsbGhlcmU= x"
ENTRY = {"name": "m-0-1", "cloud": "gcp", "externalIP": "203.0.113.1"}


def joined(**config: Any) -> SpotInstanceVMSpec:
    ssh = {"user": "root", "privateKeySecretRef": {"name": "ssh"}}
    spec: Obj = {"gcp": GCP, "ssh": ssh}
    return SpotInstanceVMSpec.model_validate(
        {**spec, "kubeadmJoinConfig": config} if config else spec
    )


@pytest.mark.attack(
    "clouds",
    "reads a join token of the cluster on a machine that its own startup script runs on",
    "tokens are made for namespaces that the operator trusts with nodes",
)
@pytest.mark.parametrize(
    ("namespaces", "config"),
    [
        ((), {}),
        (("other",), {}),
        (("mine",), {"controlPlaneEndpoint": "evil.example.com:6443"}),
        (("mine",), {"caCertHash": "sha256:" + "ab" * 32}),
        (("*",), {"controlPlaneEndpoint": "evil.example.com:6443"}),
    ],
)
async def test_join_tokens(
    client: KubeClient, objects: Objects, namespaces: tuple[str, ...], config: Obj
) -> None:
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    secret(objects, "ssh", {"ssh-privatekey": key.decode()})
    assert objects.namespace is not None
    trusted = tuple(objects.namespace if each == "mine" else each for each in namespaces)
    spec = joined(**{"controlPlaneEndpoint": "", **config} if config else {})
    egress = EgressPolicy.of([ENTRY["externalIP"]])
    joiner = Joiner(client, namespaces=trusted, egress=egress)
    refusal = "makes no join tokens|are for its own cluster"
    with pytest.raises(AccountRefused, match=refusal):
        await joiner.check(spec, objects.namespace)  # before a machine is made
    with pytest.raises(AccountRefused, match=refusal):
        await joiner.join(spec, objects.namespace, ENTRY, [HOST_KEY])
    found = await client.list_all(SECRETS, "kube-system")
    names = [each["metadata"]["name"] for each in found["items"]]
    assert not [name for name in names if name.startswith("bootstrap-token-")]


@pytest.mark.attack(
    "clouds",
    "has the operator log in to a host of its network: the private address of a machine of its own",
    "machines are logged in to at public addresses, and at those that the operator's settings name",
)
@pytest.mark.parametrize("host", ["127.0.0.1", "10.96.0.1", "169.254.169.254", "fd00:ec2::254"])
@pytest.mark.parametrize("where", ["externalIP", "internalIP"])
async def test_where_machines_are_logged_in_to(
    client: KubeClient, objects: Objects, host: str, where: str
) -> None:
    assert objects.namespace is not None
    entry = {**{key: ENTRY[key] for key in ENTRY if not key.endswith("IP")}, where: host}
    with pytest.raises(AccountRefused, match=r"is not called, .*--allow-endpoint"):
        await Joiner(client).join(joined(), objects.namespace, entry, [HOST_KEY])
    for trusting in (
        Joiner(client, egress=EgressPolicy.of([host])),
        Joiner(client, namespaces=[objects.namespace]),
    ):
        with pytest.raises(AccountRefused, match="there is no Secret ssh"):
            await trusting.join(joined(), objects.namespace, entry, [HOST_KEY])


@pytest.mark.attack(
    "clouds",
    "fills the operator's memory by what a machine of its own writes when it is logged in to",
    "1 MiB is read",
)
@pytest.mark.parametrize("stream", ["1", "2"])
async def test_what_machines_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    client = tmp_path / "ssh"
    client.write_text(f"#!/bin/sh\nexec head -c 200000000 /dev/zero >&{stream}\n")
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    key = "ssh-ed25519 AAAA"
    login = ssh.Login(host="192.0.2.1", user="root", private_key="key", host_keys=[key])
    with pytest.raises(ssh.Unreachable, match="writes more than 1048576 bytes"):
        await ssh.run(login, "true", "", limit_s=60)


# --- what Secrets and objects hold ------------------------------------------------------------


LONG_KEY = f"-----BEGIN PRIVATE KEY-----\n{'A' * 12_000}\n-----END PRIVATE KEY-----\n"
"""As long as RSA with 16,384 bits: to check one takes a minute in which nothing else runs."""


async def assertion_of(key: str) -> None:
    await ServiceAccount(account(key, "https://oauth2.googleapis.com/token")).header(Calls())


@pytest.mark.attack(
    "clouds",
    "stops the operator for a minute by a private key of many thousand bits in a Secret",
    "keys of more than 4096 bits are not read",
)
async def test_long_private_keys() -> None:
    with pytest.raises(AccountRefused, match="longer than keys of 4096 bits"):
        await assertion_of(LONG_KEY)
    with pytest.raises(AccountRefused, match="4096 bits at most"):
        public_key(LONG_KEY)
    with pytest.raises(ValueError, match="longer than keys of 4096 bits"):
        google("a@p", LONG_KEY)


@pytest.mark.attack(
    "clouds",
    "breaks the operator's work by JSON nested a hundred thousand deep in a Secret or an answer",
    "it is no JSON",
)
def test_deep_json() -> None:
    deep = "[" * 100_000
    with pytest.raises(AccountRefused, match="not the JSON key"):
        ServiceAccount(deep)
    with pytest.raises(RegistryError, match="not a JSON object"):
        docker_config({".dockerconfigjson": deep.encode()})
    with pytest.raises(InvalidArtifact, match="is not JSON"):
        parse(deep.encode())
    with pytest.raises(InvalidLocation, match="cannot be read"):
        service_account({"credentials.json": deep})
    notes = {STORAGE: deep}
    assert storage_of({"metadata": {"annotations": notes}, "spec": {}}) == {}
