"""Tenants of one registry: whose repositories they write, and how much of it they take."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import aiohttp
import pytest

from corral.cluster.registry.access import Action, ClusterAccess
from corral.cluster.registry.errors import Refused
from corral.cluster.registry.settings import StoreSettings
from corral.cluster.registry.store import Store
from corral.kube import KubeClient
from corral.oci import OWN, Artifacts, Denied, Reference
from corral.oci.manifest import digest_of
from corral.oci.own import AUDIENCE, PULL_AUDIENCE
from tests.backends import Backend
from tests.cluster.objects import Objects, eventually
from tests.cluster.registry.test_registry_access import OwnClient, pull, push, token_of
from tests.registries import RunningRegistry, running_registry

RBAC = "rbac.authorization.k8s.io/v1"


@pytest.fixture
def registry(backend: Backend, tmp_path: Path) -> Iterator[RunningRegistry]:
    access = partial(OwnClient, backend.kubeconfig, anonymous_read=False)
    with running_registry(tmp_path, access=access) as one:
        yield one


def reference(repository: str) -> Reference:
    return Reference.parse(f"oci://{OWN}/{repository}:v1")


async def delete(registry: RunningRegistry, repository: str, token: str) -> None:
    async with Artifacts(registry.registries(token=lambda: token)) as artifacts:
        await artifacts.delete(reference(repository))


@pytest.mark.attack(
    "registry", "Pushes or deletes with any pod's service account", "It needs a right by RBAC"
)
@pytest.mark.route("registry")
async def test_a_service_account_without_rights(
    registry: RunningRegistry, objects: Objects, backend: Backend
) -> None:
    repository = f"{objects.namespace}/job/models"
    account = token_of(objects, "plain")
    await push(registry, repository, backend.token)
    await pull(registry, repository, account)
    for attempt, verb in ((push, "create"), (delete, "delete")):
        with pytest.raises(Denied, match=f"may not {verb} the repository"):
            await attempt(registry, repository, account)
    await pull(registry, repository, account)


@pytest.mark.attack(
    "registry",
    "Uses every method on every path of another namespace's repository",
    "Each is denied, what is there and what is not alike; none of its paths leads there either",
)
@pytest.mark.route("registry")
async def test_no_way_to_another_repository(
    registry: RunningRegistry, objects: Objects, backend: Backend
) -> None:
    theirs, mine = "kube-public/job/models", f"{objects.namespace}/job/models"
    account = administrator(objects, "tenant-a")
    for repository, owner in ((theirs, backend.token), (mine, account)):
        await push(registry, repository, owner)
    blob = digest_of(b"content")
    begin = "/v2/{}/blobs/uploads/".format
    async with Caller(registry, backend.token) as b, Caller(registry, account) as a:
        upload = (await b("POST", begin(theirs)))[1]["Docker-Upload-UUID"]
        there = ("manifests/v1", "manifests/no", f"manifests/{blob}", f"blobs/{blob}",
                 f"referrers/{blob}", "tags/list", "blobs/uploads/", f"blobs/uploads/{upload}",
                 f"blobs/uploads/{upload}?digest={blob}", f"blobs/uploads/?digest={blob}",
                 f"blobs/uploads/?mount={blob}&from={mine}", "blobs/uploads/none")  # fmt: skip
        found = {
            f"{method} {path}": (await a(method, f"/v2/{theirs}/{path}", b"content"))[0]
            for path in there
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
        }
        assert {way: code for way, code in found.items() if code != 403} == {}
        assert (await a("GET", "/v2/_catalog"))[0] == 403
        # by its own repository
        for method in ("GET", "PATCH", "PUT", "DELETE"):
            path = f"{begin(mine)}{upload}?digest={blob}"
            assert (await a(method, path, b"content"))[0] == 404, method
        secret = digest_of(b"secret")
        assert (await b("POST", f"{begin(theirs)}?digest={secret}", b"secret"))[0] == 201
        assert (await a("POST", f"{begin(mine)}?mount={secret}&from={theirs}"))[0] == 202
        assert (await a("GET", f"/v2/{mine}/blobs/{secret}"))[0] == 404
        # nothing became of it
        assert (await b("GET", f"{begin(theirs)}{upload}"))[0] == 204
        assert (await b("GET", f"/v2/{theirs}/manifests/v1"))[0] == 200
        assert (await a("GET", f"/v2/{mine}/manifests/v1"))[0] == 200


def administrator(objects: Objects, account: str) -> str:
    """The token of a service account that may do everything in its namespace."""
    token = token_of(objects, account)
    group = "rbac.authorization.k8s.io"
    about = {"apiVersion": RBAC, "metadata": {"name": account}}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    objects.create("roles", {**about, "kind": "Role", "rules": rules})
    subject = {"kind": "ServiceAccount", "name": account, "namespace": objects.namespace}
    role = {"apiGroup": group, "kind": "Role", "name": account}
    binding = {**about, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}
    objects.create("rolebindings", binding)
    return token


class Caller:
    """Requests with a token; each answers with its status and headers."""

    def __init__(self, registry: RunningRegistry, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._session = aiohttp.ClientSession(registry.url, headers=headers)

    async def __aenter__(self) -> Caller:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def __call__(
        self, method: str, path: str, body: bytes | None = None
    ) -> tuple[int, Mapping[str, str]]:
        async with self._session.request(method, path, data=body) as answer:
            return answer.status, answer.headers


@pytest.mark.attack(
    "registry",
    "Shows thousands of made-up tokens at once",
    "Few are asked about at a time, and those who are known stay known",
)
@pytest.mark.route("registry, shares of it")
async def test_floods_of_made_up_tokens() -> None:
    client = Reviewing()
    access = ClusterAccess(cast(KubeClient, client))

    async def shown(token: str) -> str:
        try:
            await access.check(
                f"Bearer {token}", peer="127.0.0.1", action=Action.read, repository="a/x"
            )
        except Refused as refused:
            return str(refused.status)
        return "ok"

    assert await shown("good") == "ok"
    found = await asyncio.gather(*(shown(f"forged-{number}") for number in range(6000)))
    assert set(found) == {"401"}
    assert client.most <= 64
    assert await shown("good") == "ok"
    assert client.asked["good"] == 1
    await access.close()


class Reviewing:
    """An API server that knows one token."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.most = self._now = 0

    async def request(self, method: str, path: str, *, body: Any) -> bytes:
        token = body["spec"]["token"]
        self.asked[token] += 1
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        user = {"username": "system:serviceaccount:a:b"}
        status = {"authenticated": True, "user": user} if token == "good" else {}
        return json.dumps({"status": status}).encode()


