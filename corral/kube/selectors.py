"""Label and field selectors: parsing the text form, matching, and the object form of the API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Requirement", "Selector", "SelectorError", "parse_fields", "parse_labels"]


class SelectorError(ValueError):
    """The selector's text or form is wrong."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition. ``op`` is one of = != in notin exists !exists gt lt."""

    key: str
    op: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.op:
            case "=" | "in":
                return value is not None and value in self.values
            case "!=" | "notin":
                return value is None or value not in self.values
            case "exists":
                return value is not None
            case "!exists":
                return value is None
            case _:
                return self._compare(value)

    def _compare(self, value: str | None) -> bool:
        try:
            left, right = int(value or ""), int(self.values[0])
        except ValueError:
            return False
        return left > right if self.op == "gt" else left < right

    def __str__(self) -> str:
        listed = ",".join(sorted(self.values))
        match self.op:
            case "exists":
                return self.key
            case "!exists":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.op} ({listed})"
            case "gt" | "lt":
                return f"{self.key}{'>' if self.op == 'gt' else '<'}{self.values[0]}"
            case _:
                return f"{self.key}{self.op}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class Selector:
    """All requirements must hold; an empty selector matches everything."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False
    """Matches no object at all (the object form ``null``)."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self.nothing:
            return False
        return all(r.matches(labels) for r in self.requirements)

    def __bool__(self) -> bool:
        return self.nothing or bool(self.requirements)

    def __str__(self) -> str:
        return ",".join(str(r) for r in self.requirements)

    @staticmethod
    def from_object(selector: Mapping[str, Any] | None) -> Selector:
        """From the API's LabelSelector; None matches nothing, an empty one everything."""
        if selector is None:
            return Selector(nothing=True)
        found = [
            Requirement(key, "=", (value,))
            for key, value in sorted((selector.get("matchLabels") or {}).items())
        ]
        for term in selector.get("matchExpressions") or ():
            op = _OBJECT_OPERATORS.get(term.get("operator"))
            if op is None:
                raise SelectorError(
                    f'"{term.get("operator")}" is not a valid label selector operator'
                )
            found.append(Requirement(term.get("key", ""), op, tuple(term.get("values") or ())))
        return Selector(tuple(found))


_OBJECT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!exists"}

_NAME = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9_.-]{0,61})?[A-Za-z0-9]")
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_TOKEN = re.compile(r"\s*(==|!=|=|!|>|<|\(|\)|,|[^\s=!><(),]+)\s*")


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens: list[str] = []
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                break
            self.tokens.append(found.group(1))
            position = found.end()
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def requirement(self) -> Requirement:
        negated = self.peek() == "!"
        if negated:
            self.next()
        key = self.next()
        if not _is_identifier(key):
            raise SelectorError(f"unable to parse requirement: found '{key}', expected: identifier")
        _check_key(key)
        if negated:
            return Requirement(key, "!exists")
        token = self.peek()
        if token in ("", ","):
            return Requirement(key, "exists")
        self.next()
        return self._with_operator(key, token)

    def _with_operator(self, key: str, token: str) -> Requirement:
        if token in ("in", "notin"):
            return Requirement(key, token, self._values(key))
        if token in ("=", "==", "!=", ">", "<"):
            value = self._value()
            if token in (">", "<"):
                if not re.fullmatch(r"[+-]?\d+", value):
                    raise SelectorError(
                        "unable to parse requirement: "
                        f'values[0][{key}]: Invalid value: "{value}": '
                        "for 'Gt', 'Lt' operators, the value must be an integer"
                    )
                return Requirement(key, "gt" if token == ">" else "lt", (value,))
            _check_value(key, value)
            return Requirement(key, "!=" if token == "!=" else "=", (value,))
        raise SelectorError(
            f"unable to parse requirement: found '{token}', expected: in, notin, =, ==, !=, gt, lt"
        )

    def _value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        token = self.next()
        if not _is_identifier(token):
            raise SelectorError(
                f"unable to parse requirement: found '{token}', expected: identifier"
            )
        return token

    def _values(self, key: str) -> tuple[str, ...]:
        if self.next() != "(":
            raise SelectorError("unable to parse requirement: found '', expected: '('")
        values: list[str] = []
        expect_value = True
        while True:
            token = self.next()
            if token == ")":
                if expect_value:
                    values.append("")
                break
            if token == ",":
                if expect_value:
                    values.append("")
                expect_value = True
            elif token and _is_identifier(token) and expect_value:
                _check_value(key, token)
                values.append(token)
                expect_value = False
            else:
                raise SelectorError(
                    f"unable to parse requirement: found '{token}', "
                    "expected: ',', ')' or identifier"
                )
        return tuple(dict.fromkeys(values))


def _is_identifier(token: str) -> bool:
    return bool(token) and token not in {"=", "==", "!=", "!", ">", "<", "(", ")", ","}


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    bad = not _NAME.fullmatch(name) or (
        slash and (len(prefix) > 253 or not _DOMAIN.fullmatch(prefix))
    )
    if bad:
        raise SelectorError(
            f'unable to parse requirement: <nil>: Invalid value: "{key}": name part must consist '
            "of alphanumeric characters, '-', '_' or '.', and must start and end with an "
            "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used "
            "for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
        )


def _check_value(key: str, value: str) -> None:
    if value and not _NAME.fullmatch(value):
        raise SelectorError(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{value}": a valid '
            "label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
            "and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
            "'my_value',  or '12345', regex used for validation is "
            "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
        )


def parse_labels(text: str) -> Selector:
    """Parse a label selector such as ``app in (a,b),!old,tier=x``."""
    parser = _Parser(text)
    found: list[Requirement] = []
    while parser.peek():
        found.append(parser.requirement())
        token = parser.next()
        if token not in ("", ","):
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        if token == "," and parser.peek() in ("", ","):
            raise SelectorError(f"found '{parser.peek()}', expected: identifier after ','")
    return Selector(tuple(sorted(found, key=lambda r: r.key)))


def parse_fields(text: str, convert: Callable[[str], str] | None = None) -> Selector:
    r"""Parse a field selector: ``a.b=x,c!=y`` with ``\\`` escaping ``,`` ``=`` and ``\\``."""
    found: list[Requirement] = []
    for term in _split_terms(text):
        if not term:
            continue
        match = re.match(r"((?:\\.|[^\\=!])*?)(==|!=|=)(.*)", term, re.DOTALL)
        if match is None:
            raise SelectorError(f'invalid field selector: "{text}"; can\'t understand "{term}"')
        key, op, value = match.groups()
        if re.search(r"(?<!\\)=", value):
            raise SelectorError(f"invalid field selector: unescaped character in value: {value}")
        value = re.sub(r"\\(.)", r"\1", value)
        key = convert(key) if convert else key
        found.append(Requirement(key, "!=" if op == "!=" else "=", (value,)))
    return Selector(tuple(found))


def _split_terms(text: str) -> list[str]:
    terms, current, escaped = [], "", False
    for char in text:
        if escaped:
            current += "\\" + char
            escaped = False
        elif char == "\\":
            escaped = True
        elif char == ",":
            terms.append(current)
            current = ""
        else:
            current += char
    return [*terms, current]


def matches_fields(selector: Selector, fields: Mapping[str, str]) -> bool:
    """Field selectors compare an absent field as the empty string."""
    for requirement in selector.requirements:
        equal = fields.get(requirement.key, "") == requirement.values[0]
        if equal != (requirement.op == "="):
            return False
    return True
