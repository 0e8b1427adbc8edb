"""Attacks on the logins that namespaces are handed: as Secrets, to pods, to other brokers."""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from corral.api.kafkaml.kinds import Datasource, FederatedDeployment, Inference, MLModel
from corral.api.kafkaml.status import ResultStatus
from corral.cli.errors import FORBIDDEN
from corral.cli.main import app
from corral.cluster.apiserver.auth.pki import write_kubeconfig
from corral.cluster.broker.logins import SECRET, Login, load_key, login_of, owner_named
from corral.cluster.broker.secrets import SecretReconciler, register
from corral.cluster.broker.server import Broker
from corral.cluster.broker.settings import BrokerSettings
from corral.families.kafkaml import objects as made
from corral.families.kafkaml.announcements import wanted_feeds
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.podtools.confine.process import Start
from tests.cluster.broker.broker_tenants import GuardedBroker, Scram
from tests.cluster.broker.broker_wire import Wire
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread

KEY = bytes(range(32))
SERVERS = "corral-broker.corral-system.svc:9092"


@pytest.fixture
def handing_out(backend: Any) -> Iterator[OperatorThread]:
    thread = OperatorThread(str(backend.kubeconfig), lambda m: register(m, KEY, SERVERS)).start()
    yield thread
    thread.kill()


@pytest.fixture
def other(cluster: Objects) -> Iterator[Objects]:
    """The namespace of somebody else."""
    name = f"other-{uuid.uuid4().hex[:8]}"
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    cluster.create("namespaces", space)
    yield Objects(cluster.backend, name)
    cluster.delete("v1", "namespaces", name)


def login(space: Objects) -> dict[str, str]:
    """What the Secret of a namespace says."""
    found = space.find("v1", "secrets", SECRET) or {}
    data = found.get("data") or {}
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def right(space: Objects) -> dict[str, str]:
    """What it has to say."""
    made = login_of(KEY, space.namespace, uid_in(space))
    return {
        "username": made.username,
        "password": made.password,
        "mechanism": "SCRAM-SHA-256",
        "bootstrapServers": SERVERS,
    }


def tenant(space: Objects, role: str) -> str:
    """The token of a service account with a role in a namespace."""
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": role}}
    space.create("serviceaccounts", account)
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": role, "namespace": space.namespace}],
    }  # fmt: skip
    space.create("rolebindings", binding)
    path = space.path("v1", "serviceaccounts", role) + "/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    reply = space.backend.request("POST", path, body)
    assert reply.code == 201, reply.body
    return str(reply.json()["status"]["token"])


@pytest.mark.attack(
    "broker",
    "reads the Secret with another namespace's login",
    "RBAC refuses it; its own is there for who may read Secrets, and not for who may only view",
)
@pytest.mark.route("broker")
def test_secrets_of_others(objects: Objects, other: Objects, handing_out: OperatorThread) -> None:
    for space in (objects, other):
        eventually(lambda space=space: login(space) == right(space))
    edits, views = tenant(objects, "edit"), tenant(objects, "view")

    def read(space: Objects, token: str, name: str = SECRET) -> int:
        return objects.backend.request("GET", space.path("v1", "secrets", name), token=token).code

    eventually(lambda: read(objects, edits) == 200)
    assert read(other, edits) == 403
    assert read(other, edits, "") == 403
    assert read(Objects(objects.backend), edits, "") == 403
    assert read(objects, views) == 403


