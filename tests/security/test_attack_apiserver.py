"""Single requests that are made to cost more than they should, or to reach what they should not."""

from __future__ import annotations

import asyncio
import gzip
import http.server
import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from aiohttp import web

from corral.cluster.apiserver.http.connections import Connection, Connections, HttpServer, bind
from corral.kube import errors
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually

Obj = dict[str, Any]
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def alive(backend: Backend) -> bool:
    return backend.request("GET", "/readyz").code == 200


def warnings_of(headers: dict[str, str]) -> str:
    return {key.lower(): value for key, value in headers.items()}.get("warning", "")


# -- bodies ----------------------------------------------------------------------------------------


@pytest.mark.attack(
    "apiserver", "A body larger than any object may be", "413 before it is read, or as it comes"
)
@pytest.mark.parametrize("chunked", [False, True])
def test_bodies_have_a_limit(backend: Backend, objects: Objects, chunked: bool) -> None:
    path = objects.path("v1", "configmaps")
    body = b'{"metadata":{"name":"x"},"data":{"a":"' + b"a" * (4 << 20) + b'"}}'
    headers = {"Transfer-Encoding": "chunked"} if chunked else {}
    sent = _in_chunks(body) if chunked else body
    reply = backend.request("POST", path, sent, headers=headers)
    assert reply.code == 413
    assert alive(backend)


def _in_chunks(body: bytes) -> bytes:
    size = 1 << 16
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in pieces) + b"0\r\n\r\n"


@pytest.mark.attack(
    "apiserver",
    "A small compressed body that becomes a large one",
    "Bodies are read as they are sent: this is no JSON",
)
def test_compressed_bodies_are_not_inflated(backend: Backend, objects: Objects) -> None:
    body = gzip.compress(b'{"a":"' + b"a" * (64 << 20) + b'"}')
    path = objects.path("v1", "configmaps")
    reply = backend.request("POST", path, body, headers={"Content-Encoding": "gzip"})
    assert reply.code == 400


@pytest.mark.attack(
    "apiserver", "JSON nested a hundred thousand deep", "400, in every kind of body"
)
@pytest.mark.parametrize(
    "form",
    [
        "application/json",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
    ],
)
@pytest.mark.parametrize("brackets", ["[]", "{}"])
def test_deep_nesting_is_refused(
    backend: Backend, objects: Objects, form: str, brackets: str
) -> None:
    path, method = objects.path("v1", "configmaps"), "POST"
    if form != "application/json":
        made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
        objects.create("configmaps", made)
        path, method = f"{path}/x?fieldManager=x", "PATCH"
    opening = b"[" if brackets == "[]" else b'{"a":'
    closing = brackets[1].encode()
    body = opening * 100_000 + b"1" + closing * 100_000
    reply = backend.request(method, path, body, content_type=form)
    assert reply.code in (400, 422)
    assert alive(backend)


@pytest.mark.attack(
    "apiserver", "YAML whose aliases become billions of values", "400: excessive aliasing"
)
def test_yaml_aliases_are_bounded(backend: Backend, objects: Objects) -> None:
    lines = ['a0: &a0 ["x","x","x","x","x","x","x","x","x","x"]']
    for level in range(1, 10):
        inner = ",".join([f"*a{level - 1}"] * 10)
        lines.append(f"a{level}: &a{level} [{inner}]")
    body = ("apiVersion: v1\nkind: ConfigMap\n" + "\n".join(lines)).encode()
    path = objects.path("v1", "configmaps")
    reply = backend.request("POST", path, body, content_type="application/yaml")
    assert reply.code == 400
    assert "excessive aliasing" in reply.json()["message"]


@pytest.mark.attack(
    "apiserver",
    "Twenty thousand unknown and repeated fields",
    "Accepted with warnings that are cut to a few kilobytes",
)
@pytest.mark.parametrize("what", ["unknown", "repeated"])
def test_warnings_are_bounded(backend: Backend, objects: Objects, what: str) -> None:
    if what == "unknown":
        more = ",".join(f'"unknown{number}":1' for number in range(20_000))
    else:
        more = '"data":{' + ",".join(f'"k{n}":"a","k{n}":"b"' for n in range(5_000)) + "}"
    body = b'{"metadata":{"name":"x"},' + more.encode() + b"}"
    reply = backend.request("POST", objects.path("v1", "configmaps"), body)
    assert reply.code == 201, reply.body[:200]
    assert warnings_of(reply.headers)
    assert sum(len(k) + len(v) for k, v in reply.headers.items()) < 16_000


