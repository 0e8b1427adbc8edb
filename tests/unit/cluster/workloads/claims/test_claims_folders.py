"""Folders of claims on disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.cluster.workloads.claims.folders import make_folder, remove_folder
from corral.cluster.workloads.claims.provisioner import FOLDER_VARIABLE, register
from corral.kube.client import KubeClient
from corral.kube.connection.config import ClusterConfig
from corral.runtime import Manager


def test_a_folder_is_open_to_all_and_made_once(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "pvc-1"
    make_folder(folder)
    (folder / "kept").write_text("x")
    make_folder(folder)
    assert (folder / "kept").read_text() == "x"
    assert folder.stat().st_mode & 0o777 == 0o777


def test_everything_in_it_is_removed(tmp_path: Path) -> None:
    folder = tmp_path / "pvc-1"
    make_folder(folder)
    inner = folder / "a" / "b"
    inner.mkdir(parents=True)
    (inner / "file").write_text("x")
    inner.chmod(0o000)
    (folder / "a").chmod(0o500)
    folder.chmod(0o500)
    remove_folder(folder)
    assert not folder.exists()
    remove_folder(folder)


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("x")
    outside.chmod(0o500)
    folder = tmp_path / "pvc-1"
    make_folder(folder)
    (folder / "link").symlink_to(outside)
    remove_folder(folder)
    assert (outside / "kept").read_text() == "x"
    assert outside.stat().st_mode & 0o777 == 0o500
    folder.symlink_to(outside)
    with pytest.raises(OSError, match="is a link"):
        remove_folder(folder)
    assert os.path.lexists(folder)
    outside.chmod(0o700)


async def test_the_provisioner_needs_a_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async with KubeClient(ClusterConfig(server="http://127.0.0.1:1")) as client:
        monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
        with pytest.raises(ValueError, match=f"or set {FOLDER_VARIABLE}"):
            register(Manager(client))
        with pytest.raises(ValueError, match="must be an absolute path"):
            register(Manager(client), Path("relative"))
        monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
        register(Manager(client))
