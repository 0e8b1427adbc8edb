"""The OpenSSH server that cases start as root, with settings and keys of their own."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.support.components import CACHE, skip

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find_sshd(*programs: str) -> tuple[str, dict[str, str]]:
    """The program, and variables to run it with.

    The case is skipped where there is none, for others than root, and without the programs.
    """
    if os.geteuid() != 0:
        pytest.skip("an sshd of one's own needs root")
    if absent := [name for name in programs if not shutil.which(name)]:
        pytest.skip(f"this machine has no {', '.join(absent)}")
    unpacked = CACHE / "mpi" / "sshd"
    if (unpacked / "usr" / "sbin" / "sshd").exists():
        folders = [str(path) for path in unpacked.glob("**/*-linux-gnu") if path.is_dir()]
        return str(unpacked / "usr/sbin/sshd"), {"LD_LIBRARY_PATH": ":".join(folders)}
    found = shutil.which("sshd", path=_SYSTEM)
    return (found, {}) if found else skip("sshd")