@pytest.mark.attack(
    "apiserver", "Protobuf that says it is gigabytes long", "400, without reserving memory"
)
@pytest.mark.parametrize(
    "body",
    [
        b"k8s\x00\x12\xff\xff\xff\xff\x7f",
        b"k8s\x00\x0a\xff\xff\xff\xff\x07abc",
        b"k8s\x00" + b"\x12\x05" * 50_000,
        b"k8s\x00" + b"\xff" * 1000,
    ],
    ids=["long-object", "long-type", "many", "endless-number"],
)
def test_protobuf_lengths_are_checked(backend: Backend, objects: Objects, body: bytes) -> None:
    form = "application/vnd.kubernetes.protobuf"
    reply = backend.request("POST", objects.path("v1", "configmaps"), body, content_type=form)
    assert reply.code in (400, 422)


# -- patches ---------------------------------------------------------------------------------------


@pytest.mark.attack("apiserver", "A JSON patch of more operations than allowed", "413, as upstream")
def test_json_patches_have_a_limit(backend: Backend, objects: Objects) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    objects.create("configmaps", made)
    body = [{"op": "test", "path": "/metadata/name", "value": "x"}] * 10_001
    path = objects.path("v1", "configmaps", "x")
    reply = backend.request("PATCH", path, body, content_type="application/json-patch+json")
    assert reply.code == 413


@pytest.mark.attack(
    "apiserver", "A JSON patch that doubles an object again and again", "422 after 3 MiB of copies"
)
def test_copies_are_bounded(backend: Backend, objects: Objects) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}
    objects.create("configmaps", made)
    body = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(40)]
    path = objects.path("v1", "configmaps", "x")
    reply = backend.request("PATCH", path, body, content_type="application/json-patch+json")
    assert reply.code == 422
    assert alive(backend)


@pytest.mark.attack(
    "apiserver",
    "A strategic patch that deletes thousands of items one by one, and orders the rest",
    "Done in one pass",
)
def test_strategic_deletes_are_one_pass(backend: Backend, objects: Objects) -> None:
    count = 4_000
    env = [{"name": f"E{number}", "value": "x"} for number in range(count)]
    container = {"name": "a", "image": "x", "env": env}
    pod = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "x"}}
    objects.create("podtemplates", {**pod, "template": {"spec": {"containers": [container]}}})
    gone = [{"name": f"E{number}", "$patch": "delete"} for number in range(0, count, 2)]
    order = [{"name": f"E{number}"} for number in range(count - 1, 0, -2)]
    change = {"name": "a", "env": gone, "$setElementOrder/env": order}
    patch = {"template": {"spec": {"containers": [change]}}}
    reply = backend.request(
        "PATCH",
        objects.path("v1", "podtemplates", "x"),
        patch,
        content_type="application/strategic-merge-patch+json",
    )
    assert reply.code == 200, reply.body[:300]
    left = reply.json()["template"]["spec"]["containers"][0]["env"]
    assert [one["name"] for one in left] == [one["name"] for one in order]


@pytest.mark.attack(
    "apiserver",
    "An object grown patch by patch beyond what can be stored",
    "The patch that is too much is refused; the object stays",
)
def test_objects_have_a_limit(backend: Backend, group: str) -> None:
    path = f"/apis/{group}/v1/namespaces/default/widgets"
    made = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "grown"}}
    assert backend.request("POST", path, made).code == 201
    codes = []
    for number in range(5):
        notes = {f"example.test/{number}": "x" * 200_000}
        patch = {"metadata": {"annotations": notes}}
        reply = backend.request(
            "PATCH", f"{path}/grown", patch, content_type="application/merge-patch+json"
        )
        codes.append(reply.code)
    assert codes[0] == 200
    assert codes[-1] in (422, 500)
    assert backend.request("GET", f"{path}/grown").code == 200


