"""Request bodies in YAML, read as the Kubernetes YAML library reads them.

Plain scalars follow its YAML 1.1 rules (``on`` is true, ``010`` is 8, dates stay text), keys become
strings, and only the first document counts. The parser's event stream is turned into objects
without recursion; nesting and alias expansion are bounded, so no small body can become a large one.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Iterator
from typing import Any

import orjson
import yaml

from corral.cluster.apiserver.codec import refusal
from corral.cluster.apiserver.codec.syntax import MAX_DEPTH, depth_error
from corral.kube import errors
from corral.kube.types import Obj

__all__ = ["parse_patch", "parse_yaml"]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAGS = "tag:yaml.org,2002:"
_WORDS: dict[str, Any] = {
    **dict.fromkeys("y Y yes Yes YES true True TRUE on On ON".split(), True),
    **dict.fromkeys("n N no No NO false False FALSE off Off OFF".split(), False),
    **dict.fromkeys(["", "~", "null", "Null", "NULL"], None),
    **dict.fromkeys([".nan", ".NaN", ".NAN"], math.nan),
    **dict.fromkeys([".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"], math.inf),
    **dict.fromkeys(["-.inf", "-.Inf", "-.INF"], -math.inf),
}
_INT = re.compile(r"([+-]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_DATE = re.compile(
    r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(\.[0-9]+)?\S*)?"
)
_MERGE = object()
REPEATED_KEYS = "yaml: unmarshal errors:\n"
"""How the list of keys that stand twice begins."""


class _Refused(Exception):
    """The body cannot be read; the text says why."""


_UNREADABLE = (_Refused, yaml.YAMLError, UnicodeDecodeError, OverflowError)


def parse_yaml(body: bytes, expected: str = "object", *, problems: list[str] | None = None) -> Obj:
    """The object in ``body``; an empty document is an empty object.

    Args:
        body: one YAML document; what follows it is not read.
        expected: the kind expected, for the text of a refusal.
        problems: gets the problems that only matter to strict requests (keys set twice).

    Raises:
        errors.BadRequest: not YAML, no mapping, too deep, or too much aliasing.
    """
    try:
        value = _document(body, problems)
    except _UNREADABLE as err:
        raise refusal.unrecognized(expected, _words(err), body) from None
    if value is None:
        return {}
    if type(value) is not dict:
        raise refusal.not_an_object(expected, value, body)
    return value


def parse_patch(body: bytes, *, problems: list[str] | None = None) -> Obj:
    """The same for an applied configuration, which is refused as a patch.

    Raises:
        errors.BadRequest: not YAML, no mapping, too deep, or too much aliasing.
    """
    try:
        value = _document(body, problems)
    except _UNREADABLE as err:
        raise errors.BadRequest(f"error encoding patch: {_words(err)}") from None
    if value is None:
        return {}
    if type(value) is not dict:
        raise errors.BadRequest(
            "error decoding patch: error unmarshaling JSON: while decoding JSON: "
            f"{refusal.unmarshal(value)} into Go value of type map[string]interface {{}}"
        )
    return value


_ODD = re.compile(
    rb"""[^\n\x20-\x7e]|\\[u/]|[:\[,]\s*-?(?:\d+[.eE]|\d{18})|"[^\S\n]*\n\s*:|"[^"]{900,}"\s*:"""
)
"""What YAML may read differently from JSON: characters, escapes, numbers, long keys."""


def _as_json(body: bytes) -> Any:
    """The object in a body that is plain JSON, which most are; None where YAML must decide."""
    if body[:1] != b"{" or _ODD.search(body):
        return None
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    ordered = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if ordered.count(b'":') != body.count(b'":') or not _shallow(body):
        return None  # a key stands twice, or something like it
    return orjson.loads(ordered)


def _shallow(body: bytes) -> bool:
    """Whether the body cannot be nested deeper than allowed, nor than the JSON encoder goes."""
    return body.count(b"{") + body.count(b"[") <= 200 or _depth(body) <= 200


def _depth(body: bytes) -> int:
    depth = deepest = 0
    for found in _BRACKETS.finditer(body):
        if found[0] in (b"{", b"["):
            depth += 1
            deepest = max(deepest, depth)
        elif found[0] in (b"}", b"]"):
            depth -= 1
    return deepest


_BRACKETS = re.compile(rb'[{}\[\]]|"(?:[^"\\]|\\.)*"')


def _document(body: bytes, problems: list[str] | None) -> Any:
    plain = _as_json(body)
    if plain is not None:
        return plain
    builder = _Builder()
    value = builder.document(yaml.parse(body, Loader=_LOADER))
    if builder.repeated and problems is not None:
        problems.append(REPEATED_KEYS + "\n".join(builder.repeated))
    return value


def _words(err: Exception) -> str:
    if isinstance(err, yaml.MarkedYAMLError):
        mark = err.problem_mark
        line = mark.line if mark is not None else 0
        # The Go library counts lines from zero here, and leaves out a zero.
        line += bool(line) and isinstance(err, yaml.scanner.ScannerError)
        return f"yaml: line {line}: {err.problem}" if line else f"yaml: {err.problem}"
    return str(err) if isinstance(err, _Refused) else f"yaml: {str(err).splitlines()[0]}"


class _Frame:
    """A mapping or sequence that is still open."""

    __slots__ = ("anchor", "key", "line", "merges", "nodes", "value", "waiting")

    def __init__(self, value: Any, anchor: str | None, line: int) -> None:
        self.value, self.anchor, self.line = value, anchor, line
        self.key: Any = None
        self.waiting = False
        """A key was read, its value comes next."""
        self.merges: list[Any] = []
        self.nodes = 1


class _Builder:
    def __init__(self) -> None:
        self.repeated: list[str] = []
        self._stack: list[_Frame] = []
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._read = self._copied = 0
        self._result: Any = None

    def document(self, events: Iterator[Any]) -> Any:
        for event in events:
            match event:
                case yaml.ScalarEvent():
                    self._scalar(event)
                case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                    self._open(event)
                case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                    self._close()
                case yaml.AliasEvent():
                    self._alias(event)
                case yaml.DocumentEndEvent():
                    break
        return self._result

    def _scalar(self, event: Any) -> None:
        value = _resolve(event)
        if event.anchor:
            self._anchors[event.anchor] = (value, 1)
        self._place(value, 1, event.start_mark.line)

    def _open(self, event: Any) -> None:
        if len(self._stack) >= MAX_DEPTH:
            raise _Refused(depth_error())
        if event.anchor:
            self._anchors[event.anchor] = None
        value: Any = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._stack.append(_Frame(value, event.anchor, event.start_mark.line))

    def _close(self) -> None:
        frame = self._stack.pop()
        if type(frame.value) is dict:
            for merged in frame.merges:
                frame.value = {**merged, **frame.value}
            # The Go library prints JSON in between, with the keys in order.
            frame.value = {key: frame.value[key] for key in sorted(frame.value)}
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, frame.nodes)
        self._place(frame.value, frame.nodes, frame.line)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise _Refused(f"yaml: unknown anchor '{event.anchor}' referenced")
        known = self._anchors[event.anchor]
        if known is None:
            raise _Refused(f"yaml: anchor '{event.anchor}' value contains itself")
        value, nodes = known
        self._copied += nodes
        self._read += nodes
        total = self._read
        allowed = 0.99 - 0.89 * min(max((total - 400_000) / 3_600_000, 0), 1)
        if self._copied > 100 and total > 1000 and self._copied / total > allowed:
            raise _Refused("yaml: document contains excessive aliasing")
        if type(value) in (dict, list):
            value = orjson.loads(orjson.dumps(value))
        self._place(value, nodes, event.start_mark.line)

    def _place(self, value: Any, nodes: int, line: int) -> None:
        """Put a finished value where it belongs."""
        self._read += 1
        frame = self._stack[-1] if self._stack else None
        if frame is not None and type(frame.value) is dict and not frame.waiting:
            frame.key, frame.waiting = _MERGE if value is _MERGE else _key(value), True
            frame.nodes += nodes
            return
        if value is _MERGE:
            value = "<<"
        if frame is None:
            self._result = value
            return
        frame.nodes += nodes
        if type(frame.value) is list:
            frame.value.append(value)
        else:
            frame.waiting = False
            if frame.key is _MERGE:
                frame.merges += _merged(value)
            else:
                if frame.key in frame.value:
                    self.repeated.append(f'  line {line + 1}: key "{frame.key}" already set in map')
                frame.value[frame.key] = value


def _merged(value: Any) -> list[Any]:
    items = value if type(value) is list else [value]
    if not all(type(item) is dict for item in items):
        raise _Refused("yaml: map merge requires map or sequence of maps as the value")
    return items


def _key(value: Any) -> str:
    if type(value) is str:
        return value
    if type(value) is bool:
        return "true" if value else "false"
    if type(value) in (int, float):
        return str(value)
    raise _Refused(f"yaml: invalid map key: {value!r}")


def _resolve(event: Any) -> Any:
    text: str = event.value
    tag = event.tag
    if tag is None and not event.implicit[0]:
        return text
    if tag is None or event.implicit[0]:
        return _MERGE if text == "<<" else _plain(text)
    if tag == "tag:yaml.org,2002:binary":
        try:
            return base64.b64decode(text).decode("utf-8", "replace")
        except ValueError:
            raise _Refused("yaml: !!binary value contains invalid base64 data") from None
    wanted = {"bool": bool, "int": int, "float": float, "null": type(None)}.get(
        tag.removeprefix(_TAGS)
    )
    if wanted is None:
        return text
    value = _plain(text)
    if type(value) is not wanted and not (wanted is float and type(value) is int):
        raise _Refused(f"yaml: cannot decode !!str `{text}` as a !!{tag.removeprefix(_TAGS)}")
    return value


def _plain(text: str) -> Any:
    if text in _WORDS:
        value = _WORDS[text]
        if type(value) is float:
            name = "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
            raise _Refused(f"json: unsupported value: {name}")
        return value
    if text[0] not in "+-.0123456789" or _DATE.fullmatch(text):
        return text
    plain = text.replace("_", "")
    if match := _INT.fullmatch(plain):
        sign, hexa, binary, octal, decimal = match.groups()
        for digits, radix in ((hexa, 16), (binary, 2), (octal, 8), (decimal, 10)):
            if digits is not None:
                number = int(digits, radix) * (-1 if sign == "-" else 1)
                if -(2**63) <= number < 2**64:
                    return number
    if _FLOAT.fullmatch(plain):
        return _number(float(plain), text)
    return text


def _number(value: float, text: str) -> Any:
    if math.isinf(value):
        return text
    # Go prints a whole number without a point on the way through JSON.
    return int(value) if value.is_integer() and abs(value) < 1e21 else value
