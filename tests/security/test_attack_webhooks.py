"""What a mutating webhook may not do to an object, and what a webhook that hangs holds up."""

from __future__ import annotations

import asyncio
import base64
import gzip
import http.server
import json
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from overload_tenants import Tenant, served_meanwhile, tenants

from corral.cluster.apiserver.admission.webhooks.client import (
    CallError,
    ServiceResolver,
    WebhookClient,
    endpoint_of,
)
from corral.cluster.apiserver.auth.pki import ensure_pki
from corral.cluster.apiserver.store import Store
from tests.backends import Backend
from tests.cluster.hooks import webhook
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
GROUP = "admissionregistration.k8s.io/v1"
MUTATING = "mutatingwebhookconfigurations"
VALIDATING = "validatingwebhookconfigurations"


@contextmanager
def registered(
    backend: Backend,
    name: str,
    client: Obj,
    namespace: str,
    *,
    plural: str = MUTATING,
    resources: Sequence[str] = (),
) -> Iterator[None]:
    """A webhook of the ConfigMaps of a namespace, and of more."""
    rule = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"]}
    hook = {
        "name": f"{name}.example.test",
        "clientConfig": client,
        "rules": [{**rule, "resources": ["configmaps", *resources]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    cluster = Objects(backend)
    kind = (
        "MutatingWebhookConfiguration" if plural == MUTATING else "ValidatingWebhookConfiguration"
    )
    body = {"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "webhooks": [hook]}
    cluster.create(plural, body)
    try:
        yield
    finally:
        cluster.delete(GROUP, plural, name)


@contextmanager
def patching(
    backend: Backend,
    folder: Path,
    unique: str,
    namespace: str,
    *operations: Obj,
    resources: Sequence[str] = (),
) -> Iterator[None]:
    """A webhook that changes objects named victim-… so."""

    def answer(review: Obj) -> Obj:
        if not review["object"]["metadata"].get("name", "").startswith("victim"):
            return {"allowed": True}
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch}

    with webhook(folder / "hook", answer) as client:
        with registered(backend, f"evil-{unique}", client, namespace, resources=resources):
            inside = Objects(backend, namespace)
            probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "probe"}}
            inside.create("configmaps", probe)
            yield


def put(path: str, value: Any) -> Obj:
    return {"op": "add", "path": path, "value": value}


def victim(name: str = "victim") -> Obj:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


@pytest.mark.attack(
    "webhooks",
    "A webhook renames a new object",
    "It is stored under the name that it says, and under no other",
)
def test_renamed_objects_are_stored_under_their_name(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path
) -> None:
    with patching(backend, tmp_path, unique, objects.namespace, put("/metadata/name", "other")):
        reply = backend.request("POST", objects.path("v1", "configmaps"), victim())
    assert reply.code == 201, reply.body
    assert reply.json()["metadata"]["name"] == "other"
    assert objects.get("v1", "configmaps", "other")["metadata"]["name"] == "other"
    assert objects.find("v1", "configmaps", "victim") is None


@pytest.mark.attack(
    "webhooks",
    "A webhook renames a new object to one that is there",
    "Refused; the one that is there stays as it is",
)
def test_renaming_does_not_overwrite(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path
) -> None:
    objects.create("configmaps", {**victim("there"), "data": {"a": "b"}})
    with patching(backend, tmp_path, unique, objects.namespace, put("/metadata/name", "there")):
        reply = backend.request("POST", objects.path("v1", "configmaps"), victim())
    assert reply.code == 409
    assert objects.get("v1", "configmaps", "there")["data"] == {"a": "b"}


@pytest.mark.attack(
    "webhooks",
    "A webhook moves an object to another namespace",
    "Refused, when it is created and when it is changed",
)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_objects_stay_in_their_namespace(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path, method: str
) -> None:
    path = objects.path("v1", "configmaps")
    if method == "PUT":
        objects.create("configmaps", victim())
        path += "/victim"
    operation = put("/metadata/namespace", "default")
    with patching(backend, tmp_path, unique, objects.namespace, operation):
        reply = backend.request(method, path, victim())
    assert reply.code == 400
    assert "does not match the namespace" in reply.json()["message"]
    assert Objects(backend, "default").find("v1", "configmaps", "victim") is None


@pytest.mark.attack(
    "webhooks",
    "A webhook renames an object that is there, or gives it another uid",
    "Refused: both are immutable",
)
@pytest.mark.parametrize("field", ["name", "uid"])
def test_identity_is_immutable(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path, field: str
) -> None:
    objects.create("configmaps", victim())
    with patching(backend, tmp_path, unique, objects.namespace, put(f"/metadata/{field}", "x")):
        body = {**victim(), "data": {"a": "b"}}
        reply = backend.request("PUT", objects.path("v1", "configmaps", "victim"), body)
    assert reply.code == 422
    assert "field is immutable" in reply.json()["message"]
    assert "data" not in objects.get("v1", "configmaps", "victim")


@pytest.mark.attack(
    "webhooks",
    "A webhook renames a pod, or gives it another uid, when a container is added to debug it",
    "Refused: what a pod is called does not change through any of its subresources",
)
@pytest.mark.parametrize(
    ("where", "value"),
    [("/name", "other"), ("/uid", "x"), ("/name", "../x"), ("", {}), ("", [])],
)
def test_identity_is_immutable_in_subresources(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path, where: str, value: Any
) -> None:
    spec = {"containers": [{"name": "a", "image": "x"}]}
    meta = {"name": "victim"}
    objects.create("pods", {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    path = objects.path("v1", "pods", "victim")
    added = {"spec": {"ephemeralContainers": [{"name": "e", "image": "x"}]}}
    meta = backend.request("GET", path).json()["metadata"]
    operation, more = put(f"/metadata{where}", value), ["pods/ephemeralcontainers"]
    inside = patching(backend, tmp_path, unique, objects.namespace, operation, resources=more)
    with inside:
        form = "application/strategic-merge-patch+json"
        reply = backend.request("PATCH", f"{path}/ephemeralcontainers", added, content_type=form)
    assert reply.code in (422, 500, 400), reply.body
    assert b"server's log" not in reply.body
    stored = backend.request("GET", path)
    assert stored.json()["metadata"]["uid"] == meta["uid"]
    assert stored.json()["metadata"]["name"] == "victim"


@pytest.mark.attack(
    "webhooks",
    "A webhook marks a new object as deleted, or as older than it is",
    "What only the server sets is set by the server",
)
def test_the_servers_fields_are_the_servers(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path
) -> None:
    operations = (
        put("/metadata/deletionTimestamp", "2020-01-01T00:00:00Z"),
        put("/metadata/deletionGracePeriodSeconds", 5),
        put("/metadata/creationTimestamp", "2020-01-01T00:00:00Z"),
        put("/metadata/uid", "of-my-own"),
        put("/metadata/selfLink", "/somewhere"),
        put("/metadata/finalizers", ["example.test/hold"]),
    )
    with patching(backend, tmp_path, unique, objects.namespace, *operations):
        reply = backend.request("POST", objects.path("v1", "configmaps"), victim())
    assert reply.code == 201, reply.body
    meta = objects.get("v1", "configmaps", "victim")["metadata"]
    if backend.name == "embedded":  # upstream lets these through
        assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & set(meta)
    assert meta["uid"] != "of-my-own"
    assert not meta["creationTimestamp"].startswith("2020")
    objects.patch("v1", "configmaps", "victim", {"metadata": {"finalizers": None}})


@pytest.mark.attack(
    "webhooks",
    "A webhook gives a new object a resource version",
    "Refused: a new object has none",
)
def test_new_objects_have_no_version(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path
) -> None:
    operation = put("/metadata/resourceVersion", "7")
    with patching(backend, tmp_path, unique, objects.namespace, operation):
        reply = backend.request("POST", objects.path("v1", "configmaps"), victim())
    assert reply.code == 500
    assert "resourceVersion should not be set" in reply.json()["message"]
    assert objects.find("v1", "configmaps", "victim") is None


@pytest.mark.attack(
    "webhooks",
    "A webhook marks an object that is changed as deleted",
    "It is not: an update never begins a deletion",
)
def test_updates_do_not_delete(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path
) -> None:
    objects.create("configmaps", victim())
    operation = put("/metadata/deletionTimestamp", "2020-01-01T00:00:00Z")
    with patching(backend, tmp_path, unique, objects.namespace, operation):
        body = {**victim(), "data": {"a": "b"}}
        backend.request("PUT", objects.path("v1", "configmaps", "victim"), body)
    assert "deletionTimestamp" not in objects.get("v1", "configmaps", "victim")["metadata"]


@pytest.mark.attack(
    "webhooks",
    "A webhook makes the record of field owners unreadable",
    "The record is put back, and the client is warned",
)
def test_field_owners_are_put_back(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path
) -> None:
    entry = {"manager": "evil", "operation": "Update", "apiVersion": "v1", "fieldsType": "V9"}
    operation = put("/metadata/managedFields", [entry])
    with patching(backend, tmp_path, unique, objects.namespace, operation):
        reply = backend.request("POST", objects.path("v1", "configmaps"), victim())
    assert reply.code == 201, reply.body
    warned = {key.lower(): value for key, value in reply.headers.items()}["warning"]
    assert "managedFields was in an invalid state after admission" in warned
    found = objects.get("v1", "configmaps", "victim")["metadata"].get("managedFields") or []
    assert all(one["manager"] != "evil" for one in found)


@pytest.mark.attack(
    "webhooks",
    "A webhook makes an object one of another kind, or of another version",
    "Refused; nothing is stored",
)
@pytest.mark.parametrize(("field", "value"), [("kind", "Secret"), ("apiVersion", "evil/v1")])
def test_objects_stay_of_their_kind(
    backend: Backend, objects: Objects, unique: str, tmp_path: Path, field: str, value: str
) -> None:
    operations = (put(f"/{field}", value), put("/data", {"a": "b"}))
    with patching(backend, tmp_path, unique, objects.namespace, *operations):
        reply = backend.request("POST", objects.path("v1", "configmaps"), victim())
    assert reply.code >= 400, reply.body
    assert objects.find("v1", "configmaps", "victim") is None
    assert objects.find("v1", "secrets", "victim") is None


# -- answers of webhooks ---------------------------------------------------------------------------


@contextmanager
def answering(folder: Path, headers: dict[str, str], body: Callable[[str], bytes]) -> Iterator[Obj]:
    """A webhook that answers with these bytes; ``body`` gets the review's uid."""
    made = ensure_pki(folder)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            sent = body(review["request"]["uid"])
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(sent)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.serving.cert_file, made.serving.key_file)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    ca = base64.b64encode(made.ca.cert).decode()
    try:
        yield {"url": f"https://127.0.0.1:{server.server_address[1]}/", "caBundle": ca}
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def allowed(uid: str, padding: int = 0) -> bytes:
    response = {"uid": uid, "allowed": True, "auditAnnotations": {"a": "x" * padding}}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
    return json.dumps({**review, "response": response}).encode()


@pytest.mark.attack(
    "webhooks",
    "A webhook answers with hundreds of megabytes, plain or packed, in many pieces or in one",
    "3 MiB of an answer are read, and nothing is unpacked; answers within the limit are read whole",
)
@pytest.mark.parametrize("what", ["large", "huge", "packed"])
async def test_large_answers(what: str, tmp_path: Path) -> None:
    size = {"large": 2 << 20, "huge": 64 << 20, "packed": 256 << 20}[what]
    headers = {"Content-Encoding": "gzip"} if what == "packed" else {}

    def body(uid: str) -> bytes:
        plain = allowed(uid, size)
        return gzip.compress(plain, 1) if what == "packed" else plain

    caller = WebhookClient(ServiceResolver(Store(tmp_path / "db")))
    review = orjson.dumps({"request": {"uid": "u"}})
    with answering(tmp_path / "hook", headers, body) as client:
        try:
            sent = await caller.post(endpoint_of(client), review, seconds=30)
            assert len(sent) <= 3 << 20
            assert (
                (orjson.loads(sent)["response"]["uid"] == "u")
                if what == "large"
                else sent[:1] != b"{"
            )
        except CallError as err:
            assert what == "huge" and "larger than" in str(err)
        finally:
            await caller.close()


# -- webhooks that hang ----------------------------------------------------------------------------


@contextmanager
def hanging() -> Iterator[Obj]:
    """A port that takes connections and says nothing."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(512)
        yield {"url": f"https://127.0.0.1:{sock.getsockname()[1]}/"}


@pytest.fixture
async def pair(backend: Backend, unique: str) -> AsyncIterator[tuple[Tenant, Tenant]]:
    async with tenants(backend, unique) as made:
        yield made


@pytest.mark.attack(
    "webhooks",
    "A webhook of one tenant's objects hangs, under many requests",
    "They wait without a seat; another tenant reads and writes meanwhile",
)
@pytest.mark.parametrize("plural", [MUTATING, VALIDATING])
async def test_hanging_webhooks_hold_up_their_own(
    backend: Backend, pair: tuple[Tenant, Tenant], unique: str, plural: str
) -> None:
    loud, quiet = pair
    path, body = loud.path("configmaps"), {"metadata": {"generateName": "held-"}}
    with (
        hanging() as client,
        registered(backend, f"hang-{unique}", client, loud.namespace, plural=plural),
    ):
        eventually(lambda: backend.request("POST", path, body).code == 500, seconds=20)
        waiting = [loud.code("POST", path, body) for _ in range(60)]
        mine = asyncio.ensure_future(served_meanwhile(waiting, quiet))
        await asyncio.sleep(0.1)
        wrote = {"metadata": {"name": "written-meanwhile"}}
        assert await quiet.code("POST", quiet.path("configmaps"), wrote) == 201
        over, codes = await mine
    assert over == 0
    assert set(codes) == {500}


@pytest.mark.attack(
    "webhooks",
    "More requests for a hanging webhook than it is called with at once",
    "The excess of the tenant is refused with 429 at once",
)
async def test_calls_of_one_webhook_are_bounded(
    backend: Backend, pair: tuple[Tenant, Tenant], unique: str
) -> None:
    loud, quiet = pair
    path, body = loud.path("configmaps"), {"metadata": {"generateName": "held-"}}
    with (
        hanging() as client,
        registered(backend, f"hang-{unique}", client, loud.namespace, plural=VALIDATING),
    ):
        eventually(lambda: backend.request("POST", path, body).code == 500, seconds=20)
        over, codes = await served_meanwhile(
            [loud.code("POST", path, body) for _ in range(150)], quiet
        )
    assert 429 in codes
    assert set(codes) <= {429, 500}
    assert over <= codes.count(429)
