"""Why a text is not JSON, in the words of Go's decoder. Runs only when parsing has failed."""

from __future__ import annotations

import re

__all__ = ["MAX_DEPTH", "depth_error", "syntax_error"]

MAX_DEPTH = 1000
"""Levels of nesting a body may have. Go stops at 10000; nothing real comes near either."""

_SPACE = b" \t\r\n"
_DIGITS = b"0123456789"
_HEX = b"0123456789abcdefABCDEF"
_LITERALS = {ord("t"): b"true", ord("f"): b"false", ord("n"): b"null"}
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_END = "unexpected end of JSON input"
_ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 92: "\\\\"}


class _Stop(Exception):
    """The text of the error found."""


def depth_error(opening: str = "{") -> str:
    return f"invalid character '{opening}' exceeded max depth"


def syntax_error(data: bytes) -> str | None:
    """The first syntax error of ``data``; None if it is well-formed."""
    try:
        _scan(data)
    except _Stop as stop:
        return str(stop)
    return None


def _bad(data: bytes, at: int, context: str) -> _Stop:
    if at >= len(data):
        # Go feeds a space at the end: inside a literal that is the error, elsewhere it is skipped.
        inside = context.startswith(("in literal", "in string escape", "in \\u")) or (
            "numeric literal" in context
        )
        return _Stop(f"invalid character ' ' {context}" if inside else _END)
    return _Stop(f"invalid character {_quoted(data[at])} {context}")


def _quoted(byte: int) -> str:
    if byte == ord("'"):
        return "'\\''"
    if byte in _ESCAPES:
        return f"'{_ESCAPES[byte]}'"
    if byte < 0x20 or byte == 0x7F:
        return f"'\\x{byte:02x}'"
    if 0x80 <= byte < 0xA1 or byte == 0xAD:
        return f"'\\u{byte:04x}'"
    return f"'{chr(byte)}'"


def _skip(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in _SPACE:
        at += 1
    return at


def _scan(data: bytes) -> None:
    """Walk over the value without recursion; ``stack`` holds what is open."""
    stack = bytearray()
    at = _skip(data, 0)
    while True:
        at = _value(data, at, stack)
        if at < 0:
            # Something was opened and is not empty: its first value comes next.
            at = -at
            continue
        at = _after_value(data, at, stack)
        if not stack:
            break
    at = _skip(data, at)
    if at < len(data):
        raise _bad(data, at, "after top-level value")


def _value(data: bytes, at: int, stack: bytearray) -> int:
    """Pass a scalar or an empty container; for a filled one give minus where its value starts."""
    at = _skip(data, at)
    if at >= len(data):
        raise _Stop(_END)
    byte = data[at]
    if byte in b"{[":
        stack.append(byte)
        if len(stack) > MAX_DEPTH:
            raise _Stop(depth_error(chr(byte)))
        inside = _skip(data, at + 1)
        if data[inside : inside + 1] == (b"}" if byte == ord("{") else b"]"):
            stack.pop()
            return inside + 1
        return -(_key(data, inside) if byte == ord("{") else inside)
    if byte == ord('"'):
        return _string(data, at + 1)
    if byte in _LITERALS:
        return _literal(data, at, _LITERALS[byte])
    if byte == ord("-") or byte in _DIGITS:
        return _number(data, at)
    raise _bad(data, at, "looking for beginning of value")


def _after_value(data: bytes, at: int, stack: bytearray) -> int:
    """Close what ends here; stop where the next value starts, or at the end of the text."""
    while stack:
        at = _skip(data, at)
        byte = data[at] if at < len(data) else -1
        in_object = stack[-1] == ord("{")
        if byte == ord("}" if in_object else "]"):
            stack.pop()
            at += 1
        elif byte == ord(","):
            return _key(data, _skip(data, at + 1)) if in_object else at + 1
        else:
            context = "after object key:value pair" if in_object else "after array element"
            raise _bad(data, at, context)
    return at


def _key(data: bytes, at: int) -> int:
    if data[at : at + 1] != b'"':
        raise _bad(data, at, "looking for beginning of object key string")
    at = _skip(data, _string(data, at + 1))
    if data[at : at + 1] != b":":
        raise _bad(data, at, "after object key")
    return at + 1


def _string(data: bytes, at: int) -> int:
    while True:
        match = _PLAIN.match(data, at)
        at = match.end() if match else at
        byte = data[at] if at < len(data) else -1
        if byte == ord('"'):
            return at + 1
        if byte != ord("\\"):
            raise _bad(data, at, "in string literal")
        at += 1
        if at >= len(data) or data[at] not in b'"\\/bfnrtu':
            raise _bad(data, at, "in string escape code")
        if data[at] == ord("u"):
            for _ in range(4):
                at += 1
                if at >= len(data) or data[at] not in _HEX:
                    raise _bad(data, at, "in \\u hexadecimal character escape")
        at += 1


def _literal(data: bytes, at: int, word: bytes) -> int:
    for offset in range(1, len(word)):
        if data[at + offset : at + offset + 1] != word[offset : offset + 1]:
            context = f"in literal {word.decode()} (expecting '{chr(word[offset])}')"
            raise _bad(data, at + offset, context)
    return at + len(word)


def _number(data: bytes, at: int) -> int:
    if data[at] == ord("-"):
        at += 1
        if at >= len(data) or data[at] not in _DIGITS:
            raise _bad(data, at, "in numeric literal")
    at = at + 1 if data[at] == ord("0") else _digits(data, at, "in numeric literal")
    if data[at : at + 1] == b".":
        at = _digits(data, at + 1, "after decimal point in numeric literal")
    if data[at : at + 1] in (b"e", b"E"):
        at += 1
        if data[at : at + 1] in (b"+", b"-"):
            at += 1
        at = _digits(data, at, "in exponent of numeric literal")
    return at


def _digits(data: bytes, at: int, context: str) -> int:
    start = at
    while at < len(data) and data[at] in _DIGITS:
        at += 1
    if at == start:
        raise _bad(data, at, context)
    return at
