"""Which cluster is meant, and which names the package offers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import corral
import corral.sdk
from corral.client.errors import BadRequest
from corral.sdk.clients import AsyncTrainingClient
from corral.sdk.connect import Connection, connect
from corral.sdk.errors import NoCluster
from corral.sdk.sync import TrainingClient


def kubeconfig(path: Path, server: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    config = {
        "current-context": "a",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "secret-token"}}],
        "contexts": [
            {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "team"}},
            {"name": "b", "context": {"cluster": "c", "user": "u"}},
        ],
    }
    path.write_text(json.dumps(config))
    return path


async def found(connection: Connection, env: dict[str, str]) -> tuple[str, str]:
    access = connect(connection, env)
    try:
        return access.where, access.namespace
    finally:
        await access.close()


async def test_the_order(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    with pytest.raises(NoCluster) as caught:
        connect(Connection(), env)
    assert "corral up" in caught.value.hint
    kubeconfig(tmp_path / ".corral" / "kubeconfig", "https://local.test")
    assert await found(Connection(), env) == ("a", "team")
    own = kubeconfig(tmp_path / "own", "https://own.test")
    assert await found(Connection(kubeconfig=own, context="b"), env) == ("b", "default")
    env["CORRAL_GATEWAY"] = "http://gateway.test/"
    with pytest.raises(NoCluster, match="needs a token"):
        connect(Connection(), env)
    env["CORRAL_TOKEN"] = "secret-token"
    assert await found(Connection(), env) == ("http://gateway.test", "default")
    assert await found(Connection(kubeconfig=own), env) == ("a", "team")
    other = Connection(gateway="http://other.test", token="x")
    assert await found(other, env) == ("http://other.test", "default")
    assert "secret" not in repr(Connection(token="secret-token"))
    with pytest.raises(BadRequest, match="both named"):
        connect(Connection(gateway="http://a.test", kubeconfig=own), env)


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoCluster, match="does not exist"):
        connect(Connection(kubeconfig=tmp_path / "nothing"), {"HOME": str(tmp_path)})
    own = kubeconfig(tmp_path / "own", "https://own.test")
    with pytest.raises(NoCluster, match="known contexts: a, b"):
        connect(Connection(kubeconfig=own, context="c"), {"HOME": str(tmp_path)})


async def test_clients_ask_nobody_before_the_first_call(tmp_path: Path) -> None:
    client = AsyncTrainingClient(kubeconfig=tmp_path / "nothing")
    assert repr(client) == "<AsyncTrainingClient: not connected yet>"
    await client.close()
    with TrainingClient(kubeconfig=tmp_path / "nothing") as sync:
        assert repr(sync) == "<TrainingClient: not connected yet>"
        with pytest.raises(NoCluster):
            sync.list_jobs()


async def test_options_that_are_none(tmp_path: Path) -> None:
    async with AsyncTrainingClient(
        kubeconfig=kubeconfig(tmp_path / "k", "https://x.test")
    ) as client:
        with pytest.raises(BadRequest, match="no option 'replica'"):
            await client.train(len, replica=2)  # type: ignore[call-arg]


def test_a_local_cluster_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cluster = corral.LocalCluster(tmp_path / "file" / "inside")
    assert repr(cluster) == f"<LocalCluster {tmp_path}/file/inside: not running>"
    with pytest.raises(NoCluster, match="cannot use"):
        cluster.start()
    cluster.stop()


def test_the_names_of_the_package() -> None:
    assert set(corral.__all__) <= set(corral.sdk.__all__)
    for package in (corral, corral.sdk):
        for name in package.__all__:
            assert getattr(package, name) is getattr(corral.sdk, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        corral.nothing  # noqa: B018


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, corral; print([m for m in sys.modules if m.startswith('corral.')])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
