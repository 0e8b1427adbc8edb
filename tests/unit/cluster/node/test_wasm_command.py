"""What a wasm pod's container becomes, and what is refused; no module is run here."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.node.container.images import ImageMap
from corral.cluster.node.container.processes import ContainerSpec, Mount
from corral.cluster.node.volumes.sources import ConfigError
from corral.cluster.node.wasm import (
    exit_reason,
    is_module,
    is_wasm,
    runtime_class,
    wasm_command,
)
from corral.cluster.node.wasm.cache import CompileCache
from corral.cluster.node.wasm.command import Launch
from corral.cluster.node.wasm.plan import Folder, Plan, from_environment, to_environment

Obj = dict[str, Any]
MODELS = Mount(source="/srv/models", target="/models", read_only=True)
DATA = Mount(source="/srv/data", target="/data")


def pod(**annotations: str) -> Obj:
    found = {f"wasm.corral.dev/{key.replace('_', '-')}": text for key, text in annotations.items()}
    return {"metadata": {"name": "p", "annotations": found}, "spec": {"runtimeClassName": "wasm"}}


def made(*argv: str, container: Obj | None = None, of: Obj | None = None, **more: Any) -> Launch:
    arguments: dict[str, Any] = {
        "mounts": [MODELS, DATA], "env": {}, "is_folder": lambda path: True, "installed": True,
        "machine": {}, "python": "/py",
    }  # fmt: skip
    return wasm_command(
        {"name": "main", **(container or {})}, of or pod(), argv, **(arguments | more)
    )


def test_which_pods() -> None:
    assert is_wasm(pod()) and not is_wasm({"spec": {}}) and not is_wasm({})


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"image": "registry.example.com/wasm/hello:v1"}, True),
        ({"image": "registry.example.com/wasm/hello:v1", "args": ["--fast"]}, True),
        ({"image": "busybox", "command": ["/models/a.wasm"]}, True),
        ({"image": "busybox", "args": ["/models/a.wasm", "x"]}, True),
        ({"image": "corral/courier", "args": ["deliver"]}, False),
        ({"image": "busybox", "command": ["sh", "-c", "cat a.wasm"]}, False),
        ({}, True),
    ],
)
def test_which_containers(container: Obj, expected: bool) -> None:
    assert is_module(container, pod(), mapped=ImageMap().knows) is expected
    assert not is_module(container, {"spec": {}}, mapped=ImageMap().knows)


def test_the_class() -> None:
    found = runtime_class({"a": "b"})
    assert (found["kind"], found["metadata"]["name"], found["handler"]) == (
        "RuntimeClass", "wasm", "wasm",
    )  # fmt: skip
    assert found["scheduling"] == {"nodeSelector": {"a": "b"}}
    assert "scheduling" not in runtime_class()


def test_a_module_in_a_volume() -> None:
    launch = made("/models/sub/app.wasm", "--fast", env={"A": "1"}, message="/m", cache="/c")
    assert launch.plan == Plan(
        module="/srv/models/sub/app.wasm",
        within="/srv/models",
        argv=["/models/sub/app.wasm", "--fast"],
        env={"A": "1"},
        folders=[
            Folder(source="/srv/models", target="/models", read_only=True),
            Folder(source="/srv/data", target="/data"),
        ],
        message="/m",
        cache="/c",
    )
    assert launch.argv[:3] == ["/py", "-I", "-B"]
    # nothing of the module's is on the command line or a variable of the runner
    assert "A" not in launch.env and "--fast" not in launch.argv
    assert from_environment(launch.env) == launch.plan


@pytest.mark.parametrize("mounted", [True, False])
@pytest.mark.parametrize(
    ("source", "read_only", "used"),
    [
        ("/cache", False, False),
        ("/", False, False),
        ("/cache", True, True),
        ("/other", False, True),
    ],
)
def test_no_cache_that_a_volume_can_change(
    mounted: bool, source: str, read_only: bool, used: bool
) -> None:
    """Others run what lies there."""
    volumes = [
        Mount(source="/volume", target="/app", read_only=True),
        Mount(source=source, target="/data", read_only=read_only),
    ]
    launch = made("/app/m.wasm", mounts=volumes, cache="/cache", mounted=mounted)
    assert bool(launch.plan.cache) == used


def test_the_spec_is_changed() -> None:
    spec = ContainerSpec(
        id="x", argv=["old"], env={"PATH": "/bin"}, cwd="/w", mounts=[DATA], stdin=True, uid=7
    )
    changed = made("/models/a.wasm").apply(spec)
    assert changed.cwd == "/" and changed.mounts == () and "PATH" not in changed.env
    assert (changed.id, changed.stdin, changed.uid) == ("x", True, 7)


@pytest.mark.parametrize(
    ("argv", "more", "module"),
    [
        (["/models/../data/a.wasm"], {}, "/srv/data/a.wasm"),
        (["a.wasm"], {"container": {"workingDir": "/models"}}, "/srv/models/a.wasm"),
        (["/opt/a.wasm"], {"allowed": ["/opt"]}, "/opt/a.wasm"),
        (["/opt/a.wasm"], {"allowed": ["/opt/a.wasm"]}, "/opt/a.wasm"),
        (
            ["/models/in/a.wasm"],
            {"mounts": [MODELS, Mount(source="/srv/in", target="/models/in")]},
            "/srv/in/a.wasm",
        ),
        (
            ["/one/a.wasm"],
            {"mounts": [Mount(source="/srv/all", target="/")]},
            "/srv/all/one/a.wasm",
        ),
    ],
)
def test_where_modules_are(argv: list[str], more: Obj, module: str) -> None:
    assert made(*argv, **more).plan.module == module


@pytest.mark.parametrize(
    ("argv", "more", "words"),
    [
        ([], {}, "names no module"),
        (["/models/a.py"], {}, "is no module"),
        (["a.wasm"], {}, "no absolute path"),
        (["/etc/a.wasm"], {}, "in no volume of the container"),
        (["/models/../etc/a.wasm"], {}, "in no volume of the container"),
        (["/modelsx/a.wasm"], {}, "in no volume of the container"),
        (["/optx/a.wasm"], {"allowed": ["/opt"]}, "in no volume of the container"),
        (["/models/a.wasm"], {"is_folder": lambda path: False}, "is a single file"),
        (["/models/a.wasm"], {"installed": False}, "wasmtime is not installed"),
        (["/models/a.wasm"], {"of": pod(fuel="many")}, "no positive whole number"),
        (["/models/a.wasm"], {"of": pod(fuel="0")}, "no positive whole number"),
        (["/models/a.wasm"], {"of": pod(fuel="²")}, "no positive whole number"),
        (["/models/a.wasm"], {"of": pod(timeout_seconds="-1")}, "no positive number of seconds"),
        (["/models/a.wasm"], {"of": pod(timeout_seconds="nan")}, "no positive number of seconds"),
    ],
)
def test_what_is_no_module(argv: list[str], more: Obj, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made(*argv, **more)


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"resources": {"limits": {"nvidia.com/gpu": "1"}}}, "devices"),
        ({"securityContext": {"privileged": True}}, "privileged"),
        ({"volumeDevices": [{"name": "d"}]}, "block devices"),
        ({"livenessProbe": {"httpGet": {"port": 80}}}, "a livenessProbe of kind httpGet"),
        ({"readinessProbe": {"exec": {"command": ["x"]}}}, "a readinessProbe of kind exec"),
        ({"lifecycle": {"preStop": {"exec": {"command": ["x"]}}}}, "a preStop hook of kind exec"),
        ({"resources": {"limits": {"memory": "1Ki"}}}, "less than one page"),
    ],
)
def test_what_modules_cannot_have(container: Obj, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        made("/models/a.wasm", container=container)


def test_what_modules_can_have() -> None:
    limits = {"memory": "64Mi", "cpu": "1"}
    container = {
        "resources": {"limits": limits},
        "lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "stopSignal": "SIGTERM"},
        "ports": [{"containerPort": 80}],
    }
    found = made("/models/a.wasm", container=container, of=pod(fuel="5", timeout_seconds="1.5"))
    assert (found.plan.memory, found.plan.fuel, found.plan.seconds) == (64 << 20, 5, 1.5)


def test_long_plans() -> None:
    plan = Plan(
        module="/m", argv=["m"], env={"A": "ü" * 200_000}, folders=[Folder(source="a", target="b")]
    )
    pieces = to_environment(plan)
    assert len(pieces) > 10 and max(map(len, pieces.values())) < 128 << 10
    assert from_environment(pieces | {"other": "x"}) == plan
    with pytest.raises(ValueError, match="no plan"):
        from_environment({})


def test_reasons() -> None:
    assert [exit_reason(code) for code in (0, 1, 125)] == ["", "", ""]
    assert exit_reason(137) == "OOMKilled" and exit_reason(152) == "WasmOutOfFuel"


# --- the cache -----------------------------------------------------------------------------------


def test_what_is_kept(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "cache")
    key = cache.key(b"module", "settings")
    assert key != cache.key(b"module", "other") != cache.key(b"other", "other")
    assert cache.load(key) is None
    cache.store(key, b"compiled")
    assert CompileCache(tmp_path / "cache").load(key) == b"compiled"


def test_a_file_that_is_not_whole(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "cache")
    cache.store("k", b"compiled")
    file = tmp_path / "cache" / "k"
    file.write_bytes(file.read_bytes()[:-1])
    assert cache.load("k") is None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_a_file_that_others_could_write(tmp_path: Path, mode: int) -> None:
    cache = CompileCache(tmp_path / "cache")
    cache.store("k", b"compiled")
    (tmp_path / "cache" / "k").chmod(mode)
    assert cache.load("k") is None


def test_a_link(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "cache")
    cache.store("k", b"compiled")
    (tmp_path / "cache" / "link").symlink_to("k")
    assert cache.load("link") is None


def test_a_folder_that_others_could_write(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    CompileCache(folder).store("k", b"compiled")
    folder.chmod(0o777)
    cache = CompileCache(folder)
    assert not cache.usable and cache.load("k") is None
    cache.store("other", b"compiled")
    assert os.listdir(folder) == ["k"]


def test_a_folder_that_others_could_replace(tmp_path: Path) -> None:
    middle = tmp_path / "middle"
    middle.mkdir()
    assert CompileCache(middle / "cache").usable
    middle.chmod(0o777)
    assert not CompileCache(middle / "cache").usable
    middle.chmod(0o1777)
    assert CompileCache(middle / "cache").usable


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_somebody_else(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "cache")
    cache.store("k", b"compiled")
    os.chown(tmp_path / "cache" / "k", 12345, 12345)
    assert cache.load("k") is None


def test_a_cache_that_modules_could_write(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    assert not CompileCache(folder, reachable=[str(tmp_path)]).usable
    assert not CompileCache(folder, reachable=[str(folder / "below")]).usable
    assert CompileCache(folder, reachable=[str(tmp_path / "other")]).usable


def test_the_cache_is_bounded(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path / "cache")
    for number in range(70):
        cache.store(f"k{number}", b"x")
        os.utime(tmp_path / "cache" / f"k{number}", (number, number))
    assert len(os.listdir(tmp_path / "cache")) <= 65 and cache.load("k69") == b"x"
    assert cache.load("k0") is None


@pytest.mark.parametrize("text", ["", "5", "[1.5]", '["1"]', "[true]", "[18446744073709551616]"])
def test_inputs_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match="no list of whole numbers"):
        made("/models/a.wasm", of=pod(inputs=text))


def test_inputs_of_a_function() -> None:
    plan = made("/models/a.wasm", of=pod(inputs="[1, -2]", function="add")).plan
    assert (plan.inputs, plan.function) == ([1, -2], "add")
    assert from_environment(to_environment(plan)) == plan
    assert made("/models/a.wasm").plan.inputs is None


def test_what_the_runner_cannot_reach_is_mounted_for_it() -> None:
    """It may run as somebody who cannot pass through the agent's folders."""
    sub = Mount(source="/srv/data/x", target="/data", within="/srv/data")
    launch = made("/models/a.wasm", mounts=[MODELS, sub], message="/agent/message", mounted=True)
    place = "/mnt/corral-wasm"
    assert list(launch.mounts) == [
        Mount(source="/srv/models", target=f"{place}/0", read_only=True),
        Mount(source="/srv/data/x", target=f"{place}/1", within="/srv/data"),
        Mount(source="/agent/message", target=f"{place}/message"),
    ]
    plan = launch.plan
    assert (plan.module, plan.within) == (f"{place}/0/a.wasm", f"{place}/0")
    assert plan.message == f"{place}/message"
    assert plan.folders == [
        Folder(source=f"{place}/0", target="/models", read_only=True),
        Folder(source=f"{place}/1", target="/data"),
    ]
    pulled = made("a", mounts=[], module="/agent/images/1.wasm", mounted=True)
    (mount,) = pulled.mounts
    assert mount == Mount(
        source="/agent/images/1.wasm", target=f"{place}/module.wasm", read_only=True
    )
    assert pulled.plan.module == mount.target
