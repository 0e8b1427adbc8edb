"""Small folders and plain words: what `make lint` demands of the package beside ruff and mypy.

A folder has at most 20 modules, and a retired word names nothing new. What was there before is in
``house.json`` with its count, which may only go down: ``--record`` writes what there is now, and a
number that has risen shows in its diff.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "corral"
RECORD = Path(__file__).with_suffix(".json")
GENERATED = PACKAGE / "v1"
LARGEST = 20
"""Modules of one folder."""


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if GENERATED not in path.parents)


def large_folders(paths: list[Path]) -> dict[str, int]:
    """The folders with more modules than a reader takes in at once."""
    counts = Counter(path.parent.relative_to(ROOT).as_posix() for path in paths)
    return {folder: count for folder, count in sorted(counts.items()) if count > LARGEST}


def defined(tree: ast.AST) -> Iterator[str]:
    """Every name that a module gives to something: uses of names are not counted."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def matches(word: str, name: str) -> bool:
    """A word with a capital is a whole name; others are also found between underscores."""
    bare = name.strip("_")
    return bare == word or (word.islower() and word in bare.split("_"))


def area(path: Path) -> str:
    """Where a word is counted: the first two folders below the package."""
    return "/".join(("corral", *path.relative_to(PACKAGE).parent.parts[:2]))


def retired_words(paths: list[Path], words: dict[str, Any]) -> dict[str, dict[str, int]]:
    """How often each retired word names something, by area."""
    counts: dict[str, Counter[str]] = {word: Counter() for word in words}
    for path in paths:
        where = area(path)
        for name in defined(ast.parse(path.read_text(encoding="utf-8"))):
            for word, rule in words.items():
                if where.startswith(rule.get("within", "corral")) and matches(word, name):
                    counts[word][where] += 1
    return {word: dict(sorted(found.items())) for word, found in counts.items()}


def risen(what: str, found: dict[str, int], allowed: dict[str, int], advice: str) -> list[str]:
    """One line for every place with more than was recorded."""
    return [
        f"{place}: {what} {count}, at most {allowed.get(place, 0)}: {advice}"
        for place, count in found.items()
        if count > allowed.get(place, 0)
    ]


def problems(record: dict[str, Any], folders: dict[str, int], words: dict[str, Any]) -> list[str]:
    """What has grown since it was recorded."""
    advice = f"more than {LARGEST} go into sub-packages by noun"
    found = risen("modules", folders, record["folders"], advice)
    for word, counts in words.items():
        rule = record["words"][word]
        found += risen(f"names with {word!r}:", counts, rule["left"], f"say {rule['say']}")
    return found


def main() -> int:
    """Check, or write down what there is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help="write the present counts")
    arguments = parser.parse_args()
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    paths = sources()
    folders, words = large_folders(paths), retired_words(paths, record["words"])
    if arguments.record:
        record["folders"] = folders
        for word, counts in words.items():
            record["words"][word]["left"] = counts
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return 0
    found = problems(record, folders, words)
    for line in found:
        print(line)
    left = sum(sum(counts.values()) for counts in words.values())
    print(f"{len(folders)} folders above {LARGEST} modules, {left} names with retired words")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
