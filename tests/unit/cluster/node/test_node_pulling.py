"""Module images: which are pulled, what is taken out of them, what is kept, when it is tried."""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.pulling.cache import ModuleCache, Pulled
from corral.cluster.node.pulling.decisions import image_module, policy_of
from corral.cluster.node.pulling.errors import PullBackOff, PullError
from corral.cluster.node.pulling.modules import ImageConfig, extract
from corral.cluster.node.pulling.puller import Puller
from corral.cluster.registry.access import Action
from corral.cluster.registry.errors import Refused
from corral.oci import OWN, Artifacts, InvalidArtifact, Layer, Reference, TooLarge
from tests.registries import RunningRegistry, running_registry

WASM = b"\0asm\1\0\0\0"
IMAGE = "registry.example.com/wasm/client:v1"
TAR = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"


def pod(image: str = IMAGE, uid: str = "u1", **container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "namespace": "n", "uid": uid},
        "spec": {
            "runtimeClassName": "wasm",
            "containers": [{"name": "main", "image": image, **container}],
        },
    }


def nothing_mapped(name: str) -> bool:
    return name == "busybox"


@pytest.mark.parametrize(
    ("changes", "pulled"),
    [
        ({}, True),
        ({"image": f"oci://{IMAGE}"}, True),
        ({"args": ["--rounds", "3"]}, True),
        ({"command": ["/client.wasm"]}, True),
        ({"command": ["/m/x.wasm"], "volumeMounts": [{"mountPath": "/m"}]}, False),
        ({"command": ["/mm/x.wasm"], "volumeMounts": [{"mountPath": "/m"}]}, True),
        ({"command": ["x.wasm"], "workingDir": "/m", "volumeMounts": [{"mountPath": "/m"}]}, False),
        ({"image": "modules", "command": ["/m/x.wasm"]}, False),
        ({"image": "busybox"}, False),
    ],
)
def test_the_module_comes_from_the_image_unless_a_volume_has_it(
    changes: dict[str, Any], pulled: bool
) -> None:
    one = pod(**changes)
    found = image_module(one["spec"]["containers"][0], one, mapped=nothing_mapped)
    assert (found is not None) == pulled
    if found is not None:
        assert found.name == "registry.example.com/wasm/client"


def test_ordinary_pods_have_no_modules() -> None:
    one = pod()
    del one["spec"]["runtimeClassName"]
    assert image_module(one["spec"]["containers"][0], one, mapped=nothing_mapped) is None


@pytest.mark.parametrize(
    ("image", "written", "expected"),
    [
        ("a.b/c:v1", None, "IfNotPresent"),
        ("a.b/c", None, "Always"),
        ("a.b/c:latest", None, "Always"),
        ("a.b/c@sha256:" + "a" * 64, None, "IfNotPresent"),
        ("a.b/c", "Never", "Never"),
    ],
)
def test_pull_policies(image: str, written: str | None, expected: str) -> None:
    container = {"imagePullPolicy": written} if written else {}
    assert policy_of(container, Reference.parse(image)) == expected


