"""Disks of a test's own that fill up or become read-only: small file systems, mounted.

A file system that an error made read-only stays so until it is mounted again. One that comes back
by itself is played by a small library before libc (``readonly.c``): see `ReadOnly`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["Disk", "ReadOnly", "failing_disk", "small_disk"]


class Disk:
    """One file system."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leave no room at all."""
        with open(self._ballast, "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    continue

    def free(self) -> None:
        """There is room again."""
        self._ballast.unlink(missing_ok=True)


class ReadOnly:
    """Whether the processes that get `environment` can change anything on a disk: EROFS if not.

    Through files that are open already too, as when the kernel makes a disk read-only.
    """

    def __init__(self, folder: Path, disk: Path) -> None:
        """``folder`` is on another disk. Skips the case where no library can be built."""
        compiler = shutil.which("cc")
        if compiler is None:
            pytest.skip("a disk that becomes writable again needs a C compiler (cc)")
        self._library, self._file = folder / "readonly.so", folder / "readonly"
        self._disk = disk
        source = Path(__file__).with_name("readonly.c")
        subprocess.run(
            [compiler, "-shared", "-fPIC", "-O1", "-o", self._library, source, "-ldl"], check=True
        )
        self._file.write_bytes(bytes(8))

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self._library), "CORRAL_READ_ONLY_FILE": str(self._file)}

    def set(self, on: bool) -> None:
        """From now on."""
        device = self._disk.stat().st_dev if on else 0
        with open(self._file, "r+b") as file:
            file.write(device.to_bytes(8, "little"))


@contextmanager
def small_disk(path: Path, *, mib: int = 64) -> Iterator[Disk]:
    """A file system of this size at a path; skips the case where nothing can be mounted."""
    path.mkdir(parents=True, exist_ok=True)
    _mount("-t", "tmpfs", "-o", f"size={mib}m,mode=0755", "tmpfs", str(path))
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def failing_disk(path: Path, image: Path, *, mib: int = 64) -> Iterator[Path]:
    """An ext4 file system; writing to the file that is given makes it read-only, as errors do."""
    if shutil.which("mkfs.ext4") is None:
        pytest.skip("a disk that fails needs mkfs.ext4")
    path.mkdir(parents=True, exist_ok=True)
    with open(image, "wb") as file:
        file.truncate(mib << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    _mount("-o", "loop,errors=remount-ro", str(image), str(path))
    try:
        found = subprocess.run(
            ["findmnt", "-no", "SOURCE", str(path)], check=True, capture_output=True, text=True
        )
        trigger = Path("/sys/fs/ext4") / Path(found.stdout.strip()).name / "trigger_fs_error"
        if not os.access(trigger, os.W_OK):
            pytest.skip("this kernel has no way to make a file system fail")
        yield trigger
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def _mount(*words: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount a disk of its own")
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
