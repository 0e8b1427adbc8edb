from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node import atomic
from corral.cluster.node.payloads import File
from corral.cluster.node.sources import ConfigError, PodContext
from corral.cluster.node.volumes import PodVolumes, fixed_volumes, host_path, mounts_of


class Objects:
    def __init__(self) -> None:
        self.maps: dict[str, Any] = {
            "cm": {"data": {"a": "1", "b": "2"}, "binaryData": {"bin": "AAE="}}
        }
        self.secrets: dict[str, Any] = {"s": {"data": {"k": base64.b64encode(b"v").decode()}}}

    def config_map(self, name: str) -> dict[str, Any] | None:
        return self.maps.get(name)

    def secret(self, name: str) -> dict[str, Any] | None:
        return self.secrets.get(name)


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def volumes(tmp_path: Path, objects: Objects) -> PodVolumes:
    def claim(name: str) -> Path:
        path = tmp_path / "claims" / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    return PodVolumes(
        tmp_path / "pod",
        sources=objects,
        token=lambda source: f"token for {source['audience']}",
        claim=claim,
    )


def context(*volumes: dict[str, Any]) -> PodContext:
    metadata = {"name": "p", "namespace": "ns", "labels": {"l": "x"}}
    return PodContext(pod={"metadata": metadata, "spec": {"volumes": list(volumes)}})


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not str(path.relative_to(folder)).startswith("..")
    } | {
        f"{link.name}/{path.name}": path.read_text()
        for link in folder.iterdir()
        if link.is_symlink() and link.is_dir() and not link.name.startswith("..")
        for path in link.iterdir()
    }


