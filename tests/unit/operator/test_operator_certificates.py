"""Certificates that lie in a folder."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from corral.operator.tls import BadFolder, FolderCertificates
from corral.runtime.webhooks.certificates import CertificateSet, advance

START = datetime(2030, 1, 1, tzinfo=UTC)


def write(folder: Path, found: CertificateSet) -> None:
    (folder / "tls.crt").write_bytes(found.serving.cert)
    (folder / "tls.key").write_bytes(found.serving.key)
    (folder / "ca.crt").write_bytes(found.authority.cert)


def issued(now: datetime = START) -> CertificateSet:
    return advance(None, ["a.test"], now)


async def test_what_lies_there_is_used(tmp_path: Path) -> None:
    kept = FolderCertificates(tmp_path, now=lambda: START)
    assert kept.problem() == "there is no serving certificate yet"
    found = issued()
    write(tmp_path, found)
    heard: list[str] = []
    kept.on_change(lambda: heard.append("changed"))
    await kept.refresh()
    await kept.refresh()
    assert heard == ["changed"]
    assert kept.bundle == found.authority.cert
    assert kept.problem() == ""


async def test_what_is_renewed_is_read_again(tmp_path: Path) -> None:
    now = START
    kept = FolderCertificates(tmp_path, now=lambda: now)
    write(tmp_path, issued())
    await kept.refresh()
    now = START + timedelta(days=100)
    assert kept.problem().startswith("the serving certificate ended at 2030-")
    write(tmp_path, issued(now))
    await kept.refresh()
    assert kept.problem() == ""


async def test_without_an_authority_nothing_is_injected(tmp_path: Path) -> None:
    write(tmp_path, issued())
    (tmp_path / "ca.crt").unlink()
    kept = FolderCertificates(tmp_path, now=lambda: START)
    await kept.refresh()
    assert kept.bundle == b""


async def test_half_of_a_renewal_is_not_used(tmp_path: Path) -> None:
    kept = FolderCertificates(tmp_path, now=lambda: START)
    first, second = issued(), issued()
    write(tmp_path, first)
    await kept.refresh()
    (tmp_path / "tls.crt").write_bytes(second.serving.cert)
    with pytest.raises(BadFolder, match="no usable certificate in"):
        await kept.refresh()
    assert kept.bundle == first.authority.cert
    write(tmp_path, second)
    await kept.refresh()
    assert kept.bundle == second.authority.cert


async def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(BadFolder, match=r"No such file or directory.*tls\.crt"):
        await FolderCertificates(tmp_path).refresh()


async def test_a_renewal_that_fails_does_not_end_the_care(tmp_path: Path) -> None:
    naps = 0

    class Enough(Exception):
        pass

    async def sleep(_: float) -> None:
        nonlocal naps
        naps += 1
        if naps == 2:
            write(tmp_path, issued())
        if naps == 3:
            raise Enough

    kept = FolderCertificates(tmp_path, now=lambda: START, sleep=sleep)
    with pytest.raises(Enough):
        await kept.run()
    assert kept.problem() == ""
