"""Servers that objects name, and that the operator would call from where it stands."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import traceback
import tracemalloc
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from corral.api.kafkaml.kinds import FEDERATEDDEPLOYMENTS
from corral.api.training.kinds import CHECKPOINTS
from corral.checkpoints.errors import CheckpointError
from corral.checkpoints.location import Location
from corral.checkpoints.places import Place, PlaceRefused, StoreRules
from corral.egress import EgressPolicy, EndpointRefused
from corral.egress.dialing import connect
from corral.egress.http import connector
from corral.egress.proxy import GuardingProxy
from corral.egress.reading import AnswerTooLarge
from corral.families.federated.learning import LearningSettings
from corral.families.federated.models import Places
from corral.families.kafkaml.deployments.topics import TopicsLeft, remove_topics
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.families.spot.backups.engines import BackupError
from corral.families.spot.backups.images import Images
from corral.families.spot.backups.kubelet_engine import Kubelets
from corral.families.spot.jobs.places import spot_place
from corral.families.trainingjob.checkpoints.stores import Stores, StoreSettings
from corral.families.trainingjob.checkpoints.summaries import FINALIZER, JOB_UID, STORAGE
from corral.kube.client import KubeClient
from corral.kube.errors import AlreadyExists, Forbidden
from corral.kube.resources import NAMESPACES, SERVICEACCOUNTS
from corral.kube.types import Obj
from corral.oci import Artifacts, ClientSettings, Reference, Registries, RegistryError
from corral.oci.registries import endpoints
from corral.operator import rbac
from corral.operator.install import apply_objects
from corral.operator.manifests import install_objects
from corral.operator.settings import NAMESPACE
from tests.backends import Backend, own_backend, own_scope
from tests.cluster.objects import Objects, eventually
from tests.cluster.spot_checkpoints.kubelets import FakeKubelet, fake_kubelet
from tests.cluster.trainingjob.operating import install_definitions
from tests.cluster.trainingjob_checkpoints.checkpoint_stage import QUICK, Stage, staged
from tests.security.outsiders import SECRET_WORDS, Outsider, bomb, outsider
from tests.stores.servers import ACCOUNT_KEY

ID = "step-000000000007.abc"
UID = "00000000-0000-0000-0000-000000000007"
KINDS = ["s3", "gcs", "azure"]
SCHEMES = {"s3": "s3", "gcs": "gs", "azure": "az"}


@pytest.fixture(scope=own_scope)
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    with own_backend(tmp_path_factory.mktemp("called")) as backend:
        install_definitions(Objects(backend))
        yield backend


@pytest.fixture
async def client(backend: Backend) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(str(backend.kubeconfig)) as client:
        yield client


@pytest.fixture
async def stage(client: KubeClient, namespace: str) -> AsyncIterator[Stage]:
    """An operator with its defaults."""
    async with staged(client, namespace, rules=StoreRules(), checkpoints=QUICK) as made:
        yield made


@pytest.fixture
def inner() -> Iterator[Outsider]:
    """A service of the machine that only the operator can reach."""
    with outsider() as found:
        yield found


@pytest.fixture(scope="module")
def account() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return json.dumps(
        {
            "type": "service_account",
            "client_email": "a@example.com",
            "private_key_id": "k",
            "private_key": pem.decode(),
        }
    )


def storage(kind: str, endpoint: str) -> Obj:
    common = {"endpoint": endpoint, "secretRef": {"name": "keys"}}
    if kind == "azure":
        return {kind: {"account": "acc", "container": "bucket", **common}}
    return {kind: {"bucket": "bucket", **common}}


def keys(account: str) -> dict[str, str]:
    """A Secret that is good for all of them."""
    return {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": "key",
        "credentials.json": account,
        "AZURE_STORAGE_ACCOUNT_KEY": ACCOUNT_KEY,
    }


def address(stage: Stage, kind: str, endpoint: str) -> str:
    more = "&account=acc" if kind == "azure" else ""
    place = f"bucket/{stage.namespace}/mnist/{UID}/{ID}"
    return f"{SCHEMES[kind]}://{place}?endpoint={endpoint}{more}"


async def deleted_checkpoint(stage: Stage, kind: str, endpoint: str) -> None:
    notes = {STORAGE: json.dumps(storage(kind, endpoint)), JOB_UID: UID}
    metadata = {"name": "caller", "annotations": notes, "finalizers": [FINALIZER]}
    uri = address(stage, kind, endpoint)
    spec = {"jobRef": {"name": "mnist"}, "step": 7, "uri": uri}
    await stage.client.create(
        CHECKPOINTS, {"metadata": metadata, "spec": spec}, namespace=stage.namespace
    )
    await stage.client.delete(CHECKPOINTS, "caller", namespace=stage.namespace)


# --- stores ----------------------------------------------------------------------------------


@pytest.mark.attack(
    "endpoints",
    "has the operator call a service of the machine by a Checkpoint's storage endpoint",
    "nothing is called, an event says why, the object goes",
)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_checkpoint_s_endpoint(
    stage: Stage, inner: Outsider, account: str, kind: str
) -> None:
    await stage.secret(keys(account))
    await deleted_checkpoint(stage, kind, inner.url)
    await stage.until_gone(CHECKPOINTS, "caller")
    (said,) = await stage.until(lambda: stage.events("CheckpointDataLeft"))
    assert "--allow-endpoint" in said and SECRET_WORDS not in said
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "has the operator call a service of the machine by a job's storage endpoint",
    "the report endpoint refuses restores and uploads, nothing is called",
)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_job_s_endpoint(stage: Stage, inner: Outsider, account: str, kind: str) -> None:
    await stage.secret(keys(account))
    pod = await stage.pod(await stage.job("mine", storage(kind, inner.url)))
    uploads = {"replica": 0, "of": 1, "attempt": 1, "step": 1, "files": []}
    for path, body in (("restore", {"from": "latest"}), ("uploads", uploads)):
        status, answer = await pod.post(path, body)
        assert (status, "--allow-endpoint" in answer["error"]) == (409, True), answer
    assert inner.connections == []


OTHER_SPELLINGS = [
    "http://localhost:{port}",
    "https://localhost:{port}",
    "https://127.0.0.1:{port}",
    "http://127.1:{port}",
    "http://2130706433:{port}",
    "http://0x7f.1:{port}",
    "http://0.0.0.0:{port}",
    "https://[::1]:{port}",
    "https://[::ffff:127.0.0.1]:{port}",
    "https://[64:ff9b::7f00:1]:{port}",
    "https://[2002:7f00:1::]:{port}",
    "https://169.254.169.254",
    "https://168.63.129.16",
    "https://10.96.0.1",
    "https://192.168.0.1:{port}",
    "https://100.100.100.200",
    "https://[fd00:ec2::254]",
    "https://[fec0::1]",
    "https://192.0.0.192",
]


@pytest.mark.attack(
    "endpoints",
    "spells an address of the machine, the cluster or a metadata service in another way",
    "the address that is connected to counts, however it is spelt",
)
@pytest.mark.parametrize("spelling", OTHER_SPELLINGS)
async def test_other_spellings(
    allowed: Callable[..., Stores], inner: Outsider, spelling: str
) -> None:
    with pytest.raises((PlaceRefused, CheckpointError)):
        await opened(allowed(), "default", "s3", spelling.format(port=inner.port))
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "has a spot job's checkpoints kept at a service of the machine",
    "the storage is refused, nothing is called",
)
@pytest.mark.parametrize("kind", ["s3", "gcs", "azure"])
def test_a_spot_job_s_endpoint(inner: Outsider, kind: str) -> None:
    more = "&account=acc" if kind == "azure" else ""
    bucket = f"{SCHEMES[kind]}://bucket?endpoint={inner.url}{more}"
    config = {"checkpointStorage": {"type": kind, "bucket": bucket}}
    metadata = {"name": "spot", "namespace": "mine", "uid": UID}
    spec = {"checkpointConfig": config, "credentialsSecretRef": {"name": "keys"}}
    with pytest.raises(PlaceRefused, match="--allow-endpoint"):
        spot_place({"metadata": metadata, "spec": spec}, StoreRules())
    assert inner.connections == []


@pytest.fixture
def allowed(client: KubeClient) -> Iterator[Callable[..., Stores]]:
    """Stores of an operator that allows one endpoint."""
    made: list[Stores] = []

    def stores(*endpoints: str) -> Stores:
        rules = StoreRules(egress=EgressPolicy.of(endpoints))
        settings = StoreSettings(retry_for=1.0, call_timeout=30.0)
        made.append(Stores(client, rules=rules, settings=settings, environment={}))
        return made[-1]

    yield stores
    for each in made:
        each.close()


async def opened(stores: Stores, namespace: str, kind: str, endpoint: str) -> Any:
    from corral.families.trainingjob.checkpoints.places import job_place

    metadata = {"name": "mnist", "namespace": namespace, "uid": UID}
    job = {"metadata": metadata, "spec": {"checkpoint": {"storage": storage(kind, endpoint)}}}
    place = job_place(job, stores.rules)
    assert isinstance(place, Place)
    return (await stores.open(namespace, place)).repository


@pytest.mark.attack(
    "endpoints",
    "has an allowed store send the operator on to a service of the machine (redirect)",
    "redirects of stores lead nowhere",
)
@pytest.mark.parametrize("kind", KINDS)
async def test_redirects_of_stores(
    stage: Stage, allowed: Callable[..., Stores], inner: Outsider, account: str, kind: str
) -> None:
    await stage.secret(keys(account))
    with outsider("127.0.0.2") as store:
        store.status, store.headers, store.body = 307, {"Location": inner.url + "/x"}, b""
        stores = allowed(store.place)
        repository = await opened(stores, stage.namespace, kind, store.url)
        with pytest.raises(CheckpointError):
            await stores.call(repository.scan)
        assert store.requests
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "reads a service's answer out of the error that the operator shows",
    "errors have the status and known codes, never the words of the answer",
)
@pytest.mark.parametrize("kind", KINDS)
async def test_answers_are_not_repeated(
    stage: Stage, allowed: Callable[..., Stores], account: str, kind: str
) -> None:
    await stage.secret(keys(account))
    with outsider() as store:
        words = f"<Error><Code>{SECRET_WORDS}</Code><Message>{SECRET_WORDS}</Message></Error>"
        store.body, store.headers = words.encode(), {"x-amz-request-id": SECRET_WORDS}
        stores = allowed(store.place)
        repository = await opened(stores, stage.namespace, kind, store.url)
        for status in (400, 401, 403, 409, 412, 500):
            store.status = status
            with pytest.raises(CheckpointError) as caught:
                await stores.call(repository.scan)
            assert SECRET_WORDS not in str(caught.value)
        assert store.requests


@pytest.mark.attack(
    "endpoints",
    "fills the operator's memory by a store that answers with hundreds of megabytes",
    "an answer is read up to its limit",
)
@pytest.mark.parametrize("kind", ["s3", "gcs"])
async def test_large_answers_of_stores(
    stage: Stage, allowed: Callable[..., Stores], account: str, kind: str
) -> None:
    await stage.secret(keys(account))
    with outsider() as store:
        store.body = b"<ListMultipartUploadsResult>" + bytes(64 << 20)
        stores = allowed(store.place)
        repository = await opened(stores, stage.namespace, kind, store.url)
        tracemalloc.start()
        try:
            with pytest.raises(CheckpointError, match="more than"):
                await stores.call(repository.store.sweep, "", before=0.0)
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()


@pytest.mark.attack(
    "endpoints",
    "uses the operator's own proxy on loopback to reach other services of the machine",
    "it serves who knows its password, and by the same policy",
)
@pytest.mark.parametrize("known", [False, True])
def test_the_proxy_is_not_for_others(inner: Outsider, known: bool) -> None:
    proxy = GuardingProxy(EgressPolicy())
    proxy.start()
    try:
        url = proxy.grant()
        url = url if known else url.replace("//corral:", "//corral:wrong")
        handler = urllib.request.ProxyHandler({"http": url, "https": url})
        opener = urllib.request.build_opener(handler)
        for target in (inner.url, f"https://127.0.0.1:{inner.port}", inner.url + "/x"):
            with pytest.raises(OSError):
                opener.open(target, timeout=5)
    finally:
        proxy.close()
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "holds the operator's threads by stores that never answer",
    "a namespace's calls take a part of the threads, others go on",
)
async def test_stores_that_never_answer(client: KubeClient, tmp_path: Path) -> None:
    rules = StoreRules(local_root=tmp_path)
    settings = StoreSettings(threads=4, threads_each=2, call_timeout=20.0)
    let_go = threading.Event()
    folder = Place(Location("file", prefix=str(tmp_path / "b/j/u")), base=str(tmp_path / "b"))
    with Stores(client, rules=rules, settings=settings, environment={}) as stores:
        await stores.open("mine", replace(folder, base=str(tmp_path / "b")))
        hanging = [asyncio.create_task(stores.call(let_go.wait)) for _ in range(8)]
        try:
            async with asyncio.timeout(10):
                repository = (await stores.open("theirs", folder)).repository
                assert (await stores.call(repository.scan)).manifests == ()
        finally:
            let_go.set()
            await asyncio.gather(*hanging)


@pytest.mark.attack(
    "endpoints",
    "keeps a connection of the operator's busy for ever, or sends without an end",
    "connections to a user's store end after a while, and after so many bytes",
)
@pytest.mark.parametrize("limit", ["time", "bytes"])
async def test_connections_that_never_end(inner: Outsider, limit: str) -> None:
    inner.body = bytes(4 << 20)
    proxy = GuardingProxy(EgressPolicy.of([inner.place]))
    proxy.start()
    try:
        if limit == "bytes":
            url = proxy.grant(size=1 << 20)
        else:
            url = proxy.grant(seconds=0.0)
        handler = urllib.request.ProxyHandler({"http": url})
        opener = urllib.request.build_opener(handler)

        def fetch() -> bytes:
            with opener.open(inner.url, timeout=5) as answer:
                return bytes(answer.read())

        for _ in range(2):  # and what is over stays over
            with pytest.raises((OSError, http.client.HTTPException)):
                await asyncio.to_thread(fetch)
        assert len(inner.requests) == (1 if limit == "bytes" else 0)
    finally:
        proxy.close()


# --- connections -----------------------------------------------------------------------------


@pytest.mark.attack(
    "endpoints",
    "has a name stand for a public address when it is checked and for the machine's when called",
    "every connection is checked by its address when it is made",
)
@pytest.mark.parametrize("way", ["socket", "aiohttp", "number"])
async def test_the_address_counts_when_connecting(inner: Outsider, way: str) -> None:
    policy = EgressPolicy()
    if way == "socket":
        with pytest.raises(EndpointRefused):
            await asyncio.to_thread(connect, policy, "localhost", inner.port, 5.0)
    else:
        host = "localhost" if way == "aiohttp" else "127.0.0.1"
        async with aiohttp.ClientSession(connector=connector(policy)) as session:
            with pytest.raises(OSError):
                await session.get(f"http://{host}:{inner.port}/")
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "uses what an administrator allowed on one port to reach the others of the host",
    "an allowance with a port is for this port",
)
def test_an_allowance_is_for_its_port(inner: Outsider) -> None:
    policy = EgressPolicy.of([f"127.0.0.1:{inner.port}", "db.internal:5432"])
    policy.check_url(inner.url)
    with pytest.raises(EndpointRefused):
        policy.check_url(f"http://127.0.0.1:{inner.port + 1}")
    assert policy.allows("db.internal", 5432) and not policy.allows("db.internal", 80)
    with pytest.raises(EndpointRefused):
        policy.check("http://db.internal:80", ["10.0.0.1"])


# --- registries ------------------------------------------------------------------------------


@pytest.mark.attack(
    "endpoints",
    "has a FederatedJob's registry be a service of the machine",
    "the registry is refused, nothing is called",
)
async def test_a_federated_job_s_registry(client: KubeClient, inner: Outsider) -> None:
    places = Places(client, LearningSettings(registry="oci://registry.example.com"))
    reference = Reference.parse(f"oci://{inner.place}/mine/job/models:round-1")
    async with await places.open("mine", "") as artifacts:
        with pytest.raises(RegistryError, match="--allow-endpoint"):
            await artifacts.manifest(reference)
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "has a backup's image pushed to or deleted at a service of the machine",
    "the registry is refused, nothing is called",
)
async def test_a_backup_s_registry(client: KubeClient, inner: Outsider) -> None:
    from corral.api.spot.backup import CheckpointBackupSpec

    spec = CheckpointBackupSpec.model_validate({"podName": "p", "imageRepo": f"{inner.place}/x"})
    with pytest.raises(BackupError, match="--allow-endpoint"):
        await Images(client).delete(f"{inner.place}/x:1", spec=spec, namespace="mine")
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "has a registry of its own send the operator on (redirect, token service) to the machine",
    "where a registry points to is checked as well",
)
@pytest.mark.parametrize("way", ["redirect", "realm"])
async def test_registries_that_point_elsewhere(inner: Outsider, way: str) -> None:
    with outsider("127.0.0.2") as registry:
        if way == "redirect":
            registry.status, registry.headers = 307, {"Location": f"{inner.url}/blob"}
        else:
            challenge = f'Bearer realm="{inner.url}/token",service="x"'
            registry.status, registry.headers = 401, {"WWW-Authenticate": challenge}
        settings = ClientSettings(egress=EgressPolicy(), tries=1)
        known = Registries(endpoints([f"theirs.example.com={registry.url}"]))
        async with Artifacts(known, settings=settings) as artifacts:
            with pytest.raises(RegistryError):
                await artifacts.manifest(Reference.parse("oci://theirs.example.com/x:1"))
        assert registry.requests
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "reads a service's answer out of the error that is shown of a registry",
    "of a registry that users name, only the status and known codes are repeated",
)
@pytest.mark.parametrize("status", [400, 403, 404, 500])
async def test_registries_are_not_repeated(status: int) -> None:
    with outsider() as registry:
        error = {"code": SECRET_WORDS, "message": SECRET_WORDS}
        registry.status, registry.body = status, json.dumps({"errors": [error]}).encode()
        settings = ClientSettings(egress=EgressPolicy.of([registry.place]), tries=1)
        async with Artifacts(Registries(), settings=settings) as artifacts:
            with pytest.raises(RegistryError) as caught:
                await artifacts.manifest(Reference.parse(f"oci://{registry.place}/x:1"))
        assert registry.requests and SECRET_WORDS not in str(caught.value)


# --- brokers ---------------------------------------------------------------------------------


def deployment(ids: list[str], **spec: Any) -> Obj:
    results = [
        {"id": 1, "model": "digits", "federatedStringId": each, "status": "created"} for each in ids
    ]
    metadata = {"name": "d", "namespace": "default", "uid": UID}
    body = {"model": "digits", "topics": {"retain": False}, **spec}
    return FEDERATEDDEPLOYMENTS.stamp(
        {"metadata": metadata, "spec": body, "status": {"results": results}}
    )


@pytest.mark.attack(
    "endpoints",
    "has the operator connect to a service of the machine as to a deployment's Kafka",
    "the operator connects to its own brokers and those that it was told of",
)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_deployment_s_brokers(client: KubeClient, inner: Outsider, host: str) -> None:
    from corral.api.kafkaml.kinds import FederatedDeployment
    from corral.families.kafkaml.deployments.state import derived_id

    found = deployment([], kafka={"bootstrapServers": f"{host}:{inner.port}"})
    own = derived_id(FederatedDeployment.read(found), "digits")
    found["status"] = deployment([own])["status"]
    settings = KafkaMLSettings(kafka="kafka:9092")
    with pytest.raises(TopicsLeft, match="--allow-endpoint"):
        await remove_topics(client, settings, FederatedDeployment.read(found))
    assert inner.connections == []


@pytest.mark.attack(
    "endpoints",
    "has the operator remove another deployment's topics by taking its federated id",
    "with its own login the operator removes topics of ids that it chose itself",
)
async def test_topics_of_another_deployment(client: KubeClient) -> None:
    from corral.api.kafkaml.kinds import FederatedDeployment

    with socket.create_server(("127.0.0.1", 0)) as broker:
        broker.setblocking(False)
        servers = f"127.0.0.1:{broker.getsockname()[1]}"
        theirs = deployment(["theirs00"], federatedStringId="theirs00")
        with pytest.raises(TopicsLeft, match="may be another's"):
            await remove_topics(
                client, KafkaMLSettings(kafka=servers), FederatedDeployment.read(theirs)
            )
        with pytest.raises(BlockingIOError):
            broker.accept()


# --- answers ---------------------------------------------------------------------------------


@pytest.mark.attack(
    "endpoints",
    "sends the operator a small answer that unpacks to hundreds of megabytes",
    "an answer is unpacked up to its limit",
)
async def test_an_answer_that_unpacks_to_much() -> None:
    from corral.clouds.calls import Calls

    with outsider() as server:
        server.headers, server.body = {"Content-Encoding": "gzip"}, bomb()
        calls = Calls(EgressPolicy.of([server.place]))
        tracemalloc.start()
        try:
            with pytest.raises(AnswerTooLarge):
                await calls.ask("GET", server.url, limit=1 << 20)
            assert tracemalloc.get_traced_memory()[1] < 32 << 20
        finally:
            tracemalloc.stop()
            await calls.close()


NODE = {"metadata": {"name": "owned"}}
RIGHTS = ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")


@pytest.fixture
async def hostile(tmp_path: Path) -> AsyncIterator[FakeKubelet]:
    """The kubelet of a machine whose owner reads all that it is sent, and has its key."""
    async with fake_kubelet(tmp_path, f"{NAMESPACE}/{rbac.KUBELETS}") as found:
        yield found


@pytest.fixture
async def installed(client: KubeClient) -> AsyncIterator[KubeClient]:
    """The operator as it is in an installation: who it is there, and with its rights."""
    with contextlib.suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
    await apply_objects(client, [obj for obj in install_objects() if obj["kind"] in RIGHTS])
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await client.create_subresource(
        SERVICEACCOUNTS, rbac.NAME, namespace=NAMESPACE, subresource="token", body=asked
    )
    async with KubeClient(replace(client.config, token=answer["status"]["token"])) as own:
        yield own


def kubelets_of(client: KubeClient, hostile: FakeKubelet) -> Kubelets:
    account = f"{NAMESPACE}/{rbac.KUBELETS}"
    return Kubelets(
        client, ca_file=hostile.ca_file, account=account, url_of=lambda node: hostile.url
    )


@pytest.mark.attack(
    "endpoints",
    "reads the operator's token out of what the kubelet of a machine of its own is sent",
    "kubelets are shown a token for minutes of an account that may ask for checkpoints, no more",
)
@pytest.mark.parametrize("given", ["token", "file"])
async def test_kubelets_are_not_shown_who_the_operator_is(
    backend: Backend, installed: KubeClient, hostile: FakeKubelet, tmp_path: Path, given: str
) -> None:
    hostile.folder.mkdir(exist_ok=True)
    own = installed.config.token
    config = installed.config
    if given == "file":
        (tmp_path / "token").write_text(own)
        config = replace(config, token="", token_file=str(tmp_path / "token"))
    async with KubeClient(config) as client:
        kubelets = kubelets_of(client, hostile)
        for _ in range(2):
            assert await kubelets.checkpoint(NODE, "mine", "pod", "main", seconds=5)
    first, second = hostile.shown
    assert own not in first and first == second
    token = first.removeprefix("Bearer ")
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims["exp"] - claims["iat"] <= 600

    def may(verb: str, resource: str, namespace: str = "") -> bool:
        plural, _, sub = resource.partition("/")
        asked = {"verb": verb, "resource": plural, "subresource": sub, "namespace": namespace}
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        review = {"kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": asked}}
        reply = backend.request(
            "POST", path, {"apiVersion": "authorization.k8s.io/v1", **review}, token=token
        )
        assert reply.code == 201, reply.body
        return bool(reply.json()["status"]["allowed"])

    eventually(lambda: may("create", "nodes/checkpoint"))
    for verb, resource in (
        ("get", "nodes/proxy"), ("get", "nodes"), ("list", "pods"), ("create", "pods"),
        ("get", "secrets"), ("create", "serviceaccounts/token"), ("get", "pods/log"),
    ):  # fmt: skip
        assert not may(verb, resource, NAMESPACE), (verb, resource)


@pytest.mark.attack(
    "endpoints",
    "uses the operator's token to get tokens of other accounts, as it may of the kubelets' one",
    "that right is for one account, which may ask for checkpoints alone",
)
async def test_tokens_of_other_accounts(installed: KubeClient) -> None:
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    for name, namespace in ((rbac.NAME, NAMESPACE), ("default", NAMESPACE), ("default", "default")):
        with pytest.raises(Forbidden):
            await installed.create_subresource(
                SERVICEACCOUNTS, name, namespace=namespace, subresource="token", body=asked
            )


@pytest.mark.attack(
    "endpoints",
    "has words of a kubelet's answer (body, status line, headers) repeated in messages and logs",
    "the status and words of ours are said, nothing of the answer",
)
@pytest.mark.parametrize("status", [200, 302, 400, 401, 403, 404, 418, 429, 500, 503])
async def test_kubelets_are_not_repeated(
    installed: KubeClient, hostile: FakeKubelet, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    hostile.status, hostile.reason = status, SECRET_WORDS
    hostile.headers = {"Warning": f'299 - "{SECRET_WORDS}"', "Location": f"/{SECRET_WORDS}"}
    words = {"kind": "Status", "message": SECRET_WORDS, "items": [SECRET_WORDS]}
    for hostile.body in (SECRET_WORDS, json.dumps(words)):
        with pytest.raises(BackupError) as caught:
            await kubelets_of(installed, hostile).checkpoint(NODE, "mine", "pod", "main", seconds=5)
        said = "".join(traceback.format_exception(caught.value, chain=True))
        assert "of node owned" in said and SECRET_WORDS not in said
    assert hostile.asked and SECRET_WORDS not in caplog.text


@pytest.mark.attack(
    "endpoints",
    "has words of a kubelet that does not speak HTTP repeated in messages",
    "why there was no answer is said in words of ours",
)
async def test_kubelets_that_speak_something_else(
    installed: KubeClient, hostile: FakeKubelet, tmp_path: Path
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "kubelet.pem")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {SECRET_WORDS}\r\n{SECRET_WORDS}\r\n\r\n".encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context)
    async with server:
        hostile.url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(BackupError) as caught:
            await kubelets_of(installed, hostile).checkpoint(NODE, "mine", "pod", "main", seconds=5)
    said = "".join(traceback.format_exception(caught.value, chain=True))
    assert "of node owned" in said and SECRET_WORDS not in said


@pytest.mark.attack(
    "endpoints",
    "fills the operator's memory by the kubelet of a machine of its own",
    "1 MiB of a kubelet's answer is read and unpacked",
)
@pytest.mark.parametrize("packed", [False, True])
async def test_large_answers_of_kubelets(packed: bool) -> None:
    from corral.kube.connection.config import ClusterConfig
    from corral.kube.connection.transport import ClientSettings as Patience
    from corral.kube.connection.transport import KubeConnectionError, Transport

    with outsider() as kubelet:
        kubelet.headers = {"Content-Encoding": "gzip"} if packed else {}
        kubelet.body = bomb() if packed else bytes(32 << 20)
        settings = Patience(max_retries=0, max_answer=1 << 20)
        transport = Transport(ClusterConfig(server=kubelet.url), settings=settings, environ={})
        tracemalloc.start()
        try:
            with pytest.raises(KubeConnectionError):
                await transport.request("POST", "/checkpoint/a/b/c")
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
            await transport.close()


@pytest.mark.attack(
    "endpoints",
    "fills the operator's memory by a log with a line of gigabytes, when its pod fails",
    "the operator asks for 4 MiB of it",
)
async def test_long_lines_of_logs() -> None:
    from corral.families.trainingjob.lifecycle.limits import RunLimits
    from corral.kube.connection.config import ClusterConfig
    from corral.runtime.pods.failures import log_lines

    pod = {"metadata": {"name": "p", "namespace": "n"}}
    with outsider() as server:
        server.body = b"failed\n"
        async with KubeClient(ClusterConfig(server=server.url)) as client:
            assert await log_lines(client, pod, "c", RunLimits()) == ["failed"]
        (asked,) = server.requests
        assert "limitBytes=4194304" in asked


@pytest.mark.attack(
    "endpoints",
    "refuses a stream (a log, a watch) with hundreds of megabytes",
    "1 MiB of a refusal is read",
)
@pytest.mark.parametrize("kind", ["stream", "websocket"])
async def test_large_refusals_of_streams(kind: str) -> None:
    from corral.kube.connection.config import ClusterConfig
    from corral.kube.connection.transport import ClientSettings as Patience
    from corral.kube.connection.transport import Transport
    from corral.kube.errors import ApiError

    with outsider() as server:
        server.status, server.body = 403, bytes(64 << 20)
        config = ClusterConfig(server=server.url)
        transport = Transport(config, settings=Patience(max_retries=0), environ={})
        tracemalloc.start()
        try:
            with pytest.raises(ApiError) as refused:
                if kind == "stream":
                    await transport.open_stream("/logs")
                else:
                    await transport.open_websocket("/exec", protocols=("v5.channel.k8s.io",))
            assert refused.value.status_code == 403
            assert tracemalloc.get_traced_memory()[1] < 16 << 20
        finally:
            tracemalloc.stop()
            await transport.close()