@pytest.mark.attack(
    "broker",
    "keeps the login of a namespace, which is deleted while the broker does not run",
    "the login is refused: there is no such namespace",
)
async def test_the_login_of_a_deleted_namespace(
    backend: Any, objects: Objects, cluster: Objects, tmp_path: Path, unique: str
) -> None:
    made: list[SecretReconciler] = []
    handing = OperatorThread(
        str(backend.kubeconfig), lambda m: made.append(register(m, KEY, SERVERS))
    ).start()
    (tmp_path / "key").write_bytes(KEY)
    broker = Broker(BrokerSettings(data_dir=tmp_path / "b", port=0, key_file=tmp_path / "key"))
    broker.exists = made[0].exists
    try:
        gone = Objects(backend, f"gone-{unique}")
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": gone.namespace}}
        uid = cluster.create("namespaces", space)["metadata"]["uid"]
        kept = login_of(KEY, gone.namespace, uid)
        here = login_of(KEY, objects.namespace, uid_in(objects))
        owner = owner_named(gone.namespace, uid)
        await asyncio.to_thread(eventually, lambda: made[0].exists(owner))
        await broker.start()

        def comes_in(login: Login) -> bool:
            with Wire(int(broker.addresses[0].rpartition(":")[2])) as wire:
                try:
                    return str(Scram(login).run(wire).error_code.name) == "none"
                except ConnectionError:
                    return False

        assert await asyncio.to_thread(comes_in, kept)
        cluster.delete("v1", "namespaces", gone.namespace)
        await asyncio.to_thread(eventually, lambda: made[0].exists(owner) is False)
        assert not await asyncio.to_thread(comes_in, kept)
        assert await asyncio.to_thread(comes_in, here)
    finally:
        await broker.stop()
        handing.kill()


def uid_in(space: Objects) -> str:
    """Of a namespace."""
    found = Objects(space.backend).get("v1", "namespaces", space.namespace)
    return str(found["metadata"]["uid"])


@pytest.mark.attack(
    "broker",
    "has `corral fl` list or read another namespace's topics",
    "the command reads the login with the caller's own rights, and those end at its namespace",
)
@pytest.mark.route("broker")
def test_the_command_line_has_the_callers_rights(
    objects: Objects, other: Objects, tmp_path: Path
) -> None:
    broker = GuardedBroker(tmp_path / "broker")
    broker.start()
    handing = OperatorThread(
        str(objects.backend.kubeconfig), lambda m: register(m, broker.key, SERVERS)
    ).start()
    try:
        for space in (objects, other):
            eventually(lambda space=space: login(space))
        config = tmp_path / "kubeconfig"
        ca = Path(objects.backend.ca_file).read_bytes()
        write_kubeconfig(config, objects.backend.server, ca=ca, token=tenant(objects, "edit"))

        def call(space: Objects, *words: str) -> Result:
            where = ("--bootstrap", broker.address, "--kubeconfig", str(config))
            login = ("--login", SECRET, "-n", space.namespace)
            return CliRunner().invoke(app, ["fl", *words, *where, *login])

        eventually(lambda: call(objects, "topics").exit_code == 0)
        inject = ("inject", "mnist", "--train", "20", "--test", "0", "--no-datasource")
        assert call(objects, *inject).exit_code == 0
        assert "FED-DEBUG-data_topic" in call(objects, "topics").output
        for words in (inject, ("topics",), ("tail", "FED-DEBUG-data_topic")):
            assert call(other, *words).exit_code == FORBIDDEN
    finally:
        handing.kill()
        broker.stop()


def deleted(space: Objects) -> None:
    space.delete("v1", "secrets", SECRET)


def another_name(space: Objects) -> None:
    patch = {"stringData": {"username": "victim.1.2", "password": "x"}}
    space.patch("v1", "secrets", SECRET, patch)


def immutable(space: Objects) -> None:
    space.patch("v1", "secrets", SECRET, {"immutable": True, "data": {"username": "eA=="}})


def of_another_type(space: Objects) -> None:
    deleted(space)
    wrong = {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET},
        "type": "example.test/own", "data": {"username": "eA=="},
    }  # fmt: skip
    path = space.path("v1", "secrets")
    # the controller may have been faster: then it is there again, and right
    assert space.backend.request("POST", path, wrong).code in (201, 409)


@pytest.mark.attack(
    "broker",
    "changes, freezes, replaces or deletes the Secret with its login, to have pods use another",
    "it says what it has to say again",
)
@pytest.mark.parametrize("change", [deleted, another_name, immutable, of_another_type])
def test_a_changed_secret(
    objects: Objects, handing_out: OperatorThread, change: Callable[[Objects], None]
) -> None:
    eventually(lambda: login(objects) == right(objects))
    change(objects)
    eventually(lambda: login(objects) == right(objects))