# -- queries ---------------------------------------------------------------------------------------


@pytest.mark.attack(
    "apiserver", "Selectors of thousands of terms, and hostile ones", "Answered or refused, not 500"
)
@pytest.mark.parametrize(
    "query",
    [
        "labelSelector=" + ",".join(f"a{n}%21%3Db" for n in range(5_000)),
        "labelSelector=" + "a%20in%20%28" + ",".join(f"v{n}" for n in range(8_000)) + "%29",
        "fieldSelector=" + ",".join(["metadata.name%21%3Dx"] * 5_000),
        "labelSelector=" + "%28" * 20_000,
        "fieldSelector=" + "%5C" * 20_000,
        "limit=-5",
        "limit=99999999999999999999",
        "limit=1&continue=" + "A" * 50_000,
        "limit=1&continue=" + "%ff" * 100,
        "timeoutSeconds=-1&watch=0",
        "resourceVersion=-1",
        "resourceVersion=%C2%B2",
        "resourceVersion=" + "9" * 5_000,
    ],
    ids=lambda query: query[:24],
)
def test_odd_queries(backend: Backend, objects: Objects, query: str) -> None:
    reply = backend.request("GET", f"{objects.path('v1', 'configmaps')}?{query}")
    assert reply.code in (200, 400, 410, 414, 422), reply.body[:300]
    assert alive(backend)


@pytest.mark.attack(
    "apiserver", "Labels of megabytes and a thousand owners", "422, or stored within the limits"
)
@pytest.mark.parametrize(
    "meta",
    [
        {"labels": {"a": "x" * 1_000_000}},
        {"labels": {f"l{n}": "v" for n in range(10_000)}},
        {"annotations": {"a": "x" * 300_000}},
        {"finalizers": [f"example.test/f{n}" for n in range(5_000)]},
    ],
    ids=["long-label", "many-labels", "long-annotation", "many-finalizers"],
)
def test_large_metadata(backend: Backend, objects: Objects, meta: Obj) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", **meta}}
    reply = backend.request("POST", objects.path("v1", "configmaps"), body)
    assert reply.code in (201, 422)
    if "finalizers" in meta and reply.code == 201:
        objects.patch("v1", "configmaps", "x", {"metadata": {"finalizers": None}})
    assert alive(backend)


# -- definitions -----------------------------------------------------------------------------------


def definition(group: str, schema: Obj) -> Obj:
    names = {"plural": "traps", "singular": "trap", "kind": "Trap", "listKind": "TrapList"}
    top = {"type": "object", "properties": {"spec": schema}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": top}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"traps.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


@contextmanager
def defined(backend: Backend, group: str, schema: Obj) -> Iterator[str]:
    reply = backend.request("POST", CRDS, definition(group, schema))
    assert reply.code == 201, reply.body
    path = f"/apis/{group}/v1/namespaces/default/traps"
    eventually(lambda: backend.request("GET", path).code == 200)
    try:
        yield path
    finally:
        backend.request("DELETE", f"{CRDS}/traps.{group}")


def trap(group: str, spec: Any) -> Obj:
    return {
        "apiVersion": f"{group}/v1",
        "kind": "Trap",
        "metadata": {"generateName": "t-"},
        "spec": spec,
    }


@pytest.mark.attack(
    "apiserver",
    "A pattern that takes an ordinary matcher years, and a value for it",
    "Matched in linear time: the value is refused",
)
@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "^(.*a){25}$", "(x+x+)+y"])
def test_patterns_are_linear(backend: Backend, unique: str, pattern: str) -> None:
    group = f"p{unique}.example.test"
    with defined(backend, group, {"type": "string", "pattern": pattern}) as path:
        for text in ("a" * 25 + "!", "a" * 40_000 + "!", "x" * 40_000):
            reply = backend.request("POST", path, trap(group, text))
            assert reply.code == 422
            assert "should match" in reply.json()["message"]


