"""Numbers that the agents of a machine share out among themselves.

A number is a file: it says whose it is and is locked as long as its owner lives. It stays its
owner's while the owner's folder remembers it, so that an agent that was killed finds its pods'
addresses again; a folder that was removed gives its numbers back by that alone.

Claims are made under a lock on the whole folder; folders that are empty are removed with the last
number.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from corral.cluster.node.network.errors import NetworkError, NoAddress
from corral.files.private import NotPrivate, private_folder

COUNT: Final = 256


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder below the machine's for oneself; it is removed again if it is left empty.

    Raises NetworkError.
    """
    path = folder / "lock"
    while True:
        try:
            private_folder(folder.parent)
            private_folder(folder)
            fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            continue  # the folder was removed in between
        except NotPrivate as err:
            raise NetworkError(str(err)) from err
        except OSError as err:
            raise NetworkError(f"{folder} cannot be used: {err.strerror}") from err
        fcntl.flock(fd, fcntl.LOCK_EX)
        if _is_current(path, fd):
            break
        os.close(fd)
    try:
        yield
    finally:
        if os.listdir(folder) == ["lock"]:
            path.unlink()
            _remove_empty(folder)
        os.close(fd)


def _remove_empty(folder: Path) -> None:
    """The folder, and the machine's above it if nothing else is in there."""
    with suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def _is_current(path: Path, fd: int) -> bool:
    try:
        return os.fstat(fd).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


@dataclass(slots=True)
class Slot:
    """A number that is ours while ``fd`` is open."""

    number: int
    fd: int


class Slots:
    """The numbers below COUNT for those who share ``folder``."""

    def __init__(
        self,
        folder: Path,
        owner: Path,
        *,
        order: Callable[[Sequence[int]], Iterable[int]] = lambda numbers: numbers,
    ) -> None:
        """``owner`` is the file in which this agent remembers its numbers.

        ``order`` gets the numbers that nobody here has, and says which are to be tried first.
        """
        self._folder = folder
        self._owner = owner
        self._order = order
        self._held: list[Slot] = []

    @property
    def numbers(self) -> list[int]:
        return [slot.number for slot in self._held]

    def recall(self) -> list[int]:
        """Take again what the owner's file remembers, as far as nobody else has it now."""
        with locked(self._folder):
            for number in _remembered(self._owner):
                self._take(number)
            self._remember()
        return self.numbers

    def claim(self) -> int:
        """One more number. Raises NoAddress."""
        with locked(self._folder):
            free = [number for number in range(COUNT) if self._is_free(number)]
            for number in self._order(free):
                if self._take(number):
                    self._remember()
                    return number
        raise NoAddress(f"all {COUNT} blocks of pod addresses of this machine are taken")

    def release(self, *, forget: bool) -> None:
        """Let go of all; with ``forget`` for ever."""
        if not forget:
            for slot in self._held:
                os.close(slot.fd)
            self._held.clear()
            return
        with locked(self._folder):
            self._owner.unlink(missing_ok=True)
            for slot in self._held:
                self._path(slot.number).unlink(missing_ok=True)
                os.close(slot.fd)
            self._held.clear()

    # -- under the lock --------------------------------------------------------------------------

    def _path(self, number: int) -> Path:
        return self._folder / str(number)

    def _is_free(self, number: int) -> bool:
        try:
            owner = Path(self._path(number).read_text())
        except FileNotFoundError:
            return True
        if owner == self._owner:
            return number not in self.numbers
        return number not in _remembered(owner)

    def _take(self, number: int) -> bool:
        fd = os.open(self._path(number), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return False
        os.ftruncate(fd, 0)
        os.write(fd, str(self._owner).encode())
        self._held.append(Slot(number, fd))
        return True

    def _remember(self) -> None:
        self._owner.parent.mkdir(parents=True, exist_ok=True)
        new = self._owner.with_suffix(".new")
        new.write_text(json.dumps(self.numbers))
        new.rename(self._owner)


def _remembered(owner: Path) -> list[int]:
    try:
        return [int(number) for number in json.loads(owner.read_text())]
    except (OSError, ValueError, TypeError):
        return []
