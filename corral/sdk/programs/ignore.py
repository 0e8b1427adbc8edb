"""Which files of a folder are left out: the rules of ``.gitignore``, also in ``.corralignore``.

The last rule that matches decides; rules of a deeper folder come after those above it, and
``.corralignore`` after ``.gitignore`` in the same folder. A folder that is left out is not looked
into, so nothing in it can be taken back by a later rule, as in git.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

__all__ = ["IGNORE_FILES", "Rule", "parse_rules", "walk"]

IGNORE_FILES: Final = (".gitignore", ".corralignore")


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: a pattern, whether it takes back, and whether it is for folders alone."""

    pattern: re.Pattern[str]
    keep: bool
    folders_only: bool

    def matches(self, path: str, *, folder: bool) -> bool:
        """Whether it is about a path, relative to the folder of the rule's file."""
        return (folder or not self.folders_only) and self.pattern.fullmatch(path) is not None


def parse_rules(lines: Iterable[str]) -> list[Rule]:
    """The rules of one file."""
    return [rule for line in lines if (rule := _parse(line)) is not None]


def walk(root: Path, skipped: Iterable[str] = ()) -> Iterator[PurePosixPath]:
    """The files and links of a folder that are not left out, in order of their names.

    ``skipped`` are rules that come before those of the folder. Links are not followed: they may
    lead anywhere, also back.
    """
    yield from _walk(root, PurePosixPath(), [(PurePosixPath(), parse_rules(skipped))])


_Scoped = list[tuple[PurePosixPath, list[Rule]]]


def _walk(root: Path, folder: PurePosixPath, scopes: _Scoped) -> Iterator[PurePosixPath]:
    here = root / folder
    scopes = [*scopes, *((folder, rules) for rules in _rules_in(here))]
    for entry in sorted(here.iterdir(), key=lambda found: found.name):
        path = folder / entry.name
        is_folder = entry.is_dir() and not entry.is_symlink()
        if _ignored(path, scopes, folder=is_folder):
            continue
        if is_folder:
            yield from _walk(root, path, scopes)
        elif entry.is_file() or entry.is_symlink():
            yield path


def _rules_in(folder: Path) -> Iterator[list[Rule]]:
    for name in IGNORE_FILES:
        file = folder / name
        if file.is_file():
            yield parse_rules(file.read_text(errors="replace").splitlines())


def _ignored(path: PurePosixPath, scopes: _Scoped, *, folder: bool) -> bool:
    for base, rules in reversed(scopes):
        relative = str(path.relative_to(base))
        for rule in reversed(rules):
            if rule.matches(relative, folder=folder):
                return not rule.keep
    return False


# -- patterns --------------------------------------------------------------------------------------


def _parse(line: str) -> Rule | None:
    text = re.sub(r"(?<!\\)[ \t]+$", "", line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    keep = text.startswith("!")
    text = text[1:] if keep else text
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anchored = "/" in text
    return Rule(re.compile(_regex(text.lstrip("/"), anchored=anchored)), keep, folders_only)


def _regex(pattern: str, *, anchored: bool) -> str:
    if pattern == "**":
        return ".*"
    parts = pattern.split("/")
    out = "" if anchored else "(?:.*/)?"
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        if part == "**":
            # At the end everything inside; else any number of folders, none included.
            out += ".+" if last else "(?:[^/]+/)*"
        else:
            out += _segment(part) + ("" if last else "/")
    return out


def _segment(text: str) -> str:
    """One part between slashes, as a regular expression."""
    out, at = "", 0
    while at < len(text):
        char = text[at]
        if char == "*":
            out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "\\" and at + 1 < len(text):
            at += 1
            out += re.escape(text[at])
        elif char == "[" and (end := _class_end(text, at)) > 0:
            inside = text[at + 1 : end].replace("\\", "\\\\")
            out += f"[^{inside[1:]}]" if inside[0] in "!^" else f"[{inside}]"
            at = end
        else:
            out += re.escape(char)
        at += 1
    return out


def _class_end(text: str, start: int) -> int:
    """Where a class of characters ends; -1 where it does not."""
    first = start + 2 if text[start + 1 : start + 2] in ("!", "^") else start + 1
    return text.find("]", first + 1)
