"""Admission webhooks against a real HTTPS server. Texts were read from kube-apiserver 1.37.1."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
import json
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.webhooks.client import (
    CallError,
    Endpoint,
    ServiceResolver,
    WebhookClient,
    endpoint_of,
)
from corral.cluster.apiserver.admission.webhooks.plugin import MutatingWebhooks, ValidatingWebhooks
from corral.cluster.apiserver.auth.users import UserInfo
from corral.kube.errors import ApiError, BadRequest, Forbidden, InternalError, NotFound

NAME = "v.example.com"


def _certificate(name, key, issuer, signer, *extensions):
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return builder.sign(signer, hashes.SHA256())


class Server:
    """Answers reviews by the path they are posted to."""

    def __init__(self):
        self.reviews = []
        self.hosts = []
        self.port = 0
        self.ca = b""
        self.answers = {}
        self._together = asyncio.Barrier(2)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def paths(self):
        return [path for path, _ in self.reviews]

    def question(self, index=-1):
        return self.reviews[index][1]["request"]

    async def handle(self, request):
        body = await request.json()
        self.reviews.append((request.path, body))
        self.hosts.append(request.headers["Host"])
        response = {"uid": body["request"]["uid"], "allowed": True}
        review = {"apiVersion": body["apiVersion"], "kind": "AdmissionReview"}
        review["response"] = response
        given = self.answers.get(request.path)
        if callable(given):
            given = given(body["request"])
        match given:
            case web.Response():
                return given
            case "together":
                await self._together.wait()
            case {"review": whole}:
                return web.json_response(whole)
            case dict():
                response.update(given)
        return web.json_response(review)


def patch(*operations):
    encoded = base64.b64encode(json.dumps(list(operations)).encode()).decode()
    return {"patch": encoded, "patchType": "JSONPatch"}


def label(key, value="yes"):
    def answer(request):
        labels = request["object"]["metadata"].get("labels") or {}
        return patch({"op": "add", "path": "/metadata/labels", "value": {**labels, key: value}})

    return answer


@pytest.fixture(scope="session")
def authority(tmp_path_factory):
    """A CA, and a server certificate for the loopback address and a service."""
    folder = tmp_path_factory.mktemp("webhook")
    ca_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    basic = x509.BasicConstraints(ca=True, path_length=None)
    ca = _certificate("ca", ca_key, "ca", ca_key, basic)
    names = x509.SubjectAlternativeName(
        [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("hook.team.svc")]
    )
    cert = _certificate("hook", key, "ca", ca_key, names)
    pem = serialization.Encoding.PEM
    (folder / "tls.crt").write_bytes(cert.public_bytes(pem))
    (folder / "tls.key").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder, ca.public_bytes(pem)


@pytest.fixture
async def server(authority):
    folder, ca = authority
    made = Server()
    made.ca = ca
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    made.port = runner.addresses[0][1]
    yield made
    await runner.cleanup()


@pytest.fixture
async def hooked(world, server):
    """A world that asks webhooks."""
    client = WebhookClient(ServiceResolver(world.store))
    shared = {"kinds": world, "authorizer": world.authorizer, "client": client}
    world.plugins = [
        MutatingWebhooks(world.store, world.catalog, **shared),
        ValidatingWebhooks(world.store, world.catalog, **shared),
    ]
    yield world
    await client.close()


def hook(server, path, name=NAME, **more):
    return {
        "name": name,
        "rules": [
            {
                "operations": ["*"],
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["configmaps"],
                "scope": "*",
            }
        ],
        "clientConfig": {
            "url": server.url + path,
            "caBundle": base64.b64encode(server.ca).decode(),
        },
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "timeoutSeconds": 5,
        **more,
    }


async def configure(world, kind, *hooks, name="config"):
    await world.put(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": f"{kind}WebhookConfiguration",
            "metadata": {"name": name},
            "webhooks": list(hooks),
        }
    )


def config_map(name="x", **more):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}


# -- the question --------------------------------------------------------------------------


async def test_review_of_a_create(hooked, server):
    await configure(hooked, "Validating", hook(server, "/ok"))
    await hooked.create(config_map())
    ((path, review),) = server.reviews
    request = review["request"]
    assert path == "/ok"
    assert (review["kind"], review["apiVersion"]) == ("AdmissionReview", "admission.k8s.io/v1")
    gvk = {"group": "", "version": "v1", "kind": "ConfigMap"}
    gvr = {"group": "", "version": "v1", "resource": "configmaps"}
    assert {k: v for k, v in request.items() if k not in ("uid", "object")} == {
        "kind": gvk,
        "resource": gvr,
        "requestKind": gvk,
        "requestResource": gvr,
        "name": "x",
        "namespace": "team",
        "operation": "CREATE",
        "userInfo": {
            "username": "admin",
            "uid": "1",
            "groups": ["system:masters", "system:authenticated"],
        },
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    assert request["object"]["metadata"]["name"] == "x"
    assert request["object"]["metadata"]["uid"]


async def test_review_of_an_update_and_a_delete(hooked, server):
    await hooked.create(config_map())
    await configure(hooked, "Mutating", hook(server, "/m"))
    await configure(hooked, "Validating", hook(server, "/v"))
    await hooked.update({**config_map(), "data": {"a": "b"}})
    assert server.paths() == ["/m", "/v"]
    for index in (0, 1):
        request = server.question(index)
        assert request["operation"] == "UPDATE"
        assert request["object"]["data"] == {"a": "b"}
        assert "data" not in request["oldObject"]
        assert request["options"]["kind"] == "UpdateOptions"
    await hooked.delete(config_map())
    assert server.paths() == ["/m", "/v", "/m", "/v"]
    request = server.question()
    assert request["operation"] == "DELETE"
    assert request["object"] is None
    assert request["oldObject"]["data"] == {"a": "b"}


async def test_generated_names_come_after_mutation(hooked, server):
    await configure(hooked, "Mutating", hook(server, "/m"))
    await configure(hooked, "Validating", hook(server, "/v"))
    made = config_map()
    made["metadata"] = {"generateName": "gen-"}
    made = await hooked.create(made)
    first, second = server.question(0), server.question(1)
    assert "name" not in first
    assert "name" not in first["object"]["metadata"]
    assert second["name"] == second["object"]["metadata"]["name"] == made["metadata"]["name"]


async def test_scale_and_binding_are_shown_as_such(hooked, server):
    everything = {
        "operations": ["*"],
        "apiGroups": ["*"],
        "apiVersions": ["*"],
        "resources": ["deployments/scale", "pods/binding"],
    }
    await configure(hooked, "Validating", hook(server, "/v", rules=[everything]))
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "template": template, "selector": {"matchLabels": {"a": "b"}}},
    }
    plugin = hooked.plugins[1]
    await plugin.validate(hooked.request("UPDATE", deployment, deployment, subresource="scale"))
    request = server.question()
    assert request["kind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    assert request["resource"]["resource"] == "deployments"
    assert request["subResource"] == request["requestSubResource"] == "scale"
    assert request["object"]["kind"] == "Scale"
    assert request["object"]["spec"] == {"replicas": 3}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "team"},
        "spec": {"nodeName": "n"},
    }
    await plugin.validate(hooked.request("UPDATE", pod, pod, subresource="binding"))
    request = server.question()
    assert (request["operation"], request["kind"]["kind"]) == ("CREATE", "Binding")
    assert request["object"]["target"] == {"kind": "Node", "name": "n"}


async def test_other_version_of_the_same_kind(hooked, server):
    rules = [
        {
            "operations": ["*"],
            "apiGroups": ["autoscaling"],
            "apiVersions": ["v1"],
            "resources": ["*"],
        }
    ]
    server.answers["/m"] = label("hook")
    await configure(hooked, "Mutating", hook(server, "/m", rules=rules))
    await configure(
        hooked,
        "Validating",
        hook(server, "/v", rules=rules),
        hook(server, "/exact", "e.example.com", rules=rules, matchPolicy="Exact"),
    )
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    made = await hooked.create(
        {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": "h"},
            "spec": {
                "minReplicas": 1,
                "maxReplicas": 3,
                "scaleTargetRef": target,
                "metrics": [{"type": "Resource", "resource": cpu}],
            },
        }
    )
    assert server.paths() == ["/m", "/v"]
    for index in (0, 1):
        request = server.question(index)
        assert request["kind"]["version"] == request["resource"]["version"] == "v1"
        assert request["requestKind"]["version"] == "v2"
        assert request["object"]["apiVersion"] == "autoscaling/v1"
        assert request["object"]["spec"]["targetCPUUtilizationPercentage"] == 50
    assert made["apiVersion"] == "autoscaling/v2"
    assert made["metadata"]["labels"] == {"hook": "yes"}
    assert made["spec"]["metrics"] == [{"type": "Resource", "resource": cpu}]


async def test_v1beta1_reviews(hooked, server):
    server.answers["/old"] = {"uid": "ignored", "allowed": True}
    old = hook(server, "/old", admissionReviewVersions=["v2", "v1beta1"])
    await configure(hooked, "Validating", old)
    await hooked.create(config_map())
    assert server.reviews[0][1]["apiVersion"] == "admission.k8s.io/v1beta1"


# -- who is asked --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        pytest.param({"operations": ["CREATE"]}, True, id="operation"),
        pytest.param({"operations": ["UPDATE", "DELETE"]}, False, id="other operation"),
        pytest.param({"apiGroups": ["apps"]}, False, id="other group"),
        pytest.param({"apiGroups": ["*"], "apiVersions": ["*"]}, True, id="any version"),
        pytest.param({"resources": ["*"]}, True, id="any resource"),
        pytest.param({"resources": ["*/*"]}, True, id="any subresource"),
        pytest.param({"resources": ["configmaps/*"]}, True, id="resource with subresources"),
        pytest.param({"resources": ["configmaps/status"]}, False, id="subresource"),
        pytest.param({"scope": "Cluster"}, False, id="cluster scope"),
        pytest.param({"scope": "Namespaced"}, True, id="namespaced"),
    ],
)
async def test_rules(hooked, server, rule, asked):
    one = hook(server, "/v")
    one["rules"][0].update(rule)
    await configure(hooked, "Validating", one)
    await hooked.create(config_map())
    assert bool(server.reviews) is asked


async def test_subresources_of_resources(hooked, server):
    one = hook(server, "/v")
    one["rules"][0]["resources"] = ["pods"]
    two = hook(server, "/w", "w.example.com")
    two["rules"][0]["resources"] = ["pods/*"]
    await configure(hooked, "Validating", one, two)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}
    request = hooked.request("UPDATE", pod, pod, subresource="status")
    await hooked.plugins[1].validate(request)
    assert server.paths() == ["/w"]


async def test_selectors(hooked, server):
    by_object = {"objectSelector": {"matchLabels": {"a": "b"}}}
    by_namespace = {"namespaceSelector": {"matchLabels": {"env": "prod"}}}
    await configure(
        hooked,
        "Validating",
        hook(server, "/object", "o.example.com", **by_object),
        hook(server, "/namespace", "n.example.com", **by_namespace),
    )
    await hooked.create(config_map("one"))
    assert server.paths() == []
    await hooked.create(config_map("two", labels={"a": "b"}))
    assert server.paths() == ["/object"]
    await hooked.update(config_map("two"))
    assert server.paths() == ["/object", "/object"], "the old object counts too"
    labels = {"labels": {"env": "prod"}}
    await hooked.put(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", **labels}}
    )
    await hooked.create(config_map("three"))
    assert server.paths()[2:] == ["/namespace"]


async def test_namespaces_are_selected_by_their_own_labels(hooked, server):
    one = hook(server, "/v", namespaceSelector={"matchLabels": {"env": "prod"}})
    one["rules"][0]["resources"] = ["namespaces"]
    await configure(hooked, "Validating", one)
    for name, labels in (("a", {}), ("b", {"env": "prod"})):
        await hooked.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        )
    assert [r[1]["request"]["namespace"] for r in server.reviews] == ["b"]


async def test_configurations_are_not_sent_to_webhooks(hooked, server):
    server.answers["/deny"] = {"allowed": False}
    one = hook(server, "/deny")
    one["rules"][0].update(apiGroups=["*"], apiVersions=["*"], resources=["*"])
    await configure(hooked, "Validating", one)
    other = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "other"},
    }
    await hooked.create(other)
    assert server.reviews == []


async def test_changes_of_configurations_count_at_once(hooked, server):
    await hooked.create(config_map("a"))
    await configure(hooked, "Validating", hook(server, "/one"))
    await hooked.create(config_map("b"))
    await configure(hooked, "Validating", hook(server, "/two"))
    await hooked.create(config_map("c"))
    await configure(hooked, "Validating")
    await hooked.create(config_map("d"))
    assert server.paths() == ["/one", "/two"]


# -- match conditions ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "asked"),
    [
        ("object.metadata.name == 'x'", True),
        ("object.metadata.name == 'y'", False),
        ("oldObject == null && request.operation == 'CREATE'", True),
        ("request.userInfo.username != 'admin'", False),
        ("authorizer.group('').resource('pods').namespace('a').check('get').allowed()", True),
        ("authorizer.requestResource.check('create').allowed()", True),
        ("authorizer.serviceAccount('a', 'b').path('/x').check('get').allowed()", False),
    ],
)
async def test_match_conditions(hooked, server, expression, asked):
    conditions = [{"name": "c", "expression": expression}]
    await configure(hooked, "Validating", hook(server, "/v", matchConditions=conditions))
    await hooked.create(config_map())
    assert bool(server.reviews) is asked


async def test_failing_match_conditions(hooked, server):
    conditions = [{"name": "c", "expression": "object.data.zz == 'b'"}]
    await configure(hooked, "Validating", hook(server, "/v", matchConditions=conditions))
    with pytest.raises(Forbidden) as refused:
        await hooked.create({**config_map(), "data": {"a": "b"}})
    assert refused.value.message == (
        "configmaps \"x\" is forbidden: expression 'object.data.zz == 'b'' resulted in error: "
        "no such key: zz"
    )
    lenient = hook(server, "/v", matchConditions=conditions, failurePolicy="Ignore")
    await configure(hooked, "Validating", lenient)
    await hooked.create({**config_map(), "data": {"a": "b"}})
    assert server.reviews == []


# -- answers -------------------------------------------------------------------------------

DENIED = f'admission webhook "{NAME}" denied the request'


@pytest.mark.parametrize(
    ("status", "message", "code", "reason"),
    [
        pytest.param(None, f"{DENIED} without explanation", 400, "", id="nothing"),
        pytest.param({"message": "no way"}, f"{DENIED}: no way", 400, "", id="message"),
        pytest.param(
            {"message": "no", "code": 403, "reason": "Forbidden"},
            f"{DENIED}: no",
            403,
            "Forbidden",
            id="code and reason",
        ),
        pytest.param({"reason": "Odd", "code": 422}, f"{DENIED}: Odd", 422, "Odd", id="reason"),
        pytest.param({"message": "m", "code": 200}, f"{DENIED}: m", 400, "", id="good code"),
    ],
)
@pytest.mark.parametrize("kind", ["Validating", "Mutating"])
async def test_denials(hooked, server, kind, status, message, code, reason):
    server.answers["/deny"] = {"allowed": False} | ({"status": status} if status else {})
    await configure(hooked, kind, hook(server, "/deny"))
    with pytest.raises(ApiError) as refused:
        await hooked.create(config_map())
    got = refused.value
    assert (got.message, got.status_code, got.status_reason) == (message, code, reason)
    assert ("reason" in got.status) is bool(reason)


async def test_warnings_are_passed_on(hooked, server):
    server.answers["/warn"] = {"warnings": ["one", "two"]}
    await configure(hooked, "Validating", hook(server, "/warn"))
    await hooked.create(config_map())
    assert hooked.warnings == ["one", "two"]


def bare(**review):
    return {"review": review}


GO_STRUCT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
BAD = {
    "not found": (
        web.Response,
        {"status": 404, "text": "404 page not found"},
        "failed to call webhook: the server could not find the requested resource",
    ),
    "server error": (
        web.Response,
        {"status": 500, "text": "boom"},
        'failed to call webhook: an error on the server ("boom") has prevented the request from '
        "succeeding",
    ),
    "text": (
        web.Response,
        {"text": "hello"},
        "failed to call webhook: couldn't get version/kind; json parse error: json: cannot "
        f"unmarshal string into Go value of type {GO_STRUCT}",
    ),
    "no response": (
        bare,
        {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"},
        "received invalid webhook response: webhook response was absent",
    ),
    "patch type alone": (
        dict,
        {"patchType": "JSONPatch"},
        "received invalid webhook response: validating webhook may not return response.patchType",
    ),
    "patch": (
        dict,
        {"patch": "W10="},
        "received invalid webhook response: validating webhook may not return response.patch",
    ),
}


@pytest.mark.parametrize(("make", "arguments", "why"), BAD.values(), ids=BAD)
async def test_bad_answers(hooked, server, make, arguments, why):
    server.answers["/bad"] = lambda request: make(**arguments)
    await configure(hooked, "Validating", hook(server, "/bad"))
    with pytest.raises(InternalError) as failed:
        await hooked.create(config_map())
    text = f'failed calling webhook "{NAME}": {why}'
    assert failed.value.message == f"Internal error occurred: {text}"
    assert failed.value.details == {"causes": [{"message": text}]}
    await configure(hooked, "Validating", hook(server, "/bad", failurePolicy="Ignore"))
    await hooked.create(config_map())


async def test_answer_to_another_question(hooked, server):
    server.answers["/bad"] = {"uid": "x"}
    await configure(hooked, "Validating", hook(server, "/bad"))
    with pytest.raises(InternalError, match=r'expected response.uid="[0-9a-f-]{36}", got "x"'):
        await hooked.create(config_map())
    server.answers["/bad"] = lambda request: bare(response={"uid": request["uid"]})
    expected = (
        "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind="
    )
    with pytest.raises(InternalError, match=expected):
        await hooked.create(config_map())


# -- calling -------------------------------------------------------------------------------


async def test_nobody_listens(hooked, server):
    config = {"url": "https://127.0.0.1:1/x"}
    await configure(hooked, "Validating", hook(server, "/x", clientConfig=config))
    with pytest.raises(InternalError) as failed:
        await hooked.create(config_map())
    assert failed.value.message == (
        f'Internal error occurred: failed calling webhook "{NAME}": failed to call webhook: Post '
        '"https://127.0.0.1:1/x?timeout=5s": dial tcp 127.0.0.1:1: connect: connection refused'
    )


async def test_unknown_authority(hooked, server):
    config = {"url": f"{server.url}/x"}
    await configure(hooked, "Validating", hook(server, "/x", clientConfig=config))
    with pytest.raises(InternalError) as failed:
        await hooked.create(config_map())
    assert failed.value.message.endswith(
        f'Post "{server.url}/x?timeout=5s": tls: failed to verify certificate: x509: certificate '
        "signed by unknown authority"
    )


async def test_too_slow(world, server):
    client = WebhookClient(ServiceResolver(world.store))
    with pytest.raises(CallError) as failed:
        await client.post(Endpoint(f"{server.url}/slow", server.ca), b"{}", seconds=0)
    await client.close()
    text = f'Post "{server.url}/slow?timeout=0s": context deadline exceeded'
    assert str(failed.value) == text


async def test_validating_webhooks_run_at_once(hooked, server):
    server.answers["/both"] = "together"
    await configure(
        hooked,
        "Validating",
        hook(server, "/both", "a.example.com"),
        hook(server, "/both", "b.example.com"),
    )
    async with asyncio.timeout(5):
        await hooked.create(config_map())


async def test_dry_run_needs_harmless_webhooks(hooked, server):
    await configure(hooked, "Validating", hook(server, "/v", sideEffects="NoneOnDryRun"))
    await hooked.create(config_map(), dry_run=True)
    assert server.question()["dryRun"] is True
    await configure(hooked, "Validating", hook(server, "/v", sideEffects="Some"))
    with pytest.raises(BadRequest) as refused:
        await hooked.create(config_map(), dry_run=True)
    assert refused.value.message == f'admission webhook "{NAME}" does not support dry run'


SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "hook"},
    "spec": {"ports": [{"name": "https", "port": 443}]},
}


def slice_of(port, *, ready=True):
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["127.0.0.1"], "conditions": {"ready": ready}}],
        "ports": [{"name": "https", "port": port}],
    }


async def test_service_reference(hooked, server):
    reference = {"namespace": "team", "name": "hook", "path": "/svc"}
    config = {"service": reference, "caBundle": base64.b64encode(server.ca).decode()}
    await configure(hooked, "Validating", hook(server, "", clientConfig=config))

    async def failure():
        with pytest.raises(InternalError) as failed:
            await hooked.create(config_map())
        return failed.value.message.partition("failed to call webhook: ")[2]

    post = 'Post "https://hook.team.svc:443/svc?timeout=5s": '
    assert await failure() == f'{post}service "hook" not found'
    await hooked.put(SERVICE)
    assert await failure() == f'{post}no endpoints available for service "hook"'
    await hooked.put(slice_of(server.port, ready=False))
    assert await failure() == f'{post}no endpoints available for service "hook"'
    await hooked.put(slice_of(server.port))
    await hooked.create(config_map())
    assert server.paths() == ["/svc"]
    assert server.hosts == ["hook.team.svc:443"]


async def test_resolver_knows_endpoints_and_external_names(world):
    resolve = ServiceResolver(world.store)
    await world.put(SERVICE)
    with pytest.raises(LookupError, match='no service port 80 found for service "hook"'):
        resolve("team", "hook", 80)
    subset = {"addresses": [{"ip": "10.0.0.9"}], "ports": [{"name": "https", "port": 8443}]}
    await world.put(
        {
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"name": "hook"},
            "subsets": [subset],
        }
    )
    assert resolve("team", "hook", 443) == ("10.0.0.9", 8443)
    external = {"type": "ExternalName", "externalName": "h.example.com"}
    await world.put({**SERVICE, "metadata": {"name": "far"}, "spec": external})
    assert resolve("team", "far", 8080) == ("h.example.com", 8080)


def test_endpoints():
    service = {"namespace": "n", "name": "s", "port": 8443, "path": "/a"}
    found = endpoint_of({"service": service})
    assert found == Endpoint("https://s.n.svc:8443/a", b"", ("n", "s", 8443))
    assert found.server_name == "s.n.svc"
    assert endpoint_of({"url": "https://h/x", "caBundle": "Y2E="}) == Endpoint("https://h/x", b"ca")


# -- mutation ------------------------------------------------------------------------------


async def test_patches_are_applied_in_the_order_of_names(hooked, server):
    server.answers |= {"/a": label("a"), "/b": label("b"), "/c": label("c")}
    await configure(hooked, "Mutating", hook(server, "/c", "c.example.com"), name="two")
    await configure(
        hooked,
        "Mutating",
        hook(server, "/b", "b.example.com"),
        hook(server, "/a", "a.example.com"),
        name="one",
    )
    made = await hooked.create(config_map())
    assert server.paths() == ["/b", "/a", "/c"]
    assert made["metadata"]["labels"] == {"a": "yes", "b": "yes", "c": "yes"}
    assert server.question(2)["object"]["metadata"]["labels"] == {"a": "yes", "b": "yes"}


async def test_what_a_patch_leaves_is_normal_and_defaulted(hooked, server):
    port = {"port": 80, "madeUp": None}
    server.answers["/m"] = patch({"op": "add", "path": "/spec/ports/-", "value": port})
    one = hook(server, "/m")
    one["rules"][0]["resources"] = ["services"]
    await configure(hooked, "Mutating", one)
    spec = {"ports": [{"name": "a", "port": 1}], "clusterIP": "None"}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}
    request = hooked.request("CREATE", service)
    assert await hooked.plugins[0].mutate(request)
    added = request.object["spec"]["ports"][1]
    assert added == {"port": 80, "protocol": "TCP", "targetPort": 80}


async def test_empty_patches_change_nothing(hooked, server):
    server.answers["/m"] = patch()
    await configure(hooked, "Mutating", hook(server, "/m"))
    assert not await hooked.plugins[0].mutate(hooked.request("CREATE", config_map()))


async def test_patches_that_do_not_apply(hooked, server):
    server.answers["/m"] = patch({"op": "remove", "path": "/metadata/nope"})
    await configure(hooked, "Mutating", hook(server, "/m", failurePolicy="Ignore"))
    with pytest.raises(InternalError, match=r"Internal error occurred: .*nope"):
        await hooked.create(config_map())
    server.answers["/m"] = {"patch": base64.b64encode(b'{"a"').decode(), "patchType": "JSONPatch"}
    await hooked.create(config_map())


async def test_deletes_cannot_be_patched(hooked, server):
    await hooked.create(config_map())
    server.answers["/m"] = patch({"op": "add", "path": "/metadata/labels", "value": {}})
    await configure(hooked, "Mutating", hook(server, "/m"))
    with pytest.raises(InternalError) as failed:
        await hooked.delete(config_map())
    assert failed.value.message == (
        f'Internal error occurred: admission webhook "{NAME}" attempted to modify the object, '
        "which is not supported for this operation"
    )


async def test_scale_can_be_patched(hooked, server):
    server.answers["/m"] = patch({"op": "replace", "path": "/spec/replicas", "value": 7})
    one = hook(server, "/m")
    one["rules"][0].update(apiGroups=["apps"], resources=["deployments/scale"])
    await configure(hooked, "Mutating", one)
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"}}},
    }
    request = hooked.request("UPDATE", deployment, deployment, subresource="scale")
    assert await hooked.plugins[0].mutate(request)
    assert request.object["spec"]["replicas"] == 7


@pytest.mark.parametrize(
    ("policy", "paths"),
    [("IfNeeded", ["/first", "/second", "/first"]), ("Never", ["/first", "/second"])],
)
async def test_reinvocation(hooked, server, policy, paths):
    server.answers["/second"] = label("b")
    await configure(
        hooked,
        "Mutating",
        hook(server, "/first", "a.example.com", reinvocationPolicy=policy),
        hook(server, "/second", "b.example.com", reinvocationPolicy=policy),
    )
    await hooked.create(config_map())
    assert server.paths() == paths


async def test_built_in_plugins_run_again_after_a_change(world, server):
    class Stamp(Plugin):
        calls = 0

        async def mutate(self, request):
            self.calls += 1
            data = request.object.setdefault("data", {})
            data["labels"] = ",".join(sorted(request.object["metadata"].get("labels") or {}))
            return True

    stamp = Stamp()
    client = WebhookClient(ServiceResolver(world.store))
    webhooks = MutatingWebhooks(
        world.store,
        world.catalog,
        kinds=world,
        authorizer=world.authorizer,
        client=client,
        built_in=[stamp],
    )
    world.plugins = [stamp, webhooks]
    server.answers["/m"] = label("hook")
    again = hook(server, "/m", reinvocationPolicy="IfNeeded")
    await configure(world, "Mutating", again)
    made = await world.create(config_map())
    await client.close()
    assert stamp.calls == 2
    assert made["data"] == {"labels": "hook"}
    assert server.paths() == ["/m", "/m"], "the plugin changed the object after the webhook"


async def test_missing_namespace(hooked, server):
    selector = {"matchLabels": {"a": "b"}}
    await configure(hooked, "Validating", hook(server, "/v", namespaceSelector=selector))
    hooked.namespace = "gone"
    with pytest.raises(NotFound, match='namespaces "gone" not found'):
        await hooked.plugins[1].validate(hooked.request("CREATE", config_map()))


async def test_checks_are_made_as_the_user(hooked, server):
    hooked.user = UserInfo("ann", groups=("system:authenticated",))
    allowed = "authorizer.group('').resource('pods').check('get').allowed()"
    conditions = [{"name": "c", "expression": allowed}]
    await configure(hooked, "Validating", hook(server, "/v", matchConditions=conditions))
    await hooked.create(config_map())
    assert server.reviews == []
