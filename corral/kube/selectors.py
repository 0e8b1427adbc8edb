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
        left, right = _integer(value or ""), _integer(self.values[0])
        if left is None or right is None:
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

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_SYMBOLS = frozenset("=!(),><")
_TOKEN = re.compile(r"==|!=|[=!><(),]|[^\s=!><(),]+")
_COMPARISONS = {"=": "=", "==": "=", "!=": "!=", ">": "gt", "<": "lt"}

_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_DOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _integer(text: str) -> int | None:
    """A signed 64-bit number in plain digits, or None."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class _Parser:
    """The grammar of label selectors; ``""`` is the end of the text."""

    def __init__(self, text: str) -> None:
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def parse(self) -> list[Requirement]:
        found: list[Requirement] = []
        while token := self.peek():
            if not _is_identifier(token) and token != "!":
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except SelectorError as err:
                raise SelectorError(f"unable to parse requirement: {err}") from None
            self._separator()
        return found

    def _separator(self) -> None:
        token = self.next()
        if token not in ("", ","):
            raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        following = self.peek()
        if token and not _is_identifier(following) and following != "!":
            raise SelectorError(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        negated = self.peek() == "!"
        if negated:
            self.next()
        key = self.next()
        if not _is_identifier(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        problems = _key_problems(key)
        if problems:
            raise SelectorError(f'<nil>: Invalid value: "{key}": {"; ".join(problems)}')
        if negated:
            return Requirement(key, "!exists")
        if self.peek() in ("", ","):
            return Requirement(key, "exists")
        token = self.next()
        if token in ("in", "notin"):
            return _checked(Requirement(key, token, self._values()))
        if token in _COMPARISONS:
            return _checked(Requirement(key, _COMPARISONS[token], (self._value(),)))
        raise SelectorError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")

    def _value(self) -> str:
        if self.peek() in ("", ","):
            return ""
        token = self.next()
        if not _is_identifier(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> tuple[str, ...]:
        """``(a,b)``: an empty place between commas and brackets is the empty value."""
        token = self.next()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        token = self.peek()
        if token not in (",", ")") and not _is_identifier(token):
            raise SelectorError(f"found '{token}', expected: ',', ')' or identifier")
        values: set[str] = set()
        while True:
            if self.peek() in (",", ")"):
                values.add("")
            elif _is_identifier(self.peek()):
                values.add(self.next())
                if self.peek() not in (",", ")"):
                    raise SelectorError(f"found '{self.peek()}', expected: ',' or ')'")
            else:
                raise SelectorError(f"found '{self.peek()}', expected: ',', or identifier")
            if self.next() == ")":
                return tuple(sorted(values))


def _is_identifier(token: str) -> bool:
    return bool(token) and token[0] not in _SYMBOLS


def _key_problems(key: str) -> list[str]:
    """What is wrong with a label key."""
    prefix, slash, name = key.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_NAME_RULE} {example}"]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        if len(prefix) > 253:
            problems.append("prefix part must be no more than 253 bytes")
        if not _DOMAIN.fullmatch(prefix):
            problems.append(f"prefix part {_DOMAIN_RULE}")
    if not name:
        problems.append("name part must be non-empty")
    elif len(name.encode()) > 63:
        problems.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        problems.append(f"name part {_NAME_RULE}")
    return problems


def _value_problems(value: str) -> list[str]:
    problems = []
    if len(value.encode()) > 63:
        problems.append("must be no more than 63 bytes")
    if value and not _NAME.fullmatch(value):
        problems.append(_VALUE_RULE)
    return problems


def _checked(requirement: Requirement) -> Requirement:
    """The requirement itself. Raises SelectorError with all that is wrong with its values."""
    problems = []
    values = list(enumerate(requirement.values))
    if requirement.op in ("gt", "lt"):
        problems += [
            f'values[{index}]: Invalid value: "{value}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
            for index, value in values
            if _integer(value) is None
        ]
    for index, value in values:
        if found := _value_problems(value):
            where = f"values[{index}][{requirement.key}]"
            problems.append(f'{where}: Invalid value: "{value}": {"; ".join(found)}')
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return requirement


def parse_labels(text: str) -> Selector:
    """Parse a label selector such as ``app in (a,b),!old,tier=x``. Raises SelectorError."""
    if not text:
        return _EVERYTHING
    return Selector(tuple(sorted(_Parser(text).parse(), key=lambda r: r.key)))


_EVERYTHING = Selector()


def parse_fields(text: str, convert: Callable[[str], str] | None = None) -> Selector:
    r"""Parse a field selector: ``a.b=x,c!=y`` with ``\`` escaping ``,`` ``=`` and ``\``.

    ``convert`` names the field that a label of the text means; it may raise SelectorError.
    """
    if not text:
        return _EVERYTHING
    found: list[Requirement] = []
    for term in sorted(_TERM.findall(text)):
        if not term:
            continue
        match = _FIELD_OPERATOR.search(term)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        value = _unescape(term[match.end() :])
        op = "!=" if match.group() == "!=" else "="
        found.append(Requirement(term[: match.start()], op, (value,)))
    if convert:
        found = [Requirement(convert(r.key), r.op, r.values) for r in found]
    return Selector(tuple(found))


_TERM = re.compile(r"(?:\\.|\\$|[^\\,])+", re.DOTALL)
_FIELD_OPERATOR = re.compile(r"!=|==|=")
_ESCAPED = re.compile(r"\\(.?)|[,=]", re.DOTALL)


def _unescape(value: str) -> str:
    def plain(found: re.Match[str]) -> str:
        char = found.group(1)
        if char is None:
            code = ord(found.group())
            raise SelectorError(f"invalid field selector: unescaped character in value: {code}")
        if not char or char not in "\\,=":
            raise SelectorError(f"invalid field selector: invalid escape sequence: \\{char}")
        return char

    return _ESCAPED.sub(plain, value)


def matches_fields(selector: Selector, fields: Mapping[str, str]) -> bool:
    """Field selectors compare an absent field as the empty string."""
    for requirement in selector.requirements:
        equal = fields.get(requirement.key, "") == requirement.values[0]
        if equal != (requirement.op == "="):
            return False
    return True