def archive(*files: tuple[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(content), kind
            info.linkname = "/etc/passwd"
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize(
    ("files", "wanted", "expected"),
    [
        ([("etc/motd", b"hi"), ("client.wasm", WASM)], (), "/client.wasm"),
        ([("a.wasm", b"a"), ("b.wasm", WASM)], ("b.wasm", "x"), "/b.wasm"),
        ([("a.wasm", b"a"), ("sub/b.wasm", WASM)], ("/sub/b.wasm#_start",), "/sub/b.wasm"),
        ([("../../up.wasm", WASM)], (), "/up.wasm"),
        ([("readme", b"")], (), ""),
    ],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_the_one_module_is_taken_out_of_an_archive(
    tmp_path: Path,
    files: list[tuple[str, bytes]],
    wanted: tuple[str, ...],
    expected: str,
    compressed: bool,
) -> None:
    packed, target = tmp_path / "layer", tmp_path / "target"
    content = archive(*files)
    packed.write_bytes(gzip.compress(content) if compressed else content)
    found = extract(packed, compressed=compressed, wanted=wanted, target=target, limit=1 << 20)
    assert found == expected
    assert not expected or target.read_bytes() == WASM
    assert {path.name for path in tmp_path.iterdir()} <= {"layer", "target"}


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (archive(("a.wasm", WASM), ("b.wasm", WASM)), InvalidArtifact),
        (archive(("a.wasm", b"x" * 13_000)), TooLarge),
        (archive(("zeros", b"\0" * 100_000)), TooLarge),
        (b"this is no archive" * 100, InvalidArtifact),
    ],
    ids=["two", "large", "bomb", "garbage"],
)
def test_other_archives_are_refused(tmp_path: Path, content: bytes, error: type[Exception]) -> None:
    packed = tmp_path / "layer"
    packed.write_bytes(gzip.compress(content))
    with pytest.raises(error):
        extract(packed, compressed=True, wanted=(), target=tmp_path / "t", limit=12_000)


def test_a_link_is_no_module(tmp_path: Path) -> None:
    packed = tmp_path / "layer"
    packed.write_bytes(archive(("a.wasm", b""), kind=tarfile.SYMTYPE))
    target = tmp_path / "t"
    assert extract(packed, compressed=False, wanted=(), target=target, limit=1 << 20) == ""


def test_configs_are_read_without_trust() -> None:
    raw = json.dumps({"config": {"Entrypoint": ["/a.wasm"], "Cmd": ["x"], "Env": ["A=b=c", "=x"]}})
    assert ImageConfig.parse(raw.encode()) == ImageConfig(("/a.wasm",), ("x",), (("A", "b=c"),))
    for strange in (b"", b"[]", b'{"config": 1}', b'{"config": {"Cmd": [1], "Env": "x"}}'):
        assert ImageConfig.parse(strange) == ImageConfig()


def test_a_damaged_module_is_not_used_and_the_least_used_goes(tmp_path: Path) -> None:
    import os

    cache = ModuleCache(tmp_path / "c", most=10)
    cache.make()
    for number, content in enumerate((WASM, WASM + b"2")):
        written = cache.aside()
        written.write_bytes(content)
        module, size = cache.keep(written)
        os.utime(cache.path(module), (number, number))
        cache.remember(f"ref{number}", Pulled(f"ref{number}", module, size, "m.wasm"))
    assert cache.find("ref0") is None, "it was the least used"
    found = cache.find("ref1")
    assert found is not None
    cache.path(found.module).write_bytes(b"damaged")
    assert cache.find("ref1") is None
    assert not cache.path(found.module).exists()


# -- the puller ------------------------------------------------------------------------------------


class Passwords:
    """Access by name and password."""

    def __init__(self, wanted: str) -> None:
        shown = "Basic " + base64.b64encode(wanted.encode()).decode()
        self._wanted = shown if wanted else ""

    async def check(
        self, authorization: str, *, peer: str, action: Action, repository: str
    ) -> None:
        if self._wanted and action is Action.read and authorization != self._wanted:
            raise Refused(401, "UNAUTHORIZED", "no", {"WWW-Authenticate": 'Basic realm="x"'})

    async def close(self) -> None:
        return None


class Secrets:
    def __init__(self, **logins: str) -> None:
        self._logins = logins

    def config_map(self, name: str) -> None:
        return None

    def secret(self, name: str) -> dict[str, Any] | None:
        if name not in self._logins:
            return None
        auth = base64.b64encode(self._logins[name].encode()).decode()
        config = json.dumps({"auths": {"registry.example.com": {"auth": auth}}})
        return {"data": {".dockerconfigjson": base64.b64encode(config.encode()).decode()}}


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Node:
    """A puller with its clock and what it said."""

    def __init__(self, folder: Path, registry: RunningRegistry) -> None:
        self.clock = Clock()
        self.said: list[tuple[str, str, str]] = []
        self.puller = Puller(
            folder,
            {OWN: registry.url, "registry.example.com": registry.url},
            token=None,
            mapped=nothing_mapped,
            clock=self.clock,
        )

    async def ensure(
        self, one: dict[str, Any] | None = None, sources: Secrets | None = None
    ) -> Pulled:
        one = one or pod()
        container = one["spec"]["containers"][0]

        def say(kind: str, reason: str, message: str) -> None:
            self.said.append((kind, reason, message))

        found = await self.puller.ensure(container, one, sources or Secrets(), say=say)
        assert found is not None
        return found

    def reasons(self) -> list[str]:
        reasons = [reason for _, reason, _ in self.said]
        self.said.clear()
        return reasons


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path / "registry") as one:
        yield one


@pytest.fixture
def node(tmp_path: Path, registry: RunningRegistry) -> Node:
    return Node(tmp_path / "node", registry)


async def push(
    registry: RunningRegistry, *layers: Layer, image: str = IMAGE, config: Any = None
) -> str:
    async with Artifacts(registry.registries("registry.example.com")) as artifacts:
        more = {"config": json.dumps(config).encode(), "config_media_type": CONFIG}
        pushed = await artifacts.push(
            Reference.parse(image),
            layers,
            artifact_type="application/vnd.wasm.config.v1+json",
            **(more if config is not None else {}),
        )
        return pushed.digest


async def test_a_module_is_pulled_once(node: Node, registry: RunningRegistry) -> None:
    digest = await push(registry, Layer("application/wasm", WASM))
    found = await node.ensure()
    assert node.puller.path(found).read_bytes() == WASM
    assert found.reference == f"registry.example.com/wasm/client@{digest}"
    assert found.entrypoint == ("client.wasm",)
    assert node.reasons() == ["Pulling", "Pulled"]
    assert await node.ensure(pod(uid="u2")) == found
    assert node.reasons() == ["Pulled"]
    await push(registry, Layer("application/wasm", WASM + b"2"))
    assert await node.ensure() == found, "it is present"
    newer = await node.ensure(pod(imagePullPolicy="Always"))
    assert node.puller.path(newer).read_bytes() == WASM + b"2"
    fixed = await node.ensure(pod(image=f"registry.example.com/wasm/client@{digest}"))
    assert node.puller.path(fixed).read_bytes() == WASM


