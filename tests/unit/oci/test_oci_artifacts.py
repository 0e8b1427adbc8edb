"""The client against a registry that fails as it is told."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from oci_fake_registry import FakeRegistry, serving, sha

from corral.oci import (
    Artifacts,
    ClientSettings,
    Credentials,
    Denied,
    Descriptor,
    DigestMismatch,
    Endpoint,
    Layer,
    Login,
    NotFound,
    Reference,
    Registries,
    RegistryError,
    TooLarge,
    Unavailable,
)

REF = Reference.parse("oci://registry.example.com/team/model:v1")
SETTINGS = ClientSettings(chunk=1000, first_wait=0.001, longest_wait=0.001)
BIG = random.Random(1).randbytes(4500)


@pytest.fixture
async def registry() -> AsyncIterator[FakeRegistry]:
    async with serving(FakeRegistry()) as one:
        yield one


def client(
    registry: FakeRegistry, *, endpoint: Endpoint | None = None, login: Login | None = None
) -> Artifacts:
    mapping = {REF.registry: endpoint or Endpoint(registry.url)}
    credentials = Credentials({REF.registry: login} if login else {})
    return Artifacts(Registries(mapping, credentials), settings=SETTINGS)


def names(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir())


async def push(artifacts: Artifacts, *sources: bytes | Path, ref: Reference = REF) -> Reference:
    layers = [Layer("x/y", source) for source in sources]
    pushed = await artifacts.push(ref, layers, artifact_type="x/z", annotations={"round": "3"})
    assert pushed.reference.digest == pushed.digest
    return pushed.reference


async def test_what_is_pushed_comes_back(registry: FakeRegistry, tmp_path: Path) -> None:
    path = tmp_path / "layer"
    path.write_bytes(BIG)
    async with client(registry) as artifacts:
        ref = await push(artifacts, b"small", path)
        assert str(ref).startswith("oci://registry.example.com/team/model:v1@sha256:")
        manifest = await artifacts.manifest(REF)
        assert manifest.digest == ref.digest and manifest.annotations == {"round": "3"}
        assert manifest.artifact_type == "x/z" and manifest.size == 5 + len(BIG)
        assert await artifacts.read(ref, manifest.layers[0], limit=5) == b"small"
        target = tmp_path / "target"
        await artifacts.fetch(ref, manifest.layers[1], target)
        assert target.read_bytes() == BIG
        assert registry.count("PATCH") == 5
        with pytest.raises(TooLarge):
            await artifacts.read(ref, manifest.layers[1], limit=100)
        tagged = await artifacts.tag(ref, "newest")
        assert (await artifacts.manifest(tagged.with_tag("newest"))).digest == ref.digest
        await artifacts.tag(ref, "v0")
        assert await artifacts.tags(REF) == ["newest", "v0", "v1"]
        await artifacts.delete(REF.with_tag("v0"))
        assert await artifacts.tags(REF) == ["newest", "v1"]
        with pytest.raises(NotFound):
            await artifacts.delete(REF.with_tag("v0"))
    assert names(tmp_path) == ["layer", "target"]


async def test_what_is_there_is_not_sent_again(registry: FakeRegistry) -> None:
    async with client(registry) as artifacts:
        first = await push(artifacts, BIG, BIG)
        sent = registry.count("POST")
        assert sent == 2, "the same layer twice is one blob, and the config another"
        assert await push(artifacts, BIG, BIG) == first
        assert registry.count("POST") == sent


async def test_a_blob_of_another_repository_is_mounted(registry: FakeRegistry) -> None:
    registry.blobs["other/place", sha(BIG)] = BIG
    async with client(registry) as artifacts:
        layer = Layer("x/y", BIG, mount_from="other/place")
        await artifacts.push(REF, [layer], artifact_type="x/z")
    assert ("team/model", sha(BIG)) in registry.blobs
    assert registry.count("PATCH") == 0


@pytest.mark.parametrize("keep", [[0], [1], [999], [10, 20, 30], [500, 0, 0, 0]])
async def test_an_upload_goes_on_from_where_it_broke(
    registry: FakeRegistry, tmp_path: Path, keep: list[int]
) -> None:
    registry.keep_of_patch = list(keep)
    path = tmp_path / "layer"
    path.write_bytes(BIG)
    async with client(registry) as artifacts:
        await push(artifacts, path)
    assert registry.blobs["team/model", sha(BIG)] == BIG
    assert registry.keep_of_patch == []


@pytest.mark.parametrize(
    ("method", "part", "status"),
    [
        ("POST", "uploads", 503),
        ("PATCH", "uploads", 500),
        ("PUT", "uploads", 502),
        ("PUT", "manifests", 429),
        ("HEAD", "blobs", 504),
        ("GET", "manifests", 500),
        ("GET", "blobs/sha256", 503),
    ],
)
async def test_each_step_is_tried_again(
    registry: FakeRegistry, method: str, part: str, status: int
) -> None:
    registry.refuse = [(method, part, status)]
    async with client(registry) as artifacts:
        ref = await push(artifacts, BIG)
        layer = (await artifacts.manifest(ref)).layers[0]
        assert await artifacts.read(ref, layer, limit=10_000) == BIG
    assert registry.refuse == []


async def test_an_upload_that_the_registry_lost_begins_anew(registry: FakeRegistry) -> None:
    registry.refuse = [("PATCH", "uploads", 500), ("GET", "uploads", 404)]
    async with client(registry) as artifacts:
        await push(artifacts, BIG)
    assert registry.blobs["team/model", sha(BIG)] == BIG
    assert registry.refuse == []


async def test_a_registry_that_stays_away_is_unavailable(registry: FakeRegistry) -> None:
    registry.refuse = [("GET", "manifests", 503)] * SETTINGS.tries
    async with client(registry) as artifacts:
        with pytest.raises(Unavailable, match="503 SCRIPTED: as asked"):
            await artifacts.manifest(REF)
    nobody = Registries({REF.registry: Endpoint("http://127.0.0.1:1")})
    async with Artifacts(nobody, settings=SETTINGS) as artifacts:
        with pytest.raises(Unavailable, match="see that it runs"):
            await artifacts.manifest(REF)


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_download_goes_on_from_where_it_broke(registry: FakeRegistry, ranges: bool) -> None:
    registry.ranges = ranges
    registry.break_after = [1000, 1000, 0, 2000] if ranges else [1000, 2000, 0]
    async with client(registry) as artifacts:
        ref = await push(artifacts, BIG)
        layer = (await artifacts.manifest(ref)).layers[0]
        assert await artifacts.read(ref, layer, limit=10_000) == BIG
    assert registry.break_after == []


@pytest.mark.parametrize(
    "lie", [lambda b: b[:-1] + b"\0", lambda b: b + b"x"], ids=["changed", "longer"]
)
async def test_other_bytes_are_no_layer(
    registry: FakeRegistry, tmp_path: Path, lie: object
) -> None:
    async with client(registry) as artifacts:
        ref = await push(artifacts, BIG)
        layer = (await artifacts.manifest(ref)).layers[0]
        registry.lie = lie  # type: ignore[assignment]
        with pytest.raises(DigestMismatch, match="damaged"):
            await artifacts.fetch(ref, layer, tmp_path / "target")
        with pytest.raises(DigestMismatch, match="was asked for"):
            await artifacts.manifest(ref)
    assert names(tmp_path) == []


@pytest.mark.parametrize("ranges", [True, False])
async def test_a_layer_that_is_shorter_than_its_manifest_says(
    registry: FakeRegistry, tmp_path: Path, ranges: bool
) -> None:
    registry.ranges = ranges
    async with client(registry) as artifacts:
        ref = await push(artifacts, BIG)
        layer = (await artifacts.manifest(ref)).layers[0]
        registry.lie = lambda content: content[:100]
        with pytest.raises(DigestMismatch, match="has 100 bytes, its manifest says 4500"):
            await artifacts.fetch(ref, layer, tmp_path / "target")
    assert names(tmp_path) == []


async def test_too_large_is_not_even_asked_for(registry: FakeRegistry, tmp_path: Path) -> None:
    async with client(registry) as artifacts:
        with pytest.raises(TooLarge):
            huge = Descriptor("x", sha(b""), SETTINGS.max_blob + 1)
            await artifacts.fetch(REF, huge, tmp_path / "target")
        registry.manifests["team/model", "v1"] = b" " * (SETTINGS.max_manifest + 1), "x"
        with pytest.raises(TooLarge):
            await artifacts.manifest(REF)
    assert registry.count("GET", "blobs") == 0


async def test_basic(registry: FakeRegistry) -> None:
    registry.basic = "joe:secret"
    async with client(registry, login=Login("joe", "secret")) as artifacts:
        await push(artifacts, BIG)
        assert registry.shown.count("") == 1, "asked once, then known"
    async with client(registry, login=Login("joe", "wrong")) as artifacts:
        with pytest.raises(Denied, match="check the credentials"):
            await artifacts.manifest(REF)
    async with client(registry) as artifacts:
        with pytest.raises(Denied):
            await artifacts.manifest(REF)
    endpoint = Endpoint(registry.url, username="joe", password="secret")
    async with client(registry, endpoint=endpoint) as artifacts:
        assert (await artifacts.manifest(REF)).annotations == {"round": "3"}


async def test_tokens_are_bought_and_kept(registry: FakeRegistry) -> None:
    registry.bearer, registry.buyer = "t0ken", "joe:secret"
    async with client(registry, login=Login("joe", "secret")) as artifacts:
        ref = await push(artifacts, BIG)
        await artifacts.manifest(ref)
        await artifacts.manifest(ref)
    assert registry.scopes == [
        "repository:team/model:pull,push",
        "repository:team/model:pull",
    ]
    async with client(registry, login=Login("joe", "wrong")) as artifacts:
        with pytest.raises(Denied, match="token service"):
            await artifacts.manifest(REF)
    async with client(registry, login=Login(identity_token="refresh")) as artifacts:
        await artifacts.manifest(REF)
    assert registry.forms[0]["refresh_token"] == "refresh"
    assert registry.forms[0]["service"] == "fake, really"


async def test_a_token_of_ones_own_is_asked_for_again_when_it_is_refused(
    registry: FakeRegistry,
) -> None:
    registry.bearer = "new"
    given = iter(["old", "new"])
    endpoint = Endpoint(registry.url, token=lambda: next(given, "new"))
    async with client(registry, endpoint=endpoint) as artifacts:
        await push(artifacts, b"x")
    stale = Endpoint(registry.url, token=lambda: "old")
    async with client(registry, endpoint=stale) as artifacts:
        with pytest.raises(Denied):
            await artifacts.manifest(REF)
    assert registry.count("GET", "/token") == 0


async def test_a_token_service_must_be_safe(registry: FakeRegistry) -> None:
    registry.bearer = "t"
    async with client(registry, login=Login("joe", "secret")) as artifacts:
        home, registry.url = registry.url, "http://198.51.100.7"
        with pytest.raises(Denied, match="https"):
            await artifacts.manifest(REF)
        registry.url = home


async def test_who_we_are_is_not_told_to_where_we_are_sent(registry: FakeRegistry) -> None:
    async with serving(FakeRegistry()) as elsewhere:
        registry.basic = "joe:secret"
        async with client(registry, login=Login("joe", "secret")) as artifacts:
            ref = await push(artifacts, BIG)
            layer = (await artifacts.manifest(ref)).layers[0]
            elsewhere.blobs = registry.blobs
            registry.redirect_to = elsewhere.url
            assert await artifacts.read(ref, layer, limit=10_000) == BIG
            assert set(elsewhere.shown) == {""}
            registry.redirect_to = "file:///etc"
            with pytest.raises(RegistryError, match="not safe"):
                await artifacts.read(ref, layer, limit=10_000)
            registry.redirect_to = registry.url
            with pytest.raises(RegistryError, match="circles"):
                await artifacts.read(ref, layer, limit=10_000)


async def test_a_pushed_reference_with_a_digest_must_match(registry: FakeRegistry) -> None:
    async with client(registry) as artifacts:
        ref = await push(artifacts, b"x")
        assert await push(artifacts, b"x", ref=ref) == ref
        with pytest.raises(DigestMismatch):
            await push(artifacts, b"y", ref=ref)


async def test_a_file_that_changes_is_not_stored(registry: FakeRegistry, tmp_path: Path) -> None:
    path = tmp_path / "layer"
    path.write_bytes(BIG)
    registry.refuse = [("PATCH", "uploads", 500)]

    async def shrink(seconds: float) -> None:
        path.write_bytes(BIG[:100])

    mapping = {REF.registry: Endpoint(registry.url)}
    async with Artifacts(Registries(mapping), settings=SETTINGS, sleep=shrink) as artifacts:
        with pytest.raises(DigestMismatch, match="changed while it was sent"):
            await push(artifacts, path)


async def test_cancelling_leaves_no_file(registry: FakeRegistry, tmp_path: Path) -> None:
    async with client(registry) as artifacts:
        ref = await push(artifacts, BIG)
        layer = (await artifacts.manifest(ref)).layers[0]
        asked = asyncio.Event()

        def heard(content: bytes) -> bytes:
            asked.set()
            return content

        registry.lie, registry.break_after = heard, [10] * 1000
        task = asyncio.create_task(artifacts.fetch(ref, layer, tmp_path / "target"))
        await asyncio.wait_for(asked.wait(), 30)
        assert len(names(tmp_path)) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert names(tmp_path) == []
