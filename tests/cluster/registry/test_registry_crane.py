"""Ours and crane's: its client on our registry, our client on its registry."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from corral.cluster.node.pulling.puller import Puller
from corral.oci import (
    Artifacts,
    ClientSettings,
    Endpoint,
    Layer,
    NotFound,
    Reference,
    Registries,
)
from tests.backends.base import free_port
from tests.cluster.binaries import built_client
from tests.cluster.objects import eventually
from tests.registries import RunningRegistry, running_registry

WASM = b"\0asm\1\0\0\0"


@pytest.fixture(scope="module")
def crane() -> str:
    return built_client("crane")


class Crane:
    def __init__(self, program: str, home: Path) -> None:
        self._program = program
        self._env = {**os.environ, "HOME": str(home), "DOCKER_CONFIG": str(home)}

    def __call__(self, *words: str, code: int = 0) -> str:
        done = subprocess.run(
            [self._program, *words],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)
        return done.stdout.strip()


@pytest.fixture
def client(crane: str, tmp_path: Path) -> Crane:
    home = tmp_path / "home"
    home.mkdir()
    return Crane(crane, home)


def archive(folder: Path, **files: bytes) -> str:
    path = folder / "layer.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name.replace("__", "."))
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return str(path)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path / "ours") as one:
        yield one


def test_its_client_on_our_registry(ours: RunningRegistry, client: Crane, tmp_path: Path) -> None:
    image, other = f"{ours.host}/team/image", f"{ours.host}/elsewhere/copy"
    big = random.Random(1).randbytes(3_000_000)
    layer = archive(tmp_path, hello__wasm=WASM, data=big)
    client("append", "-f", layer, "-t", f"{image}:v1")
    client("validate", "--remote", f"{image}:v1")
    digest = client("digest", f"{image}:v1")
    client("tag", f"{image}:v1", "v2")
    assert client("ls", image).split() == ["v1", "v2"]
    client("copy", f"{image}:v1", f"{other}:v1")
    assert client("digest", f"{other}:v1") == digest
    client("validate", "--remote", f"{other}@{digest}")
    assert client("catalog", ours.host).split() == ["elsewhere/copy", "team/image"]
    client("pull", f"{image}:v1", str(tmp_path / "image.tar"))
    client("push", str(tmp_path / "image.tar"), f"{image}:v3")
    client("validate", "--remote", f"{image}:v3")
    client("index", "append", "-m", f"{image}:v1", "-t", f"{image}:all")
    assert json.loads(client("manifest", f"{image}:all"))["manifests"][0]["digest"] == digest
    client("delete", f"{image}@{digest}")
    client("digest", f"{image}:v1", code=1)
    client("validate", "--remote", f"{other}:v1")


def test_an_image_of_its_making_is_a_module_for_a_node(
    ours: RunningRegistry, client: Crane, tmp_path: Path
) -> None:
    image = f"{ours.host}/team/module:v1"
    client("append", "-f", archive(tmp_path, client__wasm=WASM), "-t", image)
    client("mutate", image, "--entrypoint", "/client.wasm", "--cmd", "go", "-t", image)
    allowed = [f"http://{ours.host}"]
    puller = Puller(tmp_path / "node", {}, token=None, mapped=lambda name: False, allowed=allowed)
    pod = {
        "metadata": {"namespace": "team", "uid": "u"},
        "spec": {"runtimeClassName": "wasm", "containers": [{"name": "m", "image": image}]},
    }

    class Nothing:
        def config_map(self, name: str) -> None:
            return None

        def secret(self, name: str) -> None:
            return None

    said: list[str] = []
    found = asyncio.run(
        puller.ensure(
            pod["spec"]["containers"][0],  # type: ignore[index]
            pod,
            Nothing(),
            say=lambda kind, reason, message: said.append(reason),
        )
    )
    assert found is not None and puller.path(found).read_bytes() == WASM
    assert (found.entrypoint, found.cmd) == (("/client.wasm",), ("go",))
    assert said == ["Pulling", "Pulled"]


@contextmanager
def theirs(crane: str, folder: Path) -> Iterator[str]:
    """Its registry; gives host and port."""
    host = f"127.0.0.1:{free_port()}"
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [crane, "registry", "serve", "--address", host], stdout=log, stderr=log
        )
    try:
        eventually(lambda: serves(host), seconds=30)
        yield host
    finally:
        process.terminate()
        process.wait(30)


def serves(host: str) -> bool:
    import socket

    name, _, port = host.partition(":")
    with closing(socket.socket()) as sock:
        sock.settimeout(5)
        return sock.connect_ex((name, int(port))) == 0


def test_our_client_on_its_registry(crane: str, client: Crane, tmp_path: Path) -> None:
    async def work(host: str) -> None:
        content = random.Random(2).randbytes(2_500_000)
        path = tmp_path / "layer"
        path.write_bytes(content)
        settings = ClientSettings(chunk=1_000_000)
        mapping = {"registry.example.com": Endpoint(f"http://{host}")}
        async with Artifacts(Registries(mapping), settings=settings) as artifacts:
            ref = Reference.parse("oci://registry.example.com/team/model:round-1")
            pushed = await artifacts.push(
                ref,
                [Layer("x/y", path), Layer("x/z", b"state")],
                artifact_type="x/model",
                annotations={"round": "1"},
            )
            again = await artifacts.push(
                ref,
                [Layer("x/y", path), Layer("x/z", b"state")],
                artifact_type="x/model",
                annotations={"round": "1"},
            )
            assert again == pushed
            manifest = await artifacts.manifest(ref)
            assert manifest.digest == pushed.digest and manifest.annotations == {"round": "1"}
            target = tmp_path / "target"
            await artifacts.fetch(ref, manifest.layers[0], target)
            assert target.read_bytes() == content
            assert await artifacts.read(ref, manifest.layers[1], limit=100) == b"state"
            await artifacts.tag(pushed.reference, "best")
            assert await artifacts.tags(ref) == ["best", "round-1"]
            await artifacts.delete(ref.with_tag("best"))
            with pytest.raises(NotFound):
                await artifacts.manifest(ref.with_tag("best"))

    with theirs(crane, tmp_path) as host:
        asyncio.run(work(host))
        assert "round" in client("manifest", f"{host}/team/model:round-1")
