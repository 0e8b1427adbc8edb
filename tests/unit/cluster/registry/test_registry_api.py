"""The distribution API: every endpoint as the specification has it, by plain HTTP."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import AsyncIterator, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from corral.cluster.registry.settings import StoreSettings
from tests.registries import RunningRegistry, running_registry

OCI = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
REPO = "/v2/team/model"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    limits = StoreSettings(max_blob=10_000_000, max_manifest=20_000)
    with running_registry(tmp_path_factory.mktemp("registry"), settings=limits) as one:
        yield one


@pytest.fixture
async def http(registry: RunningRegistry) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(registry.url) as session:
        yield session


def sha(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def some(seed: int, size: int = 1000) -> bytes:
    return random.Random(seed).randbytes(size)


async def upload(http: aiohttp.ClientSession, content: bytes, repo: str = REPO) -> str:
    async with http.post(
        f"{repo}/blobs/uploads/", params={"digest": sha(content)}, data=content
    ) as answer:
        assert answer.status == 201, await answer.text()
        assert answer.headers["Location"] == f"{repo}/blobs/{sha(content)}"
    return sha(content)


async def begin(http: aiohttp.ClientSession, repo: str = REPO) -> str:
    async with http.post(f"{repo}/blobs/uploads/") as answer:
        assert answer.status == 202
        return answer.headers["Location"]


def manifest(*layers: bytes, **extra: Any) -> bytes:
    def descriptor(content: bytes, kind: str) -> dict[str, Any]:
        return {"mediaType": kind, "digest": sha(content), "size": len(content)}

    return json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": OCI,
            "config": descriptor(b"{}", "application/vnd.oci.empty.v1+json"),
            "layers": [descriptor(layer, "x/y") for layer in layers],
            **extra,
        }
    ).encode()


async def push(http: aiohttp.ClientSession, tag: str, *layers: bytes, **extra: Any) -> str:
    for layer in (b"{}", *layers):
        await upload(http, layer)
    raw = manifest(*layers, **extra)
    async with http.put(
        f"{REPO}/manifests/{tag}", data=raw, headers={"Content-Type": OCI}
    ) as answer:
        assert answer.status == 201, await answer.text()
        assert answer.headers["Docker-Content-Digest"] == sha(raw)
        if "subject" in extra:
            assert answer.headers["OCI-Subject"] == extra["subject"]["digest"]
    return sha(raw)


async def code(answer: aiohttp.ClientResponse) -> str:
    first: str = (await answer.json())["errors"][0]["code"]
    return first


async def test_the_version_is_told(http: aiohttp.ClientSession) -> None:
    async with http.get("/v2/") as answer:
        assert answer.status == 200
        assert answer.headers["Docker-Distribution-API-Version"] == "registry/2.0"


async def test_a_blob_in_one_request_and_in_parts(http: aiohttp.ClientSession) -> None:
    content = some(1)
    digest = await upload(http, content)
    async with http.get(f"{REPO}/blobs/{digest}") as answer:
        assert await answer.read() == content
        assert answer.headers["Docker-Content-Digest"] == digest
    async with http.head(f"{REPO}/blobs/{digest}") as answer:
        assert (answer.status, answer.headers["Content-Length"]) == (200, "1000")
    async with http.get(f"{REPO}/blobs/{digest}", headers={"Range": "bytes=990-"}) as answer:
        assert (answer.status, await answer.read()) == (206, content[990:])
        assert answer.headers["Content-Range"] == "bytes 990-999/1000"
    async with http.get(f"{REPO}/blobs/{digest}", headers={"Range": "bytes=5000-"}) as answer:
        assert answer.status == 416


async def test_an_upload_in_chunks(http: aiohttp.ClientSession) -> None:
    content = some(2)
    place = await begin(http)
    for start, end in ((0, 300), (300, 1000)):
        headers = {"Content-Range": f"{start}-{end - 1}"}
        async with http.patch(place, data=content[start:end], headers=headers) as answer:
            assert answer.status == 202
            assert answer.headers["Range"] == f"0-{end - 1}"
            place = answer.headers["Location"]
    async with http.put(place, params={"digest": sha(content)}) as answer:
        assert answer.status == 201
    async with http.get(f"{REPO}/blobs/{sha(content)}") as answer:
        assert await answer.read() == content
    async with http.get(place) as answer:
        assert (answer.status, await code(answer)) == (404, "BLOB_UPLOAD_UNKNOWN")


async def test_a_chunk_out_of_order_is_told_where_to_go_on(http: aiohttp.ClientSession) -> None:
    place = await begin(http)
    async with http.patch(place, data=b"x" * 10, headers={"Content-Range": "0-9"}) as answer:
        assert answer.status == 202
    async with http.patch(place, data=b"x" * 10, headers={"Content-Range": "5-14"}) as answer:
        assert answer.status == 416
        assert answer.headers["Range"] == "0-9"
    async with http.get(place) as answer:
        assert (answer.status, answer.headers["Range"]) == (204, "0-9")
    async with http.delete(place) as answer:
        assert answer.status == 204
    async with http.get(place) as answer:
        assert answer.status == 404


async def test_other_bytes_are_no_blob(http: aiohttp.ClientSession) -> None:
    place = await begin(http)
    async with http.put(place, params={"digest": sha(b"a")}, data=b"b") as answer:
        assert (answer.status, await code(answer)) == (400, "DIGEST_INVALID")
    async with http.get(f"{REPO}/blobs/{sha(b'a')}") as answer:
        assert (answer.status, await code(answer)) == (404, "BLOB_UNKNOWN")
    params = {"digest": sha(b"a")}
    async with http.post(f"{REPO}/blobs/uploads/", params=params, data=b"b") as answer:
        assert (answer.status, await code(answer)) == (400, "DIGEST_INVALID")


async def test_too_much_is_refused(http: aiohttp.ClientSession) -> None:
    place = await begin(http)
    async with http.patch(place, data=BytesIO(b"x" * 10_000_001)) as answer:
        assert (answer.status, await code(answer)) == (413, "SIZE_INVALID")
    async with http.put(f"{REPO}/manifests/big", data=b" " * 20_001) as answer:
        assert (answer.status, await code(answer)) == (413, "SIZE_INVALID")


async def test_a_blob_is_mounted_from_another_repository(http: aiohttp.ClientSession) -> None:
    digest = await upload(http, some(3), "/v2/elsewhere")
    params = {"mount": digest, "from": "elsewhere"}
    async with http.post(f"{REPO}/blobs/uploads/", params=params) as answer:
        assert answer.status == 201
    async with http.head(f"{REPO}/blobs/{digest}") as answer:
        assert answer.status == 200
    params = {"mount": sha(b"none"), "from": "elsewhere"}
    async with http.post(f"{REPO}/blobs/uploads/", params=params) as answer:
        assert answer.status == 202, "an ordinary upload instead"


async def test_manifests_by_tag_and_digest(http: aiohttp.ClientSession) -> None:
    digest = await push(http, "v1", some(4))
    for target in ("v1", digest):
        async with http.get(f"{REPO}/manifests/{target}") as answer:
            assert sha(await answer.read()) == digest
            assert answer.headers["Content-Type"] == OCI
            assert answer.headers["Docker-Content-Digest"] == digest
        async with http.head(f"{REPO}/manifests/{target}") as answer:
            assert answer.status == 200
    other = await push(http, "v1", some(5))
    assert other != digest
    async with http.get(f"{REPO}/manifests/v1") as answer:
        assert answer.headers["Docker-Content-Digest"] == other
    async with http.delete(f"{REPO}/manifests/v1") as answer:
        assert answer.status == 202
    async with http.get(f"{REPO}/manifests/{other}") as answer:
        assert answer.status == 200, "only the tag was deleted"
    async with http.delete(f"{REPO}/manifests/{other}") as answer:
        assert answer.status == 202
    async with http.get(f"{REPO}/manifests/{other}") as answer:
        assert (answer.status, await code(answer)) == (404, "MANIFEST_UNKNOWN")


async def test_a_manifest_needs_its_blobs(http: aiohttp.ClientSession) -> None:
    await upload(http, b"{}")
    raw = manifest(b"never pushed")
    async with http.put(f"{REPO}/manifests/x", data=raw) as answer:
        assert (answer.status, await code(answer)) == (400, "MANIFEST_BLOB_UNKNOWN")
    digest = await push(http, "needs", some(6))
    async with http.delete(f"{REPO}/blobs/{sha(some(6))}") as answer:
        assert answer.status == 405, "the manifest refers to it"
    async with http.put(f"{REPO}/manifests/{sha(b'')}", data=manifest()) as answer:
        assert (answer.status, await code(answer)) == (400, "DIGEST_INVALID")
    async with http.delete(f"{REPO}/manifests/{digest}") as answer:
        assert answer.status == 202
    async with http.delete(f"{REPO}/blobs/{sha(some(6))}") as answer:
        assert answer.status == 202
    async with http.head(f"{REPO}/blobs/{sha(some(6))}") as answer:
        assert answer.status == 404


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"{", b'{"schemaVersion":1}', b'{"schemaVersion":2,"mediaType":"x"}',
     b'{"schemaVersion":2,"config":1}', b'{"schemaVersion":2,"config":{"digest":"sha256:1"}}',
     b"[" * 15_000],
)  # fmt: skip
async def test_what_is_no_manifest_is_refused(http: aiohttp.ClientSession, content: bytes) -> None:
    headers = {"Content-Type": OCI}
    async with http.put(f"{REPO}/manifests/x", data=content, headers=headers) as answer:
        assert (answer.status, await code(answer)) == (400, "MANIFEST_INVALID")


async def test_an_index_of_manifests(http: aiohttp.ClientSession) -> None:
    digest = await push(http, "one", some(7))
    index = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{"mediaType": OCI, "digest": digest, "size": 1}],
    }
    headers = {"Content-Type": INDEX}
    raw = json.dumps(index)
    async with http.put(f"{REPO}/manifests/all", data=raw, headers=headers) as answer:
        assert answer.status == 201
    async with http.get(f"{REPO}/manifests/all") as answer:
        assert answer.headers["Content-Type"] == INDEX


async def test_tags_in_pages(http: aiohttp.ClientSession) -> None:
    raw = manifest()
    await upload(http, b"{}", "/v2/many")
    for tag in ("b", "a", "d", "c", "e"):
        async with http.put(f"/v2/many/manifests/{tag}", data=raw) as answer:
            assert answer.status == 201
    pages: list[list[str]] = []
    url = "/v2/many/tags/list?n=2"
    while url:
        async with http.get(url) as answer:
            pages.append((await answer.json())["tags"])
            link = answer.headers.get("Link", "")
        url = link.partition(">")[0].lstrip("<")
    assert pages == [["a", "b"], ["c", "d"], ["e"]]
    async with http.get("/v2/many/tags/list?n=0") as answer:
        assert (await answer.json())["tags"] == []
    async with http.get("/v2/never/tags/list") as answer:
        assert (answer.status, await code(answer)) == (404, "NAME_UNKNOWN")
    async with http.get("/v2/_catalog") as answer:
        assert "many" in (await answer.json())["repositories"]


async def test_referrers(http: aiohttp.ClientSession) -> None:
    subject = await push(http, "subject", some(8))
    about = {"mediaType": OCI, "digest": subject, "size": 1}
    first = await push(
        http, "sig", some(9), subject=about, artifactType="a/sig", annotations={"k": "v"}
    )
    await push(http, "sbom", some(10), subject=about, artifactType="a/sbom")
    async with http.get(f"{REPO}/referrers/{subject}") as answer:
        assert answer.headers["Content-Type"] == INDEX
        found = (await answer.json())["manifests"]
        assert {one["artifactType"] for one in found} == {"a/sig", "a/sbom"}
    params = {"artifactType": "a/sig"}
    async with http.get(f"{REPO}/referrers/{subject}", params=params) as answer:
        assert answer.headers["OCI-Filters-Applied"] == "artifactType"
        (one,) = (await answer.json())["manifests"]
        assert (one["digest"], one["annotations"]) == (first, {"k": "v"})
    async with http.get(f"{REPO}/referrers/{sha(b'nobody')}") as answer:
        assert (answer.status, (await answer.json())["manifests"]) == (200, [])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v2/UPPER/blobs/" + sha(b""), 400),
        ("GET", "/v2/a/../../etc/blobs/x", 404),
        ("GET", "/v2/a/..%2f..%2fetc/manifests/x", 400),
        ("GET", f"{REPO}/blobs/sha256:short", 400),
        ("GET", f"{REPO}/manifests/-bad", 400),
        ("POST", f"{REPO}/manifests/x", 405),
        ("PATCH", f"{REPO}/blobs/uploads/..%2f..%2fcatalog.db", 404),
        ("PATCH", f"{REPO}/blobs/uploads/nosuch", 404),
        ("GET", f"{REPO}/tags/list?n=x", 400),
        ("GET", "/etc/passwd", 404),
    ],
)
async def test_what_makes_no_sense_is_refused(
    http: aiohttp.ClientSession, method: str, path: str, status: int
) -> None:
    from yarl import URL

    async with http.request(method, URL(path, encoded=True)) as answer:
        assert answer.status == status, await answer.text()


async def test_an_upload_goes_on_after_a_restart(tmp_path: Path) -> None:
    content = some(11, 5000)
    with running_registry(tmp_path) as first:
        async with aiohttp.ClientSession(first.url) as http:
            place = await begin(http)
            async with http.patch(place, data=content[:2000]) as answer:
                assert answer.status == 202
    with running_registry(tmp_path) as second:
        async with aiohttp.ClientSession(second.url) as http:
            async with http.get(place) as answer:
                assert answer.headers["Range"] == "0-1999"
            headers = {"Content-Range": "2000-4999"}
            async with http.patch(place, data=content[2000:], headers=headers) as answer:
                assert answer.status == 202
            async with http.put(place, params={"digest": sha(content)}) as answer:
                assert answer.status == 201
            async with http.get(f"{REPO}/blobs/{sha(content)}") as answer:
                assert await answer.read() == content
