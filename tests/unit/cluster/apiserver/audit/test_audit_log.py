"""The audit log's file: its mode, its rotation, and a disk that is full."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from corral.cluster.apiserver.audit.log import AuditLog, LogSettings


def test_lines_are_appended_to_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "audit.log"
    for line in (b"one\n", b"two\n"):
        log = AuditLog(LogSettings(path))
        log.write(line)
        log.close()
    assert path.read_bytes() == b"one\ntwo\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_large_enough_is_put_aside(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    now = 0.0
    log = AuditLog(LogSettings(path, max_size=1, max_backups=2), clock=lambda: now)
    for number in range(5):
        now = number * 1000.0
        log.write(str(number).encode() * 700_000)
    log.close()
    old = sorted(tmp_path.glob("audit-*.log"))
    assert [file.read_bytes()[:1] for file in old] == [b"2", b"3"]
    assert path.read_bytes()[:1] == b"4"


def test_old_files_go_by_age(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    old = tmp_path / "audit-1970-01-01T00-00-00.000.log"
    old.write_bytes(b"x")
    os.utime(old, (0, 0))
    log = AuditLog(LogSettings(path, max_size=1, max_backups=0, max_age=1), clock=lambda: 1e6)
    log.write(b"a" * 900_000)
    log.write(b"b" * 900_000)
    log.close()
    assert not old.exists()
    assert len(list(tmp_path.glob("audit-*.log"))) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_fails_no_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = AuditLog(LogSettings(Path("/dev/full")))
    log.write(b"one\n")
    log.write(b"two\n")
    assert log.lost == 2
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "cannot be written" in caplog.text
