"""What a machine does not give is named, and refused where it is demanded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral.podtools.confine import Kept, Limits, run
from corral.podtools.confine.plain import PREFIX, sweep
from corral.podtools.confine.results import Unreadable, take_results

HERE = Path(__file__).parent
DRIVER = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tests.security.model_code_driver import restrict
restrict(sys.argv[2])
from pathlib import Path
from corral.podtools.confine import ConfineError, run
try:
    ended = run("hostile:attempt", ["environment"], readable=[Path(sys.argv[1])],
                demanded=json.loads(sys.argv[3]))
    print(json.dumps({"code": ended.code, "missing": ended.missing}))
except ConfineError as err:
    print(json.dumps({"error": str(err)}))
"""


def started(mode: str, demanded: list[str]) -> dict[str, object]:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    words = [sys.executable, "-c", DRIVER, str(HERE), mode, json.dumps(demanded)]
    found: dict[str, object] = json.loads(subprocess.check_output(words, env=env))
    return found


def test_what_is_missing_is_named() -> None:
    found = started("plain", [])
    assert found["code"] == 1
    missing = found["missing"]
    assert isinstance(missing, list)
    assert {"namespaces", "user", "scratch"} <= set(missing)


def test_what_is_demanded_and_missing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = started("plain", ["namespaces", "scratch"])
    assert "does not give what is demanded: namespaces, scratch" in str(found["error"])
    assert not list(tmp_path.iterdir())


def test_results_come_with_the_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    out = tmp_path / "out"
    out.mkdir()
    with Kept("answering:serve", ["yes"], readable=[HERE], writable=[out]) as kept:
        for number in range(2):
            (out / "made").unlink(missing_ok=True)
            kept.ask(f"write {out}/made".encode(), seconds=30, most=1000)
            assert (out / "made").read_text() == "made", number


def test_results_that_lead_elsewhere_are_not_taken(tmp_path: Path) -> None:
    left, target, secret = tmp_path / "left", tmp_path / "target", tmp_path / "secret"
    left.mkdir()
    target.mkdir()
    secret.write_text("s3cret")
    (left / "below").mkdir()
    (left / "below" / "file").write_text("kept")
    # where it is written to, a link must not be followed either
    (target / "file").symlink_to(secret)
    (left / "file").write_text("new")
    os.mkfifo(left / "fifo")
    fd = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
    try:
        take_results([fd], [target], most=1 << 20)
        (left / "link").symlink_to(secret)
        with pytest.raises(Unreadable, match="'link'"):
            take_results([fd], [target], most=1 << 20)
    finally:
        os.close(fd)
    assert secret.read_text() == "s3cret"
    assert (target / "file").read_text() == "new" and not (target / "file").is_symlink()
    assert (target / "below" / "file").read_text() == "kept"
    assert not (target / "fifo").exists()


def test_homes_that_were_left_are_swept(tmp_path: Path) -> None:
    left, new, other = (tmp_path / f"{PREFIX}{name}" for name in ("left", "new", "used"))
    for path in (left, new, other):
        path.mkdir()
        (path / "file").write_text("x")
    (tmp_path / f"{PREFIX}link").symlink_to("/")
    old = time.time() - 3600
    os.utime(left, (old, old))
    os.utime(other, (old, old))
    held = os.open(other, os.O_RDONLY)
    try:
        import fcntl

        fcntl.flock(held, fcntl.LOCK_SH)
        sweep(str(tmp_path))
    finally:
        os.close(held)
    assert not left.exists()
    assert new.exists() and other.exists()


def test_code_does_not_speak_for_the_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(HERE))
    for code in (113, 114, 118):
        ended = run("hostile:leave", [str(code)], readable=[HERE], limits=Limits(seconds=20))
        assert ended.code == 1