async def test_an_image_of_tar_layers_says_how_it_is_run(
    node: Node, registry: RunningRegistry
) -> None:
    layers = [
        Layer(TAR, archive(("etc/motd", b"hi"))),
        Layer(f"{TAR}+gzip", gzip.compress(archive(("app/client.wasm", WASM)), mtime=0)),
    ]
    config = {"config": {"Entrypoint": ["/app/client.wasm"], "Cmd": ["go"], "Env": ["A=1"]}}
    await push(registry, *layers, config=config)
    found = await node.ensure()
    assert node.puller.path(found).read_bytes() == WASM
    assert (found.entrypoint, found.cmd, found.env) == (
        ("/app/client.wasm",),
        ("go",),
        (("A", "1"),),
    )


async def test_failures_are_told_and_waited_for_as_by_a_kubelet(
    node: Node, registry: RunningRegistry
) -> None:
    for wait in (10.0, 20.0, 40.0):
        with pytest.raises(PullError, match="is not in the registry") as failed:
            await node.ensure()
        assert failed.value.reason == "ErrImagePull"
        assert node.reasons() == ["Pulling", "Failed", "Failed"]
        node.clock.now += failed.value.retry_after
        with pytest.raises(PullBackOff, match=r"Back-off pulling image .*ErrImagePull") as backoff:
            await node.ensure()
        assert backoff.value.reason == "ImagePullBackOff"
        assert backoff.value.retry_after == wait - failed.value.retry_after
        assert node.reasons() == ["BackOff", "Failed"]
        node.clock.now += backoff.value.retry_after
    with pytest.raises(PullError):
        await node.ensure(pod(uid="another"))
    assert node.reasons() == ["Pulling", "Failed", "Failed"], "its back-off is its own"
    await push(registry, Layer("application/wasm", WASM))
    assert await node.ensure()


async def test_never_means_never(node: Node, registry: RunningRegistry) -> None:
    await push(registry, Layer("application/wasm", WASM))
    with pytest.raises(PullError, match="pull policy of Never") as failed:
        await node.ensure(pod(imagePullPolicy="Never"))
    assert failed.value.reason == "ErrImageNeverPull"
    await node.ensure()
    assert await node.ensure(pod(imagePullPolicy="Never"))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([Layer("application/wasm", b"#!/bin/sh")], "does not begin as one"),
        ([Layer("application/wasm", WASM), Layer("application/wasm", WASM)], "2 layers"),
        ([Layer("text/plain", b"hello")], "text/plain"),
        ([Layer(TAR, archive(("readme", b"hello")))], "no .wasm file"),
        ([], "no layers"),
    ],
)
async def test_what_is_no_module_is_not_run(
    node: Node, registry: RunningRegistry, layers: list[Layer], words: str
) -> None:
    await push(registry, *layers)
    with pytest.raises(PullError, match=words):
        await node.ensure()


async def test_credentials_of_the_pod(tmp_path: Path) -> None:
    with running_registry(tmp_path / "r", access=lambda: Passwords("")) as registry:
        await push(registry, Layer("application/wasm", WASM))
    with running_registry(tmp_path / "r", access=lambda: Passwords("joe:secret")) as registry:
        node = Node(tmp_path / "node", registry)
        secrets = Secrets(good="joe:secret", bad="joe:wrong")

        def one(uid: str, *names: str) -> dict[str, Any]:
            found = pod(uid=uid)
            found["spec"]["imagePullSecrets"] = [{"name": name} for name in names]
            return found

        with pytest.raises(PullError, match="check the credentials"):
            await node.ensure(one("a", "bad"), secrets)
        node.said.clear()
        with pytest.raises(PullError, match="check the credentials"):
            await node.ensure(one("b", "missing"), secrets)
        assert node.reasons()[0] == "FailedToRetrieveImagePullSecret"
        assert await node.ensure(one("c", "good"), secrets)
        with pytest.raises(PullError):
            await node.ensure(one("d"), secrets)
        assert node.reasons()[-1] == "Failed", "what others paid for is not given away"
        assert await node.ensure(one("e", "good"), secrets)
        assert node.reasons() == ["Pulled"]


async def test_many_pods_pull_an_image_once(node: Node, registry: RunningRegistry) -> None:
    await push(registry, Layer("application/wasm", WASM))
    found = await asyncio.gather(*(node.ensure(pod(uid=str(n))) for n in range(20)))
    assert len(set(found)) == 1
    assert node.reasons().count("Pulling") == 1
