"""One tenant loads the API server as it can; another is served meanwhile."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from overload_tenants import (
    APPLY,
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    Tenant,
    served_meanwhile,
    tenants,
    until,
)

from corral.cluster.apiserver.auth.users import MASTERS, UserInfo
from corral.cluster.apiserver.crud.selecting import field_test, label_test
from corral.cluster.apiserver.fairness.matching import FlowSchema
from corral.cluster.apiserver.http import connections
from corral.cluster.apiserver.nodes.passing import Passing
from corral.cluster.apiserver.requests import parse
from corral.cluster.apiserver.server import ApiServer, Config
from corral.kube.selectors import parse_fields, parse_labels
from tests.backends import Backend

Pair = tuple[Tenant, Tenant]
KEYS = 6_000
LARGE = 12
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"
UID = "X-Kubernetes-PF-FlowSchema-UID"


@pytest.fixture
async def pair(backend: Backend, unique: str) -> AsyncIterator[Pair]:
    async with tenants(backend, unique) as made:
        yield made


def data(count: int, value: str = "a") -> dict[str, str]:
    return {f"k{number:05d}": value for number in range(count)}


def large(name: str, **more: Any) -> dict[str, Any]:
    head = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return {**head, "data": data(KEYS), **more}


def writes(tenant: Tenant, kind: str) -> list[Any]:
    """The large requests of an attack."""
    out = []
    for number in range(LARGE):
        name = f"large-{number}"
        path = tenant.path("configmaps", name)
        body: Any
        match kind:
            case "apply":
                work = tenant.code("PATCH", f"{path}?fieldManager=x", large(name), form=APPLY)
            case "create":
                work = tenant.code("POST", tenant.path("configmaps"), large(name))
            case "update":
                work = tenant.code("PUT", path, large(name))
            case "json":
                body = [
                    {"op": "replace", "path": f"/data/{key}", "value": "b"} for key in data(KEYS)
                ]
                work = tenant.code("PATCH", path, body, form=JSON_PATCH)
            case _:
                form = STRATEGIC if kind == "strategic" else MERGE
                work = tenant.code("PATCH", path, {"data": data(KEYS, "b")}, form=form)
        out.append(work)
    return out


@pytest.mark.attack(
    "overload",
    "Many writes of large objects at once, of every kind",
    "They are computed elsewhere, in turns; another tenant's reads are answered before them",
)
@pytest.mark.parametrize("kind", ["apply", "create", "strategic", "merge", "json", "update"])
@pytest.mark.route("API, shares of it")
async def test_large_writes_hold_up_nobody(pair: Pair, kind: str) -> None:
    loud, quiet = pair
    if kind not in ("apply", "create"):
        made = await asyncio.gather(*writes(loud, "create"))
        assert set(made) == {201}
    over, codes = await served_meanwhile(writes(loud, kind), quiet)
    assert over < LARGE
    assert set(codes) <= {200, 201}
    stored = (await loud.send("GET", loud.path("configmaps", "large-3")))[2]
    assert len(stored["data"]) == KEYS
    assert stored["metadata"]["managedFields"]


@pytest.mark.attack(
    "overload",
    "More large writes at once than anybody needs",
    "The tenant's excess is refused with 429 and Retry-After; another's large write is done",
)
@pytest.mark.route("API, shares of it")
async def test_too_many_large_writes_are_refused_to_their_tenant(pair: Pair) -> None:
    loud, quiet = pair
    path = loud.path("configmaps")
    sent = [loud.send("POST", path, large(f"x-{number}")) for number in range(84)]
    tasks = [asyncio.ensure_future(one) for one in sent]
    await asyncio.sleep(0.05)
    assert await quiet.code("POST", quiet.path("configmaps"), large("mine")) == 201
    answers = await asyncio.gather(*tasks)
    refused = [headers for code, headers, _ in answers if code == 429]
    assert refused
    assert all(headers["Retry-After"] == "1" for headers in refused)
    assert {code for code, _, _ in answers} == {201, 429}


@pytest.mark.attack(
    "overload",
    "Requests by the hundred at once",
    "The flows of a priority level take turns: another tenant's come in between",
)
@pytest.mark.route("API, shares of it")
@pytest.mark.parametrize("plural", ["configmaps", "events"])
async def test_flows_take_turns(pair: Pair, plural: str) -> None:
    loud, quiet = pair
    body: dict[str, Any] = {"metadata": {"generateName": "flood-"}}
    if plural == "events":
        about = {"kind": "Pod", "namespace": loud.namespace, "name": "none"}
        body |= {"involvedObject": about, "message": "x" * 500, "type": "Normal"}
    flood = [loud.code("POST", loud.path(plural), body) for _ in range(250)]
    over, codes = await served_meanwhile(flood, quiet, reads=5)
    assert over < len(flood)
    assert set(codes) == {201}


@pytest.mark.attack(
    "overload",
    "Requests without end that are refused: without the right to them, or with a false token",
    "They have the turn of their flow before they are refused, and none beyond its queue",
)
@pytest.mark.route("API, shares of it")
@pytest.mark.parametrize("token", ["", "Bearer false"], ids=["forbidden", "unauthorized"])
async def test_who_is_refused_has_a_turn(
    backend: Backend, pair: Pair, unique: str, token: str
) -> None:
    if token and backend.name != "embedded":
        pytest.skip("kube-apiserver refuses these before it looks for a flow")
    loud, quiet = pair
    path, headers = quiet.path("secrets", "none"), {"Authorization": token} if token else {}
    refused = 401 if token else 403
    assert await loud.code("GET", path, headers=headers) == refused
    holding = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0}
    with own_level(backend, unique, "system:anonymous" if token else loud.user, holding):
        flood = [asyncio.ensure_future(loud.send("GET", path, headers=headers)) for _ in range(3)]
        done, waiting = await asyncio.wait(flood, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        assert {task.result()[0] for task in done} == {429}
        assert await quiet.code("GET", quiet.path("configmaps", "small")) == 200
    await asyncio.gather(*waiting, return_exceptions=True)


@pytest.mark.attack(
    "overload",
    "Requests without end of those that last and hold no seat: logs, proxies, commands in pods",
    "Each begins when its flow has its turn; others come in between",
)
@pytest.mark.route("API, shares of it")
@pytest.mark.parametrize("what", ["log", "exec", "proxy/x"])
async def test_what_lasts_begins_in_turn(
    backend: Backend, pair: Pair, unique: str, what: str
) -> None:
    if backend.name != "embedded":
        pytest.skip("kube-apiserver has such requests past all levels")
    loud, quiet = pair
    holding = {"nominalConcurrencyShares": 0, "borrowingLimitPercent": 0}
    with own_level(backend, unique, loud.user, holding):
        begun = asyncio.ensure_future(loud.code("GET", loud.path("pods", f"none/{what}")))
        for _ in range(10):
            assert await quiet.code("GET", quiet.path("pods", f"none/{what}")) in (400, 404)
        assert not begun.done()
        begun.cancel()
    await asyncio.gather(begun, return_exceptions=True)


@contextmanager
def own_level(backend: Backend, unique: str, user: str, more: dict[str, Any]) -> Iterator[str]:
    """A priority level of one user, in which one request waits; the uid of its schema."""
    name = f"narrow-{unique}"
    queuing = {"queues": 1, "handSize": 1, "queueLengthLimit": 1}
    limited = {"limitResponse": {"type": "Queue", "queuing": queuing}, **more}
    level = {"metadata": {"name": name}, "spec": {"type": "Limited", "limited": limited}}
    subject = {"kind": "User", "user": {"name": user}}
    every = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"]}
    schema = {
        "metadata": {"name": name},
        "spec": {
            "priorityLevelConfiguration": {"name": name},
            "matchingPrecedence": 500,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{"subjects": [subject], "resourceRules": [every]}],
        },
    }
    assert backend.request("POST", f"{FLOW}/prioritylevelconfigurations", level).code == 201
    made = backend.request("POST", f"{FLOW}/flowschemas", schema)
    assert made.code == 201, made.body
    try:
        yield made.json()["metadata"]["uid"]
    finally:
        backend.request("DELETE", f"{FLOW}/flowschemas/{name}")
        backend.request("DELETE", f"{FLOW}/prioritylevelconfigurations/{name}")


@pytest.mark.attack(
    "overload",
    "A flood beyond what a flow may have waiting",
    "429 with Retry-After for the flooding flow, and for it only",
)
async def test_only_the_flooding_flow_is_refused(backend: Backend, pair: Pair, unique: str) -> None:
    loud, quiet = pair
    with own_level(backend, unique, loud.user, {"nominalConcurrencyShares": 1}) as uid:
        path = loud.path("configmaps")
        flood = [loud.send("GET", path) for _ in range(60)]
        peace = [quiet.code("GET", quiet.path("configmaps", "small")) for _ in range(60)]
        answers, codes = await asyncio.gather(asyncio.gather(*flood), asyncio.gather(*peace))
    assert {code for code, _, _ in answers} == {200, 429}
    assert {headers[UID] for _, headers, _ in answers} == {uid}
    assert all(headers["Retry-After"] for code, headers, _ in answers if code == 429)
    assert set(codes) == {200}


@pytest.mark.attack(
    "overload",
    "A tenant tries to be counted as somebody else",
    "Every answer names the flow schema and the priority level of its user",
)
async def test_answers_name_their_flow_schema(backend: Backend, pair: Pair) -> None:
    _, quiet = pair
    uids = {
        name: backend.request("GET", f"{FLOW}/flowschemas/{name}").json()["metadata"]["uid"]
        for name in ("exempt", "service-accounts")
    }
    _, headers, _ = await quiet.send("GET", quiet.path("configmaps", "small"))
    assert headers[UID] == uids["service-accounts"]
    _, headers, _ = await quiet.send("GET", quiet.path("configmaps", "none"))
    assert headers[UID] == uids["service-accounts"]
    admin = backend.request("GET", "/api/v1/namespaces")
    assert {k.lower(): v for k, v in admin.headers.items()}[UID.lower()] == uids["exempt"]


@pytest.mark.attack(
    "overload",
    "The flow schema that lets everybody in is changed or taken over",
    "The mandatory ones are fixed, and only administrators write them at all",
)
async def test_mandatory_flow_schemas_are_fixed(backend: Backend, pair: Pair) -> None:
    loud, _ = pair
    found = backend.request("GET", f"{FLOW}/flowschemas/exempt").json()
    found["spec"]["rules"][0]["subjects"] = [
        {"kind": "Group", "group": {"name": "system:authenticated"}}
    ]
    reply = backend.request("PUT", f"{FLOW}/flowschemas/exempt", found)
    assert reply.code == 422
    assert "must equal the fixed value" in reply.json()["message"]
    assert await loud.code("PUT", f"{FLOW}/flowschemas/exempt", found) == 403
    own = {"metadata": {"name": "own"}, "spec": {**found["spec"], "matchingPrecedence": 2}}
    assert await loud.code("POST", f"{FLOW}/flowschemas", own) == 403


@pytest.mark.attack(
    "overload",
    "A tenant makes many service accounts and floods with all of them",
    "All of a namespace are one flow, and one user where connections are counted",
)
@pytest.mark.route("API, shares of it")
def test_many_accounts_are_one_flow() -> None:
    spec = {
        "priorityLevelConfiguration": {"name": "any"},
        "matchingPrecedence": 500,
        "distinguisherMethod": {"type": "ByUser"},
    }
    schema = FlowSchema({"metadata": {"name": "any"}, "spec": spec})
    info = parse("GET", "/api/v1/namespaces/team/configmaps", watch=False)
    accounts = [UserInfo(f"system:serviceaccount:team:a{number}") for number in range(50)]
    assert len({schema.flow(one, info) for one in accounts}) == 1
    others = [UserInfo("system:serviceaccount:team-b:a"), UserInfo("team"), UserInfo("anna")]
    assert len({schema.flow(one, info) for one in (*others, accounts[0])}) == 4


@pytest.mark.attack(
    "overload",
    "Watches over more connections than a user may have, each with an account of its own",
    "The accounts of a namespace have one limit together: 429 for the next, others connect",
)
async def test_connections_of_many_accounts_count_together(
    tmp_path: Path,
) -> None:
    users = {
        f"t{number}": UserInfo(f"system:serviceaccount:team:a{number}", groups=(MASTERS,))
        for number in range(8)
    }
    server = ApiServer(Config(tmp_path, users={**users, "other": UserInfo("o", groups=(MASTERS,))}))
    server.connections = connections.Connections(per_user=5)
    await server.start()
    tls = ssl.create_default_context(cafile=str(server.pki.ca.cert_file))
    url = f"https://127.0.0.1:{server.port}/version"

    async def ask(token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        async with session.get(url, headers=headers, ssl=tls) as answer:
            held.append(answer.connection)
            return answer.status

    held: list[Any] = []
    try:
        async with AsyncExitStack() as stack:
            codes = []
            for token in (*users, "other"):
                session = await stack.enter_async_context(aiohttp.ClientSession())
                codes.append(await ask(token))
    finally:
        await server.stop()
    assert codes == [200] * 5 + [429] * 3 + [200]


# -- heavy reads -----------------------------------------------------------------------------------


@pytest.mark.attack(
    "overload",
    "Large objects and lists asked for as YAML or indented, again and again",
    "They are formed elsewhere; another tenant's reads are answered before them",
)
@pytest.mark.parametrize("what", ["object", "list"])
@pytest.mark.route("API, shares of it")
async def test_forming_answers_holds_up_nobody(backend: Backend, pair: Pair, what: str) -> None:
    loud, quiet = pair
    sent = large("formed", data=data(40_000))
    assert await loud.code("POST", loud.path("configmaps"), sent) == 201
    path = loud.path("configmaps", "formed" if what == "object" else "")
    headers = {"Accept": "application/yaml"}
    over, codes = await served_meanwhile(
        [loud.code("GET", path, headers=headers) for _ in range(4)], quiet
    )
    assert over == 0
    assert set(codes) == {200}
    reply = backend.request("GET", path, headers=headers)
    assert b"k39999: a" in reply.body
    pretty = backend.request("GET", f"{path}?pretty=1")
    assert pretty.body.startswith(b'{\n  "') and pretty.json()["kind"].startswith("ConfigMap")


@pytest.mark.attack(
    "overload",
    "A role whose few lists multiply to a billion combinations",
    "403 at once: more than can be compared with what its writer holds",
)
@pytest.mark.route("API, shares of it")
async def test_combinations_of_a_role_are_bounded(backend: Backend, pair: Pair) -> None:
    loud, quiet = pair
    many = [f"x{number}" for number in range(1_000)]
    rule = {"apiGroups": many, "resources": many, "verbs": many, "nonResourceURLs": ["/none"]}
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{loud.namespace}"
    held = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "create"]}
    body = {"metadata": {"name": "limited"}, "rules": [held]}
    assert backend.request("POST", f"{base}/roles", body).code == 201
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "limited"}
    body = {"metadata": {"name": "limited"}, "roleRef": role, "subjects": [subject]}
    assert backend.request("POST", f"{base}/rolebindings", body).code == 201
    limited = partial(backend.request, headers={"Impersonate-User": "limited"})
    body = {"metadata": {"name": "many"}, "rules": [rule]}
    async with asyncio.timeout(20):
        sent = asyncio.to_thread(limited, "POST", f"{base}/roles", body)
        reply, code = await asyncio.gather(
            sent, quiet.code("GET", quiet.path("configmaps", "small"))
        )
    assert (reply.code, code) == (403, 200)
    assert "more combinations of verbs, groups, resources and names" in reply.json()["message"]
    wide = {"apiGroups": many, "resources": many, "verbs": ["get", "create"]}
    body = {"metadata": {"name": "wide"}, "rules": [wide]}
    assert limited("POST", f"{base}/roles", body).code == 201  # one rule of its writer has it all


def yaml_list(size: int) -> bytes:
    return b"a: [" + b"[]," * (size // 3) + b"a]"


@pytest.mark.attack(
    "overload",
    "YAML that takes long to read, where small objects are expected: reviews, options, scales",
    "Long YAML is refused there with 413; other YAML is read beside the event loop",
)
@pytest.mark.parametrize("what", ["review", "delete", "create", "scale"])
@pytest.mark.route("API, shares of it")
async def test_yaml_holds_up_nobody(pair: Pair, what: str) -> None:
    loud, quiet = pair
    body = yaml_list(45_000 if what == "create" else 1_000_000)
    apps = f"/apis/apps/v1/namespaces/{loud.namespace}/deployments/none/scale"
    method, path = {
        "review": ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"),
        "delete": ("DELETE", loud.path("configmaps", "none")),
        "create": ("POST", loud.path("configmaps")),
        "scale": ("PUT", apps),
    }[what]
    form = "application/yaml"
    attack = [loud.code(method, path, body, form=form) for _ in range(2 if what != "create" else 8)]
    over, codes = await served_meanwhile(attack, quiet, reads=3)
    assert set(codes) == ({422} if what == "create" else {413})
    assert what != "create" or over < len(codes)


class Looked(dict[str, str]):
    """Labels that count how often they are looked at."""

    looks = 0

    def __contains__(self, key: object) -> bool:
        self.looks += 1
        return super().__contains__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.looks += 1
        return super().get(key, default)

    def __getitem__(self, key: str) -> str:
        self.looks += 1
        return super().__getitem__(key)


@pytest.mark.attack(
    "overload",
    "Lists and watches with selectors of thousands of terms",
    "A selector costs what an object has labels, not what it has terms itself",
)
@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (",".join(f"a{number}!=b" for number in range(5_000)), True),
        (",".join(f"app!=b{number}" for number in range(5_000)), True),
        (",".join(f"!a{number}" for number in range(5_000)), True),
        (",".join(f"a{number}" for number in range(5_000)), False),
        (f"app in ({','.join(f'v{number}' for number in range(5_000))})", False),
        (f"app notin ({','.join(f'v{number}' for number in range(5_000))}),tier", True),
        ("app in (x,web),app in (web,y),app!=z,tier=1,tier>0,tier<2,tier<9", True),
        ("tier>0,tier>1", False),
    ],
    ids=["absent", "other", "none", "needed", "in", "notin", "several", "greater"],
)
def test_selectors_are_linear(text: str, holds: bool) -> None:
    labels, selector = Looked(app="web", tier="1"), parse_labels(text)
    assert label_test(selector)(labels) is holds is selector.matches({**labels})
    assert labels.looks < 30
    test = field_test(parse_fields(",".join(f"app!=b{number}" for number in range(5_000))))
    labels.looks = 0
    assert test(labels) and labels.looks < 10


# -- what waits ------------------------------------------------------------------------------------


@pytest.mark.attack(
    "overload",
    "Lists that wait for a version of the future",
    "They hold no seat while they wait; others are answered before them",
)
async def test_waiting_for_the_future_holds_no_seat(pair: Pair) -> None:
    loud, quiet = pair
    path = loud.path("configmaps") + "?resourceVersion=99999999999&resourceVersionMatch=Exact"
    over, codes = await served_meanwhile([loud.code("GET", path) for _ in range(60)], quiet)
    assert over == 0
    assert set(codes) <= {504, 429}


@pytest.mark.attack(
    "overload",
    "Lists and watches whose answers are never read",
    "They hold no seat while nobody reads; others get lists and events",
)
@pytest.mark.parametrize("query", ["", "?watch=1"], ids=["list", "watch"])
@pytest.mark.route("API, shares of it")
async def test_slow_readers_hold_up_nobody(pair: Pair, query: str) -> None:
    loud, quiet = pair
    for number in range(12):
        await loud.code("POST", loud.path("configmaps"), large(f"large-{number}"))
    held = [loud.stream(loud.path("configmaps") + query) for _ in range(40)]
    opened = await asyncio.gather(*(one.__aenter__() for one in held))
    assert {answer.status for answer in opened} == {200}
    seen: list[str] = []

    async def watch() -> None:
        async with quiet.stream(quiet.path("configmaps") + "?watch=1") as answer:
            async for line in answer.content:
                event = orjson.loads(line)
                seen.append(event["object"]["metadata"]["name"])

    watching = asyncio.create_task(watch())
    assert await quiet.code("GET", quiet.path("configmaps")) == 200
    body = {"metadata": {"name": "noticed"}}
    assert await quiet.code("POST", quiet.path("configmaps"), body) == 201
    await until(lambda: "noticed" in seen)
    watching.cancel()
    for answer in opened:
        answer.close()


@pytest.mark.attack(
    "overload",
    "Watches by the hundred (10,000 in bench/fairness.py) of an object that changes all the time",
    "They hold no seat once they have started; others read and write",
)
@pytest.mark.route("API, shares of it")
async def test_watches_hold_up_nobody(pair: Pair) -> None:
    loud, quiet = pair
    path = loud.path("configmaps", "watched")
    assert (
        await loud.code("POST", loud.path("configmaps"), {"metadata": {"name": "watched"}}) == 201
    )
    held = [loud.stream(loud.path("configmaps") + "?watch=1") for _ in range(200)]
    opened = await asyncio.gather(*(one.__aenter__() for one in held))
    assert {answer.status for answer in opened} == {200}

    async def change() -> None:
        for number in range(10_000):
            body = {"data": {"number": str(number)}}
            assert await loud.code("PATCH", path, body, form=MERGE) == 200

    changing = asyncio.create_task(change())
    try:
        for number in range(10):
            body = {"metadata": {"name": f"mine-{number}"}}
            assert await quiet.code("GET", quiet.path("configmaps", "small")) == 200
            assert await quiet.code("POST", quiet.path("configmaps"), body) == 201
        assert not changing.done()
    finally:
        changing.cancel()
        for answer in opened:
            answer.close()


class Endless:
    """A log that always has more; and a client that takes it all."""

    def __init__(self) -> None:
        self.content, self.written = self, 0

    async def iter_any(self) -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 2**18

    async def write(self, data: bytes) -> None:
        self.written += len(data)


@pytest.mark.attack(
    "overload",
    "Logs without end, read by many at once",
    "Pieces are passed on one by one, the namespaces in turn, requests in between",
)
@pytest.mark.route("API, shares of it")
async def test_floods_of_logs_take_turns() -> None:
    passing, quiet = Passing(), Endless()
    many = [Endless() for _ in range(40)]

    def copy(flow: str, log: Endless) -> asyncio.Task[None]:
        return asyncio.create_task(passing.copy(flow, log, log))  # type: ignore[arg-type]

    tasks = [copy("loud", log) for log in many] + [copy("quiet", quiet)]
    for _ in range(400):
        await asyncio.sleep(0)  # a request would be looked at
    for task in tasks:
        task.cancel()
    loud = sum(log.written for log in many)
    assert 0 < loud <= quiet.written * 1.2
    assert loud + quiet.written <= 401 * 2**16


@pytest.mark.attack(
    "overload",
    "Bodies that come a byte at a time",
    "A request has a seat only when its body is there; others are served",
)
async def test_slow_bodies_hold_no_seat(backend: Backend, pair: Pair) -> None:
    loud, quiet = pair
    host, port = backend.server.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=backend.ca_file)
    token = loud._session.headers["Authorization"]
    head = (
        f"POST {loud.path('configmaps')} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{"
    )
    made = await asyncio.gather(
        *(asyncio.open_connection(host, int(port), ssl=tls) for _ in range(80))
    )
    for _, writer in made:
        writer.write(head.encode())
    for _ in range(10):
        assert await quiet.code("GET", quiet.path("configmaps", "small")) == 200
        assert await loud.code("GET", loud.path("configmaps")) == 200
    for _, writer in made:
        writer.transport.abort()


@pytest.mark.attack(
    "overload",
    "Large bodies that are never finished fill the memory",
    "A flow has a share of the memory for bodies; the rest is refused before it is read",
)
async def test_bodies_have_a_share_of_the_memory(backend: Backend, pair: Pair) -> None:
    loud, quiet = pair
    host, port = backend.server.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=backend.ca_file)
    token = loud._session.headers["Authorization"]
    head = (
        f"POST {loud.path('configmaps')} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 3000000\r\n\r\n{"
    )
    made = await asyncio.gather(
        *(asyncio.open_connection(host, int(port), ssl=tls) for _ in range(24))
    )
    for _, writer in made:
        writer.write(head.encode())
    answered = [asyncio.ensure_future(reader.readline()) for reader, _ in made]
    await until(lambda: any(one.done() for one in answered))
    assert await quiet.code("POST", quiet.path("configmaps"), large("mine")) == 201
    assert {one.result().split()[1] for one in answered if one.done()} == {b"429"}
    assert not all(one.done() for one in answered)
    for one in answered:
        one.cancel()
    for _, writer in made:
        writer.transport.abort()


# -- connections -----------------------------------------------------------------------------------


@pytest.mark.attack(
    "overload",
    "Hundreds of connections with half-sent headers",
    "New connections make room for each other, oldest first; others connect and are served",
)
async def test_half_sent_headers_make_room(backend: Backend, pair: Pair) -> None:
    _, quiet = pair
    host, port = backend.server.removeprefix("https://").split(":")
    tls = ssl.create_default_context(cafile=backend.ca_file)
    made = []
    for _ in range(28):
        found = await asyncio.gather(
            *(asyncio.open_connection(host, int(port), ssl=tls) for _ in range(20))
        )
        for _, writer in found:
            writer.write(b"GET /api HTTP/1.1\r\nHost: x\r\nAuth")
        made += found
    await until(lambda: made[0][0].at_eof() or made[0][0].exception() is not None)
    async with asyncio.timeout(30):
        assert await quiet.code("GET", quiet.path("configmaps", "small")) == 200
    alive = [reader for reader, _ in made if not reader.at_eof() and reader.exception() is None]
    assert 0 < len(alive) <= 512
    for _, writer in made:
        writer.transport.abort()


@pytest.mark.attack(
    "overload",
    "Hundreds of connections without a TLS handshake",
    "They make room for each other; others connect and are served",
)
async def test_silent_sockets_make_room(backend: Backend, pair: Pair) -> None:
    _, quiet = pair
    host, port = backend.server.removeprefix("https://").split(":")
    made = []
    for _ in range(14):
        made += await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(50)))
    assert await quiet.code("GET", quiet.path("configmaps", "small")) == 200
    reply = backend.request("GET", "/version")
    assert reply.code == 200
    for _, writer in made:
        writer.transport.abort()


@pytest.mark.attack(
    "overload",
    "A quota that counts thousands of kinds that nobody has defined",
    "It is counted in one pass; nothing is kept of those kinds",
)
@pytest.mark.route("API, shares of it")
async def test_large_quotas_are_one_pass(pair: Pair) -> None:
    loud, quiet = pair
    hard = {f"count/x{number}.example": "1" for number in range(15_000)} | {"count/configmaps": "9"}
    body = {"metadata": {"name": "large"}, "spec": {"hard": hard}}
    async with asyncio.timeout(30):
        made = loud.code("POST", loud.path("resourcequotas"), body)
        assert await made == 201
        codes = [await quiet.code("GET", quiet.path("configmaps", "small")) for _ in range(5)]
        name = loud.path("resourcequotas", "large")
        found: dict[str, Any] = {}
        while not found.get("status"):
            found = (await loud.send("GET", name))[2]
    assert set(codes) == {200}
    assert found["status"]["used"]["count/configmaps"] in ("0", "1")
