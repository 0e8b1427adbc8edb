"""Objects from files, folders and standard input, each with where it was read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

from corral.cli.errors import INVALID, NOT_FOUND, USAGE, Trouble
from corral.kube.types import Obj

__all__ = ["Document", "read_manifests"]

_ENDINGS: Final = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Document:
    """An object and where it stands, for messages."""

    obj: Obj
    source: str


def read_manifests(names: Sequence[str], *, recursive: bool, stdin: TextIO) -> list[Document]:
    """All objects, in order; files of a folder by name. Lists are taken apart.

    Raises:
        Trouble: a file is not there, is no YAML, or holds something that is no object.
    """
    found = [one for name in names for one in _documents(name, recursive=recursive, stdin=stdin)]
    if not found:
        where = ", ".join(names)
        raise Trouble(f"there are no objects in {where}", code=USAGE, hint="is the file empty?")
    return found


def _documents(name: str, *, recursive: bool, stdin: TextIO) -> Iterator[Document]:
    if name == "-":
        yield from _parsed(stdin.read(), "standard input")
        return
    path = Path(name).expanduser()
    if path.is_dir():
        pattern = "**/*" if recursive else "*"
        for file in sorted(found for found in path.glob(pattern) if found.suffix in _ENDINGS):
            yield from _parsed(_text(file), str(file))
        return
    if not path.exists():
        raise Trouble(f"there is no file {name}", code=NOT_FOUND, hint=_similar(path))
    yield from _parsed(_text(path), name)


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError as err:
        raise Trouble(f"{path} is not a text file", code=INVALID, hint="give YAML or JSON") from err


def _similar(path: Path) -> str:
    beside = [one for one in path.parent.glob("*") if one.suffix in _ENDINGS]
    if not beside or not path.parent.is_dir():
        return "check the path; it is relative to the current directory"
    names = ", ".join(sorted(str(one) for one in beside)[:3])
    return f"did you mean {names}?"


def _parsed(text: str, source: str) -> Iterator[Document]:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        values = [value for value in yaml.load_all(text, Loader=loader) if value is not None]
    except yaml.YAMLError as err:
        mark = getattr(err, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark is not None else ""
        problem = getattr(err, "problem", None) or "cannot parse it"
        raise Trouble(
            f"{source}{where} is not valid YAML: {problem}",
            code=INVALID,
            hint="check the indentation and the quotes",
        ) from err
    for number, value in enumerate(values, 1):
        where = source if len(values) == 1 else f"{source}, document {number}"
        yield from _objects(value, where)


def _objects(value: Any, where: str) -> Iterator[Document]:
    if not isinstance(value, dict):
        raise Trouble(
            f"{where} is not an object", code=INVALID, hint="start with apiVersion, kind, metadata"
        )
    if str(value.get("kind", "")).endswith("List") and isinstance(value.get("items"), list):
        for item in value["items"]:
            yield from _objects(item, where)
        return
    missing = [name for name in ("apiVersion", "kind") if not value.get(name)]
    if missing:
        raise Trouble(
            f"{where} has no {' and no '.join(missing)}",
            code=INVALID,
            hint="every object needs apiVersion, kind and metadata",
        )
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not metadata.get("name"):
        raise Trouble(f"{where} has no metadata.name", code=INVALID, hint="give it a name")
    yield Document(value, where)
