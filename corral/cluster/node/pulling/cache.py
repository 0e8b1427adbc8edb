"""What was pulled: modules by digest, and which reference had which module.

Files are written aside and moved, so each is whole or not there; one that is not what its name
says is removed when it is looked at. The least used go when there is too much.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from corral.files.private import private_folder

__all__ = ["ModuleCache", "Pulled"]

_YOUNG: Final = 600.0
"""Seconds after its last use in which a module is not removed: it may just be starting."""
_MOST_REFERENCES: Final = 4096


@dataclass(frozen=True, slots=True)
class Pulled:
    """A module that a reference stood for when it was last pulled."""

    reference: str
    """With the digest of the manifest."""
    module: str
    """Digest of the module itself, as hexadecimal digits."""
    size: int
    name: str
    """Of its file."""
    accesses: tuple[str, ...] = ()
    """As whom it was had, the last ones; an empty name: anybody may have it."""
    entrypoint: tuple[str, ...] = ()
    cmd: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=())


class ModuleCache:
    """One folder. Methods block."""

    def __init__(self, folder: Path, *, most: int) -> None:
        """``most``: bytes of all modules together."""
        self._folder = folder
        self._most = most

    def make(self) -> None:
        """Raises OSError."""
        for folder in (self._folder, self._modules, self._references):
            private_folder(folder)
        for leftover in self._modules.glob(".*.part"):
            leftover.unlink(missing_ok=True)

    @property
    def _modules(self) -> Path:
        return self._folder / "modules"

    @property
    def _references(self) -> Path:
        return self._folder / "references"

    def path(self, module: str) -> Path:
        """Where a module is."""
        return self._modules / f"{module}.wasm"

    def aside(self) -> Path:
        """A place to write to first."""
        return self._modules / f".{secrets.token_hex(8)}.part"

    def find(self, reference: str) -> Pulled | None:
        """What a reference stood for, if its module is here and what it should be."""
        try:
            content: Any = json.loads(self._note(reference).read_bytes())
            found = Pulled(
                **{
                    **content,
                    "accesses": tuple(content["accesses"]),
                    "entrypoint": tuple(content["entrypoint"]),
                    "cmd": tuple(content["cmd"]),
                    "env": tuple((name, value) for name, value in content["env"]),
                }
            )
        except (OSError, ValueError, TypeError, KeyError):
            return None
        return found if self.use(found.module) else None

    def use(self, module: str) -> bool:
        """Whether a module is here, whole; that is a use of it."""
        path = self.path(module)
        try:
            with path.open("rb", buffering=0) as file:
                good = hashlib.file_digest(file, "sha256").hexdigest() == module
            if good:
                os.utime(path)
                return True
            path.unlink()
        except FileNotFoundError:
            return False
        return False

    def keep(self, written: Path) -> tuple[str, int]:
        """Take a file that was written aside; gives digest and size. Raises OSError."""
        with written.open("rb", buffering=0) as file:
            module = hashlib.file_digest(file, "sha256").hexdigest()
            size = file.tell()
            os.fchmod(file.fileno(), 0o644)
            os.fsync(file.fileno())
        os.replace(written, self.path(module))
        return module, size

    def remember(self, reference: str, pulled: Pulled) -> None:
        """Note what a reference stands for now. Raises OSError."""
        new = self._references / f".{secrets.token_hex(8)}.part"
        new.write_text(json.dumps(asdict(pulled)))
        os.replace(new, self._note(reference))
        self._prune()

    def _note(self, reference: str) -> Path:
        return self._references / f"{hashlib.sha256(reference.encode()).hexdigest()}.json"

    def _prune(self) -> None:
        """Remove the least used, and the oldest notes."""
        files = sorted(_stated(self._modules, ".wasm"), key=lambda one: one[1].st_mtime)
        total = sum(info.st_size for _, info in files)
        old = time.time() - _YOUNG
        for path, info in files:
            if total <= self._most or info.st_mtime > old:
                break
            path.unlink(missing_ok=True)
            total -= info.st_size
        notes = sorted(_stated(self._references, ".json"), key=lambda one: one[1].st_mtime)
        for path, _ in notes[: max(len(notes) - _MOST_REFERENCES, 0)]:
            path.unlink(missing_ok=True)


def _stated(folder: Path, ending: str) -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in folder.iterdir():
        if path.suffix == ending and not path.name.startswith("."):
            with suppress(FileNotFoundError):
                found.append((path, path.stat()))
    return found