@pytest.mark.attack("registry", "Deletes with a courier's token", "Such a token only pushes")
async def test_a_token_for_registries_does_not_delete(
    registry: RunningRegistry, objects: Objects
) -> None:
    repository = f"{objects.namespace}/job/updates"
    courier = token_of(objects, "courier", audience=AUDIENCE)
    await push(registry, repository, courier)
    with pytest.raises(Denied, match="may not delete"):
        await delete(registry, repository, courier)


@pytest.mark.attack(
    "registry", "Pushes to another namespace with a courier's token", "It is for its own alone"
)
@pytest.mark.parametrize("prefix", ["kube-public", "", "x"])
@pytest.mark.route("registry")
async def test_a_token_for_registries_is_for_one_namespace(
    registry: RunningRegistry, objects: Objects, prefix: str
) -> None:
    courier = token_of(objects, "courier", audience=AUDIENCE)
    elsewhere = {"": f"{objects.namespace}x/job", "x": f"x{objects.namespace}/job"}
    with pytest.raises(Denied, match="may not create"):
        await push(registry, elsewhere.get(prefix, "kube-public/job"), courier)


@pytest.mark.attack("registry", "Pushes with the token that a node pulls with", "It only reads")
async def test_a_token_for_pulling_does_not_push(
    registry: RunningRegistry, objects: Objects, backend: Backend
) -> None:
    repository = f"{objects.namespace}/job/models"
    await push(registry, repository, backend.token)
    puller = token_of(objects, "puller", audience=PULL_AUDIENCE)
    await pull(registry, repository, puller)
    for attempt in (push, delete):
        with pytest.raises(Denied, match="may not"):
            await attempt(registry, repository, puller)


@pytest.mark.attack("registry", "Shows a token for another audience", "It is nobody there")
@pytest.mark.route("registry")
async def test_a_token_for_somebody_else(registry: RunningRegistry, objects: Objects) -> None:
    stranger = token_of(objects, "stranger", audience="vault.example.com")
    with pytest.raises(Denied, match="does not know this token"):
        await push(registry, f"{objects.namespace}/job/models", stranger)


