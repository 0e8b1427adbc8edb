from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.layout import Layout
from corral.cluster.node.volumes import atomic
from corral.cluster.node.volumes.bounded import bounded_folder, memory_size
from corral.cluster.node.volumes.payloads import File
from corral.cluster.node.volumes.pod_volumes import PodVolumes, fixed_volumes, host_path, mounts_of
from corral.cluster.node.volumes.sources import ConfigError, PodContext


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


def test_files_can_lie_apart_from_what_is_in_memory(objects: Objects, tmp_path: Path) -> None:
    """For file systems in memory whose files a pod with ids of its own could not read."""
    objects.secrets["s"] = {"data": {"key": base64.b64encode(b"value").decode()}}
    disk, memory = tmp_path / "disk", tmp_path / "memory"
    volumes = PodVolumes(disk, sources=objects, token=str, claim=Path, memory=memory, files=disk)
    where = volumes.prepare(
        context(
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "m", "emptyDir": {"medium": "Memory"}},
        )
    )
    assert where == {"s": disk / "s", "m": memory / "m"}
    assert files(where["s"]) == {"key": "value"}
    volumes.remove()
    assert not disk.exists() and not memory.exists()


GIB = 1 << 30


@pytest.mark.parametrize(
    ("said", "limits", "first", "size"),
    [
        pytest.param("", [""], [], 4 * GIB, id="half of the machine"),
        pytest.param("0", ["", "1Gi"], [], 4 * GIB, id="one without a limit"),
        pytest.param("", ["1Gi", "2Gi"], [], 3 * GIB, id="what the pod may have"),
        pytest.param("", ["1Gi"], ["3Gi", "2Gi"], 3 * GIB, id="what its first container may have"),
        pytest.param("", ["1Gi"], [""], 4 * GIB, id="the first without a limit"),
        pytest.param("6Gi", [""], [], 6 * GIB, id="what it says"),
        pytest.param("6Gi", ["1Gi"], [], GIB, id="the pod may have less"),
        pytest.param("1Mi", ["1Gi"], [], 1 << 20, id="it says less"),
        pytest.param("100Gi", [""], [], 8 * GIB, id="more than there is"),
    ],
)
def test_size_of_an_empty_dir_in_memory(
    said: str, limits: list[str], first: list[str], size: int
) -> None:
    def made(limits: list[str]) -> list[dict[str, Any]]:
        return [{"resources": {"limits": {"memory": text} if text else {}}} for text in limits]

    pod = {"spec": {"containers": made(limits), "initContainers": made(first)}}
    volume = {"emptyDir": {"medium": "Memory", **({"sizeLimit": said} if said else {})}}
    assert memory_size(volume, pod, 8 * GIB) == size


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_a_volume_in_memory_has_room_of_its_own(objects: Objects, tmp_path: Path) -> None:
    memory = tmp_path / "memory"
    volumes = PodVolumes(
        tmp_path / "disk", sources=objects, token=str, claim=Path, memory=memory, bounds=True
    )
    wanted = [
        {"name": "m", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}},
        {"name": "old", "emptyDir": {"medium": "Memory"}},
    ]
    (memory / "old").mkdir(parents=True)
    (memory / "old/file").touch()  # in use since a time without bounds
    for _ in range(2):  # made once, and kept by the next agent
        where = volumes.prepare(context(*wanted))
        found = os.statvfs(where["m"])
        assert found.f_blocks * found.f_frsize == 1 << 20
        assert where["m"].stat().st_mode & 0o7777 == 0o777
        assert not os.path.ismount(where["old"]) and files(where["old"]) == {"file": ""}
        (where["m"] / "kept").touch()
    volumes.remove()
    assert not memory.exists() and str(tmp_path) not in Path("/proc/mounts").read_text()


def test_messages_do_not_lie_among_the_records(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    layout.make()
    layout.open()
    layout.make_messages("uid")
    place = layout.message("uid", "main", 1)
    assert place == tmp_path / "data/pods/uid/.messages/main.1" and place.parent.is_dir()
    layout.forget_pod("uid")
    assert layout.known() == set()
    layout.park()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_bounded_volumes_go_with_the_node(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "data")
    if not layout.has_memory:
        pytest.skip("no file system in memory here")
    layout.make()
    layout.open()
    volume = layout.memory("uid") / "a name"
    for _ in range(2):  # who comes again finds it as it is
        bounded_folder(volume, 1 << 20)
        volume.joinpath("file").touch()
    layout.park()
    assert not layout.memory_root.exists()
    assert str(layout.memory_root) not in Path("/proc/mounts").read_text()


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
