"""Archives hold what programs need and nothing else; shells unpack them."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

import pytest

from corral.sdk.errors import CannotShip
from corral.sdk.programs.archive import IGNORE_FILE, pack, pack_files
from corral.sdk.programs.shipping import INLINE_ONLY, WORKDIR, Shipped, inline


def names(archive: bytes) -> list[str]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return tar.getnames()


def filled(folder: Path) -> Path:
    for name in ("train.py", "lib/a.py", "lib/__pycache__/a.pyc", ".git/config", "data/big.bin",
                 "data/keep.txt", "notes.tmp", "run.sh"):  # fmt: skip
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (folder / "run.sh").chmod(0o755)
    (folder / IGNORE_FILE).write_text("# not needed\n*.tmp\ndata/big.bin\n")
    return folder


def test_a_folder_without_what_is_not_needed(tmp_path: Path) -> None:
    archive = pack(filled(tmp_path))
    assert sorted(names(archive)) == ["data/keep.txt", "lib/a.py", "run.sh", "train.py"]
    assert archive == pack(tmp_path)
    os.utime(tmp_path / "train.py", (1, 1))
    assert archive == pack(tmp_path)
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getmember("run.sh").mode == 0o755
        assert tar.getmember("train.py").mode & 0o111 == 0


def test_links_inside_are_kept_and_links_outside_refused(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("1")
    (tmp_path / "code" / "b.py").symlink_to("a.py")
    with tarfile.open(fileobj=io.BytesIO(pack(tmp_path / "code"))) as tar:
        assert tar.getmember("b.py").linkname == "a.py"
    (tmp_path / "secret").write_text("x")
    (tmp_path / "code" / "c").symlink_to("../secret")
    with pytest.raises(CannotShip, match="is a link to"):
        pack(tmp_path / "code")


def test_what_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotShip, match="no file or folder"):
        pack(tmp_path / "nothing")


def test_the_command_unpacks_and_runs_in_the_folder(tmp_path: Path) -> None:
    archive = pack_files({"pkg/hello.txt": b"hello", "empty": b""})
    shipped = inline(archive)
    variables = {entry["name"]: entry["value"] for entry in shipped.env}
    assert variables["CORRAL_WORKDIR"] == WORKDIR
    command = shipped.command(
        ["sh", "-c", 'cat pkg/hello.txt; echo "$1" "${CORRAL_CODE-gone}"', "_", "a b"]
    )
    env = {**os.environ, **variables, "CORRAL_WORKDIR": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "helloa b gone\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "pkg"]


def test_a_command_does_not_start_without_its_code(tmp_path: Path) -> None:
    shipped = inline(pack_files({"a": b""}))
    env = {**os.environ, "CORRAL_WORKDIR": str(tmp_path), "CORRAL_CODE": "bm8gYXJjaGl2ZQ=="}
    done = subprocess.run(
        shipped.command(["echo", "started"]), env=env, capture_output=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert b"started" not in done.stdout


def test_too_much_for_one_variable_is_refused() -> None:
    noise = pack_files({"noise": os.urandom(INLINE_ONLY + 1)})
    with pytest.raises(CannotShip, match=r"more than the 90 KiB"):
        inline(noise)
    assert len(inline(pack_files({"zeros": b"0" * (1 << 20)})).env[-1]["value"]) < 10_000


def test_a_template_keeps_what_it_has() -> None:
    shipped = Shipped(
        "inline",
        volumes=({"name": "corral-work", "emptyDir": {}},),
        mounts=({"name": "corral-work", "mountPath": WORKDIR},),
        env=({"name": "CORRAL_WORKDIR", "value": WORKDIR},),
    )
    before = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {
            "volumes": [{"name": "data", "emptyDir": {}}],
            "containers": [{"name": "mine", "env": [{"name": "A", "value": "1"}]}, {"name": "b"}],
        },
    }
    after = shipped.into(before)
    assert before["spec"]["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert [volume["name"] for volume in after["spec"]["volumes"]] == ["data", "corral-work"]
    first, second = after["spec"]["containers"]
    assert [entry["name"] for entry in first["env"]] == ["A", "CORRAL_WORKDIR"]
    assert first["workingDir"] == WORKDIR
    assert second == {"name": "b"}
    assert shipped.into({})["spec"]["containers"][0]["name"] == "trainer"