@pytest.mark.attack(
    "apiserver",
    "Patterns that no linear matcher has: look-around, back-references, endless repeats",
    "The definition is refused with upstream's reason",
)
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("a(?=b)", "invalid or unsupported Perl syntax: `(?="),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a**", "invalid nested repetition operator: `**`"),
    ],
)
def test_patterns_are_those_of_re2(backend: Backend, unique: str, pattern: str, why: str) -> None:
    schema = {"type": "string", "pattern": pattern}
    reply = backend.request("POST", CRDS, definition(f"q{unique}.example.test", schema))
    assert reply.code == 422
    assert why in reply.json()["message"]


def listed(most: int | None, rule: str) -> Obj:
    """The schema of a list of numbers with a rule."""
    limit = {} if most is None else {"maxItems": most}
    rules = {"x-kubernetes-validations": [{"rule": rule}]}
    return {"type": "array", "items": {"type": "integer"}, **limit, **rules}


PAIRS = "self.all(a, self.all(b, a + b >= 0))"
TRIPLES = "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))"


@pytest.mark.attack(
    "apiserver",
    "A definition whose rules loop over lists of any length, or in threes",
    "Refused for its estimated cost, with upstream's advice",
)
@pytest.mark.parametrize(
    ("most", "rule", "factor"),
    [(None, PAIRS, "more than 100x"), (5_000, PAIRS, "x"), (200, TRIPLES, "x")],
    ids=["unbounded", "long", "triples"],
)
def test_costly_rules_are_refused(
    backend: Backend, unique: str, most: int | None, rule: str, factor: str
) -> None:
    body = definition(f"c{unique}.example.test", listed(most, rule))
    reply = backend.request("POST", CRDS, body)
    assert reply.code == 422, reply.body
    message = reply.json()["message"]
    assert "estimated rule cost exceeds budget by factor of" in message
    assert f"{factor} (try simplifying the rule, or adding maxItems" in message


@pytest.mark.attack(
    "apiserver",
    "An object that makes a rule loop for long",
    "Evaluation stops at the cost limit, and the object is refused",
)
def test_rules_have_a_budget(backend: Backend, unique: str) -> None:
    group = f"r{unique}.example.test"
    with defined(backend, group, listed(1_000, PAIRS)) as path:
        assert backend.request("POST", path, trap(group, [1, 2, 3])).code == 201
        reply = backend.request("POST", path, trap(group, list(range(1_000))))
        assert reply.code == 422
        assert "cost limit exceeded" in reply.json()["message"]
        assert alive(backend)


@pytest.mark.attack(
    "apiserver", "A schema nested hundreds of levels deep", "Refused or served, and nothing breaks"
)
def test_deep_schemas(backend: Backend, unique: str) -> None:
    schema: Obj = {"type": "string"}
    for _ in range(150):
        schema = {"type": "object", "properties": {"a": schema}}
    group = f"d{unique}.example.test"
    reply = backend.request("POST", CRDS, definition(group, schema))
    assert reply.code in (201, 400, 422)
    backend.request("DELETE", f"{CRDS}/traps.{group}")
    assert backend.request("GET", "/openapi/v2").code == 200


# -- proxies ---------------------------------------------------------------------------------------


@contextmanager
def listening() -> Iterator[tuple[int, list[str]]]:
    """A program on the machine's loopback, and what it was asked."""
    asked: list[str] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def host_pod(objects: Objects, name: str, address: str) -> None:
    """A pod on the host's network, as a node reports it."""
    spec = {
        "hostNetwork": True,
        "nodeName": "nowhere",
        "containers": [{"name": "a", "image": "x"}],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    objects.create("pods", pod)
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    objects.patch("v1", "pods", name, {"status": status}, subresource="status")


@pytest.mark.attack(
    "apiserver",
    "The pod proxy is pointed at the machine's loopback by a pod on the host's network",
    "400: address not allowed; nothing arrives",
)
@pytest.mark.parametrize("address", ["127.0.0.1", "127.88.0.9", "169.254.169.254", "::1"])
def test_pod_proxy_stays_off_the_loopback(backend: Backend, objects: Objects, address: str) -> None:
    host_pod(objects, "host", address)
    with listening() as (port, asked):
        path = objects.path("v1", "pods", f"host:{port}") + "/proxy/secret"
        reply = backend.request("GET", path)
    assert reply.code == 400
    assert reply.json()["message"] == "address not allowed"
    assert asked == []


@pytest.mark.attack(
    "apiserver",
    "The service proxy is pointed at the machine's loopback by endpoints of one's own",
    "Refused; nothing arrives",
)
def test_service_proxy_stays_off_the_loopback(backend: Backend, objects: Objects) -> None:
    host_pod(objects, "host", "127.0.0.1")
    with listening() as (port, asked):
        service = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "s"},
            "spec": {"ports": [{"port": 80, "name": "web"}]},
        }
        objects.create("services", service)
        target = {"kind": "Pod", "name": "host", "namespace": objects.namespace}
        labels = {"kubernetes.io/service-name": "s"}
        slice_ = {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": "s", "labels": labels},
            "addressType": "IPv4",
            "ports": [{"port": port, "name": "web"}],
            "endpoints": [{"addresses": ["127.0.0.1"], "targetRef": target}],
        }
        path = objects.path("discovery.k8s.io/v1", "endpointslices")
        made = backend.request("POST", path, slice_)
        assert made.code in (201, 422)
        reply = backend.request("GET", objects.path("v1", "services", "s:web") + "/proxy/secret")
    assert reply.code in (400, 503)
    assert asked == []


