"""Text of others as people may see it: nothing in it acts on a terminal, hides or forges a line.

Programs, objects, events and answers of servers hold whatever their authors wanted: sequences that
write the clipboard or clear the screen, line ends that forge output, and characters that turn or
hide what stands beside them. Whatever prints such text passes it through here first.
"""

from __future__ import annotations

import json
import re
from typing import Final

__all__ = ["printable", "printable_json", "printable_lines"]

_NAMES: Final = {"\n": r"\n", "\t": r"\t", "\r": r"\r"}
# All of Unicode's categories Cc, Cf, Cs, Zl and Zp, and letters that have no shape.
_UNSAFE: Final = (
    "\x00-\x1f\x7f-\x9f\xad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160"
    "\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0"
    "\ufff0-\ufffb\ud800-\udfff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_ANY: Final = re.compile(f"[{_UNSAFE}]")
_WITHIN: Final = re.compile(f"(?![\n\t])[{_UNSAFE}]")


def printable(text: object) -> str:
    r"""In one line: every character that has no shape as ``\x1b``, ``\n`` or ``\u202e``."""
    found = str(text)
    return found if found.isprintable() else _ANY.sub(_escaped, found)


def printable_lines(text: object) -> str:
    """In several lines: ends of lines and tabs stay what they are."""
    found = str(text).replace("\r\n", "\n")
    return found if found.isprintable() else _WITHIN.sub(_escaped, found)


def printable_json(document: str) -> str:
    """A document in JSON with these characters as JSON escapes them: it means the same."""
    if document.isprintable():
        return document
    return _WITHIN.sub(lambda found: json.dumps(found[0])[1:-1], document)


def _escaped(match: re.Match[str]) -> str:
    found = match[0]
    code = ord(found)
    if found in _NAMES:
        return _NAMES[found]
    return (
        f"\\x{code:02x}"
        if code < 0x100
        else f"\\u{code:04x}"
        if code < 0x10000
        else (f"\\U{code:08x}")
    )