async def test_a_right_by_rbac_is_enough(registry: RunningRegistry, objects: Objects) -> None:
    account = token_of(objects, "builder")
    rules = [{"apiGroups": ["registry.corral.dev"], "resources": ["repositories"]}]
    rules[0]["verbs"] = ["create", "delete"]
    role: dict[str, Any] = {"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "push"}}
    objects.create("roles", {**role, "rules": rules})
    objects.create(
        "rolebindings",
        {
            "apiVersion": RBAC,
            "kind": "RoleBinding",
            "metadata": {"name": "push"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "push"},
            "subjects": [
                {"kind": "ServiceAccount", "name": "builder", "namespace": objects.namespace}
            ],
        },
    )
    repository = f"{objects.namespace}/job/models"

    def may() -> bool:
        try:
            asyncio.run(push(registry, repository, account))
        except Denied:
            return False
        return True

    await asyncio.to_thread(eventually, may, seconds=30)
    await delete(registry, repository, account)


# --- quotas --------------------------------------------------------------------------------------


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def store(folder: Path, clock: Clock | None = None, **settings: Any) -> Store:
    return Store(folder, StoreSettings(**settings), clock=clock or Clock())


@pytest.mark.attack(
    "registry", "Opens thousands of uploads and leaves them", "Others push as before"
)
@pytest.mark.route("registry, shares of it")
def test_open_uploads_of_one_namespace(tmp_path: Path) -> None:
    kept = store(tmp_path)
    with pytest.raises(Refused) as refused:
        for number in range(5000):
            kept.begin("evil/x", f"caller-{number}")
    assert (refused.value.status, refused.value.headers) == (429, {"Retry-After": "5"})
    assert "to repositories of evil" in str(refused.value)
    assert kept.begin("good/x", "somebody")
    kept.close()


@pytest.mark.attack("registry", "Takes all uploads of its own namespace", "Its fellows go on")
def test_open_uploads_of_one_caller(tmp_path: Path) -> None:
    kept = store(tmp_path)
    with pytest.raises(Refused, match="of evil-account"):
        for _ in range(1000):
            kept.begin("team/x", "evil-account")
    assert kept.begin("team/x", "good-account")
    kept.close()


@pytest.mark.attack("registry", "Never goes on with its uploads", "They are gone in minutes")
def test_idle_uploads_make_room(tmp_path: Path) -> None:
    clock = Clock()
    kept = store(tmp_path, clock, max_namespace_uploads=2, max_uploads=3)
    first = [kept.begin("evil/x"), kept.begin("evil/x")]
    kept.append(first[0], [b"rest"])
    with pytest.raises(Refused, match="too many uploads"):
        kept.begin("evil/x")
    clock.now += StoreSettings().upload_idle + 1
    assert StoreSettings().upload_idle <= 900
    assert kept.begin("evil/x")
    assert len(list((tmp_path / "uploads").iterdir())) == 1
    kept.close()


@pytest.mark.attack("registry", "Fills the registry with blobs", "Its namespace has a quota")
@pytest.mark.route("registry, shares of it")
def test_bytes_of_one_namespace(tmp_path: Path) -> None:
    kept = store(tmp_path, max_namespace=100_000)

    def put(repository: str, content: bytes) -> None:
        upload = kept.begin(repository, "me")
        kept.append(upload, [content])
        kept.finish(repository, upload, digest_of(content))

    put("evil/a", b"a" * 60_000)
    with pytest.raises(Refused, match=r"evil have 6\d{4} bytes of at most 100000"):
        put("evil/b", b"b" * 60_000)
    put("good/a", b"c" * 60_000)
    put("evil2/a", b"d" * 60_000)
    kept.close()


@pytest.mark.attack("registry", "Fills it with uploads that never end", "They count as well")
@pytest.mark.route("registry, shares of it")
def test_bytes_of_uploads_under_way(tmp_path: Path) -> None:
    kept = store(tmp_path, max_namespace=100_000)
    uploads = [kept.begin("evil/x", "me") for _ in range(3)]
    kept.append(uploads[0], [b"a" * 50_000])
    kept.append(uploads[1], [b"a" * 50_000])
    with pytest.raises(Refused, match="at most 100000"):
        kept.append(uploads[2], [b"a"])
    kept.close()


@pytest.mark.attack("registry", "Fills it with manifests", "They count as well")
def test_bytes_of_manifests(tmp_path: Path) -> None:
    kept = store(tmp_path, max_namespace=100_000)
    upload = kept.begin("evil/x")
    kept.append(upload, [b"{}"])
    kept.finish("evil/x", upload, digest_of(b"{}"))
    config = {
        "mediaType": "application/vnd.oci.empty.v1+json",
        "digest": digest_of(b"{}"),
        "size": 2,
    }
    kind = "application/vnd.oci.image.manifest.v1+json"

    def put(number: int) -> None:
        body = {
            "schemaVersion": 2,
            "mediaType": kind,
            "config": config,
            "layers": [],
            "annotations": {"n": f"{number}" + "x" * 20_000},
        }
        kept.put_manifest("evil/x", f"t{number}", json.dumps(body).encode(), kind)

    put(1)
    put(2)
    with pytest.raises(Refused, match="the repositories of evil have"):
        put(3)
    kept.close()


@pytest.mark.attack(
    "registry", "Fills it under the name of the namespace alone, without a slash", "That counts too"
)
@pytest.mark.route("registry, shares of it")
def test_the_bare_name_of_a_namespace(tmp_path: Path) -> None:
    kept = store(tmp_path, max_namespace=100_000, max_namespace_uploads=8)
    upload = kept.begin("evil", "me")
    kept.append(upload, [b"a" * 90_000])
    kept.finish("evil", upload, digest_of(b"a" * 90_000))
    eventually(lambda: is_refused(lambda: kept.begin("evil/x", "me"), more=b"b" * 20_000, to=kept))
    kept.close()
    other = store(tmp_path / "other", max_namespace_uploads=8)
    with pytest.raises(Refused, match="to repositories of evil"):
        for _ in range(20):
            other.begin("evil")
    assert other.begin("good")
    other.close()


def is_refused(begin: Callable[[], str], *, more: bytes, to: Store) -> bool:
    """Whether an upload of so much more is refused for the namespace's quota."""
    try:
        upload = begin()
        to.append(upload, [more])
    except Refused as refused:
        return "of at most" in str(refused)
    to.abort(upload)
    return False


@pytest.mark.attack(
    "registry",
    "Fills its database: tags of one manifest without end, one blob mounted to any name",
    "Rows count as well",
)
@pytest.mark.route("registry, shares of it")
def test_rows_of_one_namespace(tmp_path: Path) -> None:
    kept = store(tmp_path, max_namespace=100_000)
    empty = digest_of(b"{}")
    upload = kept.begin("evil/x")
    kept.append(upload, [b"{}"])
    kept.finish("evil/x", upload, empty)
    kind = "application/vnd.oci.image.manifest.v1+json"
    config = {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2}
    body = {"schemaVersion": 2, "mediaType": kind, "config": config, "layers": []}
    manifest = json.dumps(body).encode()
    with pytest.raises(Refused, match="the repositories of evil have"):
        for number in range(1000):
            kept.put_manifest("evil/x", f"t{number}", manifest, kind)
    with pytest.raises(Refused, match="the repositories of evil have"):
        for number in range(1000):
            kept.mount("evil/x", f"evil/{number}", empty)
    assert kept.begin("good/x")
    kept.close()


@pytest.mark.attack(
    "registry",
    "Has a list made of manifests about another one, without end or with large annotations",
    "Lists come in pages of a thousand and about 1 MiB; all of it is there to the last page",
)
@pytest.mark.route("registry, shares of it")
async def test_lists_of_referrers(tmp_path: Path) -> None:
    with running_registry(tmp_path) as registry:
        kept, empty = registry.store, digest_of(b"{}")
        upload = kept.begin("evil/x")
        kept.append(upload, [b"{}"])
        kept.finish("evil/x", upload, empty)
        kind = "application/vnd.oci.image.manifest.v1+json"
        config = {"mediaType": "a/b", "digest": empty, "size": 2}
        body: dict[str, Any] = {"schemaVersion": 2, "mediaType": kind, "config": config}
        body |= {"layers": [], "subject": {"mediaType": kind, "digest": empty, "size": 2}}
        wanted = set()
        for number in range(1200):
            words = "x" * (700_000 if number < 8 else 1)
            own = {"annotations": {"n": f"{number}{words}"}, "artifactType": f"t/{number % 2}"}
            content = json.dumps(body | own).encode()
            wanted.add(kept.put_manifest("evil/x", digest_of(content), content, kind)[0])
        async with aiohttp.ClientSession(registry.url) as session:

            async def pages(url: str) -> list[list[str]]:
                found = []
                while url:
                    async with session.get(url) as answer:
                        whole = await answer.read()
                        assert len(whole) < 2 << 20
                        found.append([one["digest"] for one in json.loads(whole)["manifests"]])
                        link = answer.headers.get("Link", "")
                    url = link.partition(">")[0].lstrip("<")
                return found

            path = f"/v2/evil/x/referrers/{empty}"
            found = await pages(path)
            assert all(len(page) <= 1000 for page in found) and len(found) > 4
            assert {one for page in found for one in page} == wanted
            assert sum(map(len, found)) == 1200
            assert sum(map(len, await pages(f"{path}?artifactType=t%2F1&n=100"))) == 600


@pytest.mark.attack("registry", "Opens uploads over HTTP without end", "It gets 429, others 202")
async def test_open_uploads_over_http(tmp_path: Path) -> None:
    settings = StoreSettings(max_namespace_uploads=8)
    with running_registry(tmp_path, settings=settings) as registry:
        async with aiohttp.ClientSession(registry.url) as session:
            codes = [(await session.post("/v2/evil/x/blobs/uploads/")).status for _ in range(12)]
            assert codes == [202] * 8 + [429] * 4
            assert (await session.post("/v2/good/x/blobs/uploads/")).status == 202
