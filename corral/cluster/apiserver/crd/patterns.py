"""Go regular expressions, run by Python's engine where the two agree."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

__all__ = ["compile_pattern", "pattern_problem"]

_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_UNICODE = {"L": r"[^\W\d_]", "Lu": "[A-ZÀ-ÖØ-Þ]", "Ll": "[a-zß-öø-ÿ]", "N": r"\d", "Nd": r"\d"}
_POSIX = re.compile(r"\[:([a-z]+):\]")
_PROPERTY = re.compile(r"\\p(?:\{(\w+)\}|(\w))")


def _translate(pattern: str) -> str:
    """Spell Go-only syntax in Python's: named groups, POSIX and some Unicode classes."""
    text = _POSIX.sub(lambda m: _CLASSES.get(m[1], m[0]), pattern)
    text = _PROPERTY.sub(lambda m: _UNICODE.get(m[1] or m[2], m[0]), text)
    text = text.replace(r"\z", r"\Z").replace("(?<", "(?P<") if "(?P<" not in text else text
    text = text.replace("(?P<=", "(?<=").replace("(?P<!", "(?<!").replace(r"\z", r"\Z")
    return text if "(?m" in text or "$" not in text else _strict_ends(text)


def _strict_ends(text: str) -> str:
    """In Go ``$`` means the very end; Python's also accepts a newline before it."""
    out, at, in_class = [], 0, False
    while at < len(text):
        char = text[at]
        if char == "\\":
            out.append(text[at : at + 2])
            at += 2
            continue
        in_class = char != "]" if in_class else char == "["
        out.append(r"\Z" if char == "$" and not in_class else char)
        at += 1
    return "".join(out)


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> Callable[[str], Any]:
    """The search function of a pattern; nothing matches a pattern Python cannot read."""
    try:
        return re.compile(_translate(pattern), re.ASCII).search
    except re.error:
        return lambda text: None


def pattern_problem(pattern: str) -> str | None:
    """What Go's regexp package says about a malformed pattern, or None."""
    if re.search(r"(?<!\\)\(\?(?:=|!|<=|<!)", pattern):
        start = re.search(r"\(\?(?:=|!|<=|<!)", pattern)
        bad = start[0] if start else ""
        return f"error parsing regexp: invalid or unsupported Perl syntax: `{bad}`"
    try:
        re.compile(_translate(pattern))
    except re.error as why:
        return f"error parsing regexp: {_go_reason(why, pattern)}"
    return None


def _go_reason(why: re.error, pattern: str) -> str:
    text = why.msg
    if text.startswith("missing ), unterminated"):
        return f"missing closing ): `{pattern}`"
    if text.startswith("unbalanced parenthesis"):
        return f"unexpected ): `{pattern}`"
    if text.startswith("unterminated character set"):
        return f"missing closing ]: `{pattern[why.pos or 0 :]}`"
    if text.startswith(("nothing to repeat", "multiple repeat")):
        return f"missing argument to repetition operator: `{pattern[why.pos or 0]}`"
    if text.startswith("bad escape"):
        return f"invalid escape sequence: `{text.removeprefix('bad escape ').split(' ')[0]}`"
    return f"{text}: `{pattern}`"