@pytest.mark.attack(
    "apiserver",
    "The node proxy is pointed at another port of the machine's loopback",
    "400: only the kubelet's own port is reached there",
)
def test_node_proxy_reaches_the_kubelet_only(backend: Backend, unique: str) -> None:
    cluster, name = Objects(backend), f"n{unique}"
    cluster.create("nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    status = {"addresses": [{"type": "InternalIP", "address": "127.0.0.1"}]}
    cluster.patch("v1", "nodes", name, {"status": status}, subresource="status")
    with listening() as (port, asked):
        reply = backend.request("GET", f"/api/v1/nodes/{name}:{port}/proxy/secret")
    cluster.delete("v1", "nodes", name)
    assert reply.code == 400
    assert asked == []


# -- connections -----------------------------------------------------------------------------------


class Door:
    """A server of our own with small limits: who it is comes from a header."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.port = 0
        self._opened: list[asyncio.StreamWriter] = []

    async def handle(self, request: web.BaseRequest) -> web.Response:
        user, protocol = request.headers.get("X-User", ""), request.protocol
        assert isinstance(protocol, Connection)
        try:
            if user and not protocol.user:
                self.connections.identified(protocol, user)
        except errors.TooManyRequests as err:
            return web.Response(status=err.status_code)
        return web.Response(text="ok")

    async def __aenter__(self) -> Door:
        self._server = server = HttpServer(self.connections, self.handle, access_log=None)
        for sock in bind("127.0.0.1", 0):
            self.port = sock.getsockname()[1]
            self.connections.listen(sock, server, None)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.connections.close()
        await self._server.shutdown(1)
        for writer in self._opened:
            writer.close()
            await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    async def open(self, source: str = "") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        local = (source, 0) if source else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, local_addr=local)
        self._opened.append(writer)
        return reader, writer

    async def ask(
        self, user: str, source: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        reader, writer = await self.open(source)
        writer.write(f"GET / HTTP/1.1\r\nHost: x\r\nX-User: {user}\r\n\r\n".encode())
        return reader, writer, await reader.readline()


@pytest.mark.attack(
    "apiserver", "Headers that never end", "The connection is closed when their time is over"
)
@pytest.mark.parametrize("drip", [b"", b"a"], ids=["silent", "dripping"])
async def test_headers_have_their_time(drip: bytes) -> None:
    async with Door(Connections(header_seconds=0.3)) as door:
        reader, writer = await door.open()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nLong: a")
        while not reader.at_eof():
            writer.write(drip)
            try:
                async with asyncio.timeout(0.05):
                    assert await reader.read() == b""
            except TimeoutError:
                continue
            except ConnectionResetError:
                break


@pytest.mark.attack(
    "apiserver",
    "One user opens connections without end",
    "Those over the user's limit are refused; another user's are not",
)
async def test_users_have_a_limit_of_connections() -> None:
    async with Door(Connections(per_user=3)) as door:
        made = [await door.ask("alice") for _ in range(3)]
        assert {line.split()[1] for _, _, line in made} == {b"200"}
        refused = await door.ask("alice")
        assert refused[2].split()[1] == b"429"
        other = await door.ask("bob")
        assert other[2].split()[1] == b"200"
        made[0][1].close()
        async with asyncio.timeout(10):
            while (await door.ask("alice"))[2].split()[1] != b"200":  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.attack(
    "apiserver",
    "Connections that nobody stands behind fill the server",
    "The oldest of them are closed; those of known users stay",
)
async def test_unknown_connections_make_room() -> None:
    async with Door(Connections(most_new=5)) as door:
        known, writer, line = await door.ask("alice")
        assert line.split()[1] == b"200"
        idle = [await door.ask("") for _ in range(12)]
        await asyncio.wait_for(idle[0][0].read(), 10)
        assert idle[0][0].at_eof()
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        rest = b""
        async with asyncio.timeout(10):
            while b"HTTP/1.1 200" not in rest:
                rest += await known.read(1000)
        assert len(door.connections) <= 6


@pytest.mark.attack(
    "apiserver",
    "One address opens connections without end that nobody stands behind",
    "They make room for each other; those of another address stay",
)
async def test_addresses_make_room_for_themselves() -> None:
    async with Door(Connections(most_new=6, new_per_address=4)) as door:
        waiting, writer = await door.open("127.0.0.3")
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n")
        first = await door.open("127.0.0.2")
        for _ in range(12):
            assert (await door.ask("", "127.0.0.2"))[2].split()[1] == b"200"
        assert await asyncio.wait_for(first[0].read(), 10) == b""
        writer.write(b"X-User: bob\r\n\r\n")
        assert (await asyncio.wait_for(waiting.readline(), 10)).split()[1] == b"200"
        assert len(door.connections) <= 5


@pytest.mark.attack(
    "apiserver",
    "One address opens connections without end, as many users",
    "Those over the address's limit are refused; another address's are not",
)
async def test_addresses_have_a_limit_of_connections() -> None:
    async with Door(Connections(per_address=3)) as door:
        codes = [(await door.ask(f"u{n}", "127.0.0.2"))[2].split()[1] for n in range(5)]
        assert codes == [b"200"] * 3 + [b"429"] * 2
        assert (await door.ask("other", "127.0.0.3"))[2].split()[1] == b"200"


@pytest.mark.attack(
    "apiserver",
    "A few users, each within its limit, take all connections that the server has together",
    "When all are taken each has its share: who has less still connects, who has more does not",
)
async def test_a_full_server_has_shares() -> None:
    async with Door(Connections(most=8, most_new=2)) as door:
        assert {(await door.ask("alice"))[2].split()[1] for _ in range(6)} == {b"200"}
        bob = [(await door.ask("bob"))[2].split()[1] for _ in range(4)]
        assert bob == [b"200"] * 3 + [b"429"]
        assert (await door.ask("alice"))[2].split()[1] == b"429"


@pytest.mark.attack(
    "apiserver",
    "So many connections that the process has no descriptor for another",
    "It waits a moment before it looks again, and says so a few times, not thousands; then serves",
)
async def test_no_descriptor_left(caplog: pytest.LogCaptureFixture) -> None:
    async with Door(Connections()) as door:
        with socket.create_connection(("127.0.0.1", door.port)) as waiting, no_descriptors():
            for _ in range(300):
                await asyncio.sleep(0)
            said = [r for r in caplog.records if "no connection can be accepted" in r.message]
            assert 0 < len(said) < 100
            assert waiting.fileno() >= 0
        async with asyncio.timeout(10):
            assert (await door.ask("alice"))[2].split()[1] == b"200"


@contextmanager
def no_descriptors() -> Iterator[None]:
    """The process may open nothing more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.open(os.devnull, os.O_RDONLY)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.attack(
    "apiserver", "A header line of megabytes", "The connection gets an error, and others are served"
)
def test_header_lines_have_a_limit(backend: Backend) -> None:
    try:
        reply = backend.request("GET", "/version", headers={"X-Long": "a" * (2 << 20)})
        assert reply.code in (400, 431)
    except OSError:
        pass  # closed while it was sent: refused as well
    backend.disconnect()
    assert json.loads(backend.request("GET", "/version").body)["major"] == "1"