CASES: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "configMap": ({"configMap": {"name": "cm"}}, {"a": "1", "b": "2", "bin": "\0\1"}),
    "items": (
        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "x/y"}]}}, {"x/y": "1"}
    ),
    "secret": ({"secret": {"secretName": "s"}}, {"k": "v"}),
    "optional": ({"secret": {"secretName": "none", "optional": True}}, {}),
    "optional item": (
        {"configMap": {"name": "cm", "optional": True, "items": [{"key": "z", "path": "z"}]}}, {}
    ),
    "downwardAPI": (
        {"downwardAPI": {"items": [{"path": "n", "fieldRef": {"fieldPath": "metadata.name"}},
                                   {"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
        {"n": "p", "l": 'l="x"'},
    ),
    "projected": (
        {"projected": {"sources": [
            {"configMap": {"name": "cm", "items": [{"key": "a", "path": "a"}]}},
            {"secret": {"name": "s"}},
            {"downwardAPI": {"items": [{"path": "ns", "fieldRef": {
                "fieldPath": "metadata.namespace"}}]}},
            {"serviceAccountToken": {"audience": "x", "path": "token"}}]}},
        {"a": "1", "k": "v", "ns": "ns", "token": "token for x"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_files(volumes: PodVolumes, name: str) -> None:
    volume, expected = CASES[name]
    where = volumes.prepare(context({"name": "v", **volume}))
    assert files(where["v"]) == expected


@pytest.mark.parametrize(
    ("volume", "message"),
    [
        ({"configMap": {"name": "x"}}, 'configmap "x" not found'),
        ({"secret": {"secretName": "x"}}, 'secret "x" not found'),
        (
            {"configMap": {"name": "cm", "items": [{"key": "z", "path": "z"}]}},
            "configmap references non-existent config key: z",
        ),
        (
            {"secret": {"secretName": "s", "items": [{"key": "z", "path": "z"}]}},
            "references non-existent secret key: z",
        ),
        ({"nfs": {}}, "a process node has no volumes of kind nfs"),
        (
            {"configMap": {"name": "cm", "items": [{"key": "a", "path": "../a"}]}},
            "invalid path, must be relative path and must not contain '..': ../a",
        ),
    ],
)
def test_refused(volumes: PodVolumes, volume: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        volumes.prepare(context({"name": "v", **volume}))
    assert str(caught.value) == f'volume "v" : {message}'


def test_modes(volumes: PodVolumes) -> None:
    volume = {"secretName": "s", "defaultMode": 0o400}
    items = [{"key": "a", "path": "a", "mode": 0o640}, {"key": "b", "path": "b"}]
    where = volumes.prepare(
        context(
            {"name": "s", "secret": volume},
            {"name": "c", "configMap": {"name": "cm", "items": items}},
            {"name": "e", "emptyDir": {}},
        )
    )
    modes = [(where["s"] / "k"), where["c"] / "a", where["c"] / "b", where["e"]]
    assert [path.stat().st_mode & 0o777 for path in modes] == [0o400, 0o640, 0o644, 0o777]


def test_refresh_swaps_all_at_once(volumes: PodVolumes, objects: Objects) -> None:
    pod = context({"name": "v", "configMap": {"name": "cm"}}, {"name": "e", "emptyDir": {}})
    where = volumes.prepare(pod)["v"]
    assert os.readlink(where / "a") == "..data/a"
    before = os.readlink(where / "..data")
    reader = (where / before / "a").open()
    assert volumes.refresh(pod) == [] and os.readlink(where / "..data") == before
    objects.maps["cm"] = {"data": {"a": "new", "c": "3"}}
    assert volumes.refresh(pod) == ["v"]
    assert files(where) == {"a": "new", "c": "3"}
    assert reader.read() == "1"
    reader.close()
    hidden = [entry.name for entry in where.iterdir() if entry.name.startswith("..2")]
    assert hidden == [os.readlink(where / "..data")]


def test_links_are_completed_after_a_crash(tmp_path: Path) -> None:
    """Killed between the swap and the links: the next write makes them."""
    payload = {"a": File(b"1")}
    atomic.write(tmp_path, payload)
    (tmp_path / "a").unlink()
    (tmp_path / "stale").symlink_to("..data/stale")
    assert atomic.write(tmp_path, payload) is False
    assert files(tmp_path) == {"a": "1"}
    assert not (tmp_path / "stale").is_symlink()


def test_claims_and_removal(volumes: PodVolumes, tmp_path: Path) -> None:
    where = volumes.prepare(
        context(
            {"name": "c", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "eph", "ephemeral": {}},
            {"name": "h", "hostPath": {"path": str(tmp_path)}},
            {"name": "e", "emptyDir": {}},
        )
    )
    assert where["c"] == tmp_path / "claims/data" and where["eph"] == tmp_path / "claims/p-eph"
    (where["c"] / "kept").write_text("x")
    closed = where["e"] / "closed"
    closed.mkdir()
    (closed / "file").write_text("x")
    closed.chmod(0o500)
    volumes.remove()
    assert not (tmp_path / "pod").exists() and (where["c"] / "kept").exists()
    volumes.remove()


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("", "none", None), ("Directory", "folder", None), ("File", "file", None),
        ("DirectoryOrCreate", "new/folder", None), ("FileOrCreate", "fresh", None),
        ("Directory", "file", "is not a directory"), ("File", "folder", "is not a file"),
        ("Socket", "none", "is not a socket file"), ("CharDevice", "file", "is not a character"),
        ("Odd", "file", "Odd is an invalid volume type"),
    ],
)  # fmt: skip
def test_host_path(tmp_path: Path, kind: str, name: str, message: str | None) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    source = {"path": str(tmp_path / name), "type": kind}
    if message:
        with pytest.raises(ConfigError, match=message):
            host_path(source)
        return
    path = host_path(source)
    assert path == tmp_path / name
    assert path.exists() == (name != "none")


def container(**mount: Any) -> dict[str, Any]:
    return {"volumeMounts": [{"name": "v", "mountPath": "/data", **mount}]}


def test_mounts(tmp_path: Path) -> None:
    volumes = {"v": tmp_path}
    (mount,) = mounts_of(container(readOnly=True), volumes, {})
    assert (mount.source, mount.target, mount.read_only) == (str(tmp_path), "/data", True)
    (mount,) = mounts_of(container(subPath="a/b"), volumes, {})
    assert mount.source == str(tmp_path / "a/b") and (tmp_path / "a/b").is_dir()
    (mount,) = mounts_of(container(subPathExpr="$(POD)"), volumes, {"POD": "p-0"})
    assert mount.source == str(tmp_path / "p-0")


def test_files_of_the_api_can_only_be_read(tmp_path: Path) -> None:
    volumes = [{"name": "v", "configMap": {"name": "c"}}, {"name": "w", "emptyDir": {}}]
    fixed = fixed_volumes({"spec": {"volumes": volumes}})
    assert fixed == {"v"}
    (mount,) = mounts_of(container(), {"v": tmp_path}, {}, fixed=fixed)
    assert mount.read_only


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: container(name="w"), 'cannot find volume "w" to mount'),
        (lambda: container(subPath="../x"), "must not contain"),
        (lambda: container(subPath="/x"), "must not be an absolute path"),
        (lambda: container(subPathExpr="$(NO)"), "failed to expand subPath"),
        (lambda: container(subPath="out"), "leads out of its volume"),
    ],
)
def test_mounts_refused(tmp_path: Path, make: Callable[[], dict[str, Any]], message: str) -> None:
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(ConfigError, match=message):
        mounts_of(make(), {"v": tmp_path}, {})
