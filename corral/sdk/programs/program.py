"""What to run: a function, a script or a folder, as a command line and the code that it needs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from corral.sdk.errors import CannotShip
from corral.sdk.programs.archive import pack, pack_files
from corral.sdk.programs.functions import program_of

__all__ = ["Arguments", "Code", "Target", "code_of"]

Target = Callable[..., Any] | str | os.PathLike[str]
Arguments = Mapping[str, Any] | Sequence[str]
_ENTRIES: Final = ("__main__.py", "main.py", "train.py")
_INTERPRETERS: Final = {".py": "python", ".sh": "sh"}


@dataclass(frozen=True, slots=True)
class Code:
    """What is sent, and what is started in it."""

    title: str
    """Names are made of it."""
    command: tuple[str, ...]
    source: Path | bytes
    """A folder, or an archive that is packed already."""
    script: bool = True
    """Whether the command is ``python`` and a script of the source."""

    def archive(self) -> bytes:
        """Raises CannotShip."""
        return self.source if isinstance(self.source, bytes) else pack(self.source)


def code_of(
    target: Target,
    args: Arguments | None = None,
    *,
    directory: str | os.PathLike[str] | None = None,
) -> Code:
    """What a target means. Raises CannotShip.

    A function takes ``args`` as a mapping, a script as a list of words. With ``directory`` the
    whole folder is sent and a script is looked for in it.
    """
    if callable(target):
        if directory is not None:
            raise CannotShip("a function is sent alone: give a script to send a directory with it")
        return _function(target, args)
    words = _words(args)
    path = Path(target).expanduser()
    if directory is not None:
        return _in_folder(Path(directory).expanduser(), path, words)
    if path.is_dir():
        return _folder(path, words)
    if not path.is_file():
        raise CannotShip(f"there is no file or folder {path}")
    command = (*_started(path.name), *words)
    return Code(path.stem, command, pack(path), script=path.suffix == ".py")


def _function(target: Callable[..., Any], args: Arguments | None) -> Code:
    if args is not None and not isinstance(args, Mapping):
        raise CannotShip('a function takes its args by name: args={"epochs": 3}')
    program = program_of(target, args)
    return Code(target.__name__, ("python", program.script), pack_files(program.files))


def _folder(folder: Path, words: Sequence[str]) -> Code:
    entry = next((name for name in _ENTRIES if (folder / name).is_file()), None)
    if entry is None:
        raise CannotShip(
            f"{folder} has none of {', '.join(_ENTRIES)}: name the script, with directory={folder}"
        )
    return Code(folder.resolve().name, ("python", entry, *words), folder)


def _in_folder(folder: Path, path: Path, words: Sequence[str]) -> Code:
    if not folder.is_dir():
        raise CannotShip(f"there is no folder {folder}")
    whole = path if path.is_absolute() else folder / path
    if not whole.is_file() and path.is_file():
        whole = path
    try:
        inside = whole.resolve().relative_to(folder.resolve())
    except ValueError:
        raise CannotShip(f"{path} is not in {folder}, which is what is sent") from None
    if not whole.is_file():
        raise CannotShip(f"there is no file {path} in {folder}")
    command = (*_started(inside.as_posix()), *words)
    return Code(path.stem, command, folder, script=path.suffix == ".py")


def _started(script: str) -> tuple[str, ...]:
    interpreter = _INTERPRETERS.get(Path(script).suffix)
    return (interpreter, script) if interpreter else (f"./{script}",)


def _words(args: Arguments | None) -> list[str]:
    if args is None:
        return []
    if isinstance(args, (Mapping, str)):
        raise CannotShip('a script takes its args as a list of words: args=["--epochs", "3"]')
    return [str(word) for word in args]