@pytest.mark.attack(
    "broker",
    "reads the namespace's login out of pods and Jobs, which more people may see than Secrets",
    "they name the Secret, and have nothing of it",
)
def test_objects_do_not_have_the_login() -> None:
    for pod in pods(kafka={}):
        text = json.dumps(pod)
        found = [e for e in environments(pod) if e["name"] == "KAFKA_PASSWORD"]
        assert [e["valueFrom"]["secretKeyRef"]["name"] for e in found] == [SECRET]
        assert "KAFKA_PASSWORD" in text
        assert not [e for e in environments(pod) if "PASSWORD" in e["name"] and e.get("value")]


@pytest.mark.attack(
    "broker",
    "names a broker of its own in a deployment, to be sent the login",
    "that login is for our broker: another one gets none, or the one that is named for it",
)
def test_other_brokers_are_not_sent_the_login() -> None:
    settings = KafkaMLSettings(kafka=SERVERS, own_kafka="127.0.0.1:9092", secret=SECRET)
    evil = {"bootstrapServers": "evil.example.test:9092"}
    for pod in pods(kafka=evil):
        assert SECRET not in json.dumps(pod)
    (where,) = wanted_feeds([deployment(evil)], settings)
    assert (where.servers, where.secret) == ("evil.example.test:9092", "")
    (where,) = wanted_feeds([deployment({})], settings)
    assert (where.servers, where.secret) == ("127.0.0.1:9092", SECRET)
    mixed = source(evil)
    job = made.client_job(deployment({}), RESULT, model(), mixed, 0, settings)
    (name,) = [e for e in environments(job) if e["name"] == "DATA_KAFKA_USERNAME"]
    assert name["value"] == ""


@pytest.mark.attack(
    "broker",
    "reads the login from within the code of a model",
    "that runs in a process without the pod's environment",
)
def test_model_code_has_no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    given = Start("json:loads").environment()
    assert not [name for name in given if name.startswith("KAFKA")]
    assert "secret" not in given.values()


@pytest.mark.attack(
    "broker",
    "reads the key that passwords are made of, or has an empty one taken",
    "the key is for its owner only, made whole, and a short one is refused",
)
def test_the_key(tmp_path: Any) -> None:
    path = tmp_path / "broker.key"
    key = load_key(path)
    assert (len(key), path.stat().st_mode & 0o777) == (32, 0o600)
    assert load_key(path) == key
    assert [found.name for found in tmp_path.iterdir()] == ["broker.key"]
    short = tmp_path / "short"
    short.write_bytes(b"x")
    with pytest.raises(ValueError, match="remove it"):
        load_key(short)


# -- objects --------------------------------------------------------------------------------------

API = "kafkaml.corral.dev/v1alpha1"
RESULT = ResultStatus(id=1, model="m", federated_string_id="abcd1234", status="created")


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "m", "namespace": "a", "uid": "u", "generation": 1}
    return {"apiVersion": API, "kind": kind, "metadata": metadata, "spec": spec}


def deployment(kafka: dict[str, Any]) -> FederatedDeployment:
    return FederatedDeployment.read(
        _object("FederatedDeployment", {"model": "m", "minData": 10, "kafka": kafka})
    )


def model() -> MLModel:
    return MLModel.read(_object("MLModel", {"framework": "numpy", "code": "model = 1"}))


def source(kafka: dict[str, Any]) -> Datasource:
    spec = {"topic": "t:0:0:5", "totalMsg": 5, "inputConfig": {}, "kafka": kafka}
    return Datasource.read(_object("Datasource", spec))


def pods(kafka: dict[str, Any]) -> list[dict[str, Any]]:
    """All that is made for a deployment and an inference."""
    settings = KafkaMLSettings(kafka=SERVERS, secret=SECRET)
    inference = Inference.read(
        _object(
            "Inference",
            {
                "modelRef": "oci://r/m:1",
                "inputTopic": "i",
                "outputTopic": "o",
                "inputKafka": kafka,
                "outputKafka": kafka,
            },
        )
    )
    return [
        made.server_job(deployment(kafka), RESULT, "oci://r/w:1", settings),
        made.client_job(deployment(kafka), RESULT, model(), source({}), 0, settings),
        made.inference_deployment(inference, "oci://r/m:1", None, settings),
    ]


def environments(obj: dict[str, Any]) -> list[dict[str, Any]]:
    spec = obj["spec"]["template"]["spec"]
    return [entry for container in spec["containers"] for entry in container["env"]]
