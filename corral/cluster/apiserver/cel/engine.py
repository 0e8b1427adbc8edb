"""Compile and evaluate CEL expressions with Kubernetes' function libraries.

This is the only module that knows the CEL engine. The engine is loaded with the first expression,
not with the server. Evaluation binds plain JSON values (and the scalars of ``values``); results
are plain values too. Errors carry the texts the Go implementation gives, as far as they are known.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from corral.cluster.apiserver.cel.authorization import Authorize, authorizing
from corral.cluster.apiserver.cel.signatures import OPAQUE, Signature, kind_of

__all__ = [
    "STRINGS",
    "UNKNOWN_TYPE",
    "CelError",
    "CompileError",
    "Program",
    "check",
    "compile",
    "parsed",
    "result_type",
    "uses_variable",
]

UNKNOWN_TYPE = "unknown"


class CelError(Exception):
    """An evaluation that failed; the text is the reason alone."""


class CompileError(CelError):
    """An expression that does not parse or does not type-check."""


class Program:
    """A compiled expression."""

    __slots__ = ("_error", "_eval")

    def __init__(self, expression: Any) -> None:
        self._eval = expression.eval
        self._error = _engine().Type.ERROR

    def evaluate(self, data: Mapping[str, Any], *, authorize: Authorize | None = None) -> Any:
        """The plain result value.

        Raises:
            CelError: the expression failed (a missing key, no such overload, …).
        """
        return self._run(data, authorize).value()

    def evaluate_json(self, data: Mapping[str, Any], *, authorize: Authorize | None = None) -> Any:
        """The result as a JSON value, with everything in it.

        Raises:
            CelError: the expression failed, or its result cannot be written as JSON.
        """
        return self._json(self._run(data, authorize))

    def _run(self, data: Mapping[str, Any], authorize: Authorize | None) -> Any:
        try:
            if authorize is None:
                result = self._eval(data=data)
            else:
                with authorizing(authorize):
                    result = self._eval(data=data)
        except (RuntimeError, ValueError) as why:
            raise CelError(_runtime_text(str(why))) from None
        if result.type() == self._error:
            raise CelError(_runtime_text(repr(result)))
        return result

    def _json(self, result: Any) -> Any:
        if result.type() == self._error:  # an optional, which has no value of its own
            raise CelError("unsupported value in the result")
        value = result.value()
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise CelError(f"map key '{key}' is not a string")
            return {key: self._json(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self._json(item) for item in value]
        return _json_scalar(value)


def _json_scalar(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():g}s"
    if isinstance(value, bytes | bytearray):
        return b64encode(value).decode()
    return value


def compile(
    expression: str,
    variables: Iterable[str] = ("self", "oldSelf"),
    *,
    prefix: str = "",
    suffix: str = "",
) -> Program:
    """Compile for evaluation; every variable is dynamically typed.

    ``prefix`` and ``suffix`` wrap the expression on lines of their own (for bindings).

    Raises:
        CompileError: the expression does not parse or names something unknown.
    """
    env = _environment(tuple(variables), _searches_lists(expression))
    source = _make_optionals(expression)
    try:
        if prefix:
            _parse(env, source)
        source = f"{prefix}\n{source}\n{suffix}" if prefix else source
        return Program(env.compile(source))
    except (RuntimeError, ValueError) as why:
        if _only_mixed_numbers(str(why)):
            return Program(env.compile(source, disable_check=True))
        raise CompileError(_compile_text(str(why), shift=1 if prefix else 0)) from None


def parsed(expression: str) -> bytes | None:
    """The syntax tree of an expression, serialized; None where it does not parse."""
    env = _environment(("self", "oldSelf"), _searches_lists(expression))
    try:
        raw: bytes = env.compile(expression, disable_check=True).serialize()
    except (RuntimeError, ValueError):
        return None
    return raw


def check(
    expression: str,
    types: Mapping[str, str],
    *,
    pool: Any = None,
    prefix: str = "",
    suffix: str = "",
) -> str:
    """Type-check an expression against declared types; its result type in lower case.

    Raises:
        CompileError: with the checker's report.
    """
    return result_type(expression, types, pool=pool, prefix=prefix, suffix=suffix).lower()


def result_type(
    expression: str,
    types: Mapping[str, str],
    *,
    pool: Any = None,
    prefix: str = "",
    suffix: str = "",
) -> str:
    """The type of an expression's results as the engine spells it.

    It is UNKNOWN_TYPE where the engine cannot tell it (see ``_only_mixed_numbers``).

    Raises:
        CompileError: with the checker's report.
    """
    env = _checking_environment(tuple(sorted(types.items())), _searches_lists(expression), pool)
    try:
        if prefix:
            _parse(env, expression)
        wrapped = f"{prefix}\n{expression}\n{suffix}" if prefix else expression
        return str(env.compile(wrapped).return_type().name())
    except (RuntimeError, ValueError) as why:
        if _only_mixed_numbers(str(why)):
            return UNKNOWN_TYPE
        raise CompileError(_compile_text(str(why), shift=1 if prefix else 0)) from None


_MIXED_NUMBERS = re.compile(
    r"found no matching overload for '_(?:<|<=|>|>=)_' applied to "
    r"'\((?:int|uint|double), (?:int|uint|double)\)'"
)


def _only_mixed_numbers(text: str) -> bool:
    """Kubernetes compares numbers across types; this engine does too, but its checker refuses."""
    problems = [line for line in text.splitlines() if "ERROR: <input>" in line]
    return bool(problems) and all(_MIXED_NUMBERS.search(line) for line in problems)


def _parse(env: Any, expression: str) -> None:
    """Refuse what is no expression by itself, before bindings are wrapped around it."""
    try:
        env.compile(expression, disable_check=True)
    except (RuntimeError, ValueError) as why:
        raise CompileError(_compile_text(str(why), shift=0)) from None


STRINGS = re.compile(
    r"""[rRbB]{0,2}(?:\"{3}.*?\"{3}|'{3}.*?'{3}|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')|//[^\n]*""",
    re.DOTALL,
)
"""String literals and comments: what is in them is no code."""


def uses_variable(expression: str, name: str) -> bool:
    """Whether an identifier occurs outside strings and comments (and not as a field)."""
    bare = STRINGS.sub("''", expression)
    return re.search(rf"(?<![\w.]){name}\b", bare) is not None


def _searches_lists(expression: str) -> bool:
    return "ndexOf(" in expression


@cache
def _engine() -> Any:
    from cel_expr_python import cel

    return cel


@cache
def _config(list_search: bool) -> Any:
    names = ["optional", "bindings", "math", "sets", "lists", "encoders", "two-var-comprehensions"]
    if not list_search:
        names.append("strings")
    listed = "".join(f"- name: {name}\n" for name in names)
    return _engine().NewEnvConfigFromYaml(f"name: kubernetes\nextensions:\n{listed}")


@cache
def _environment(variables: tuple[str, ...], list_search: bool) -> Any:
    cel = _engine()
    return cel.NewEnv(
        config=_config(list_search),
        variables=dict.fromkeys(variables, cel.Type.DYN),
        functions=_declare(_functions(list_search), checked=False),
    )


_environments: dict[tuple[Any, ...], Any] = {}


def _checking_environment(types: tuple[tuple[str, str], ...], list_search: bool, pool: Any) -> Any:
    key = (types, list_search, id(pool))
    # Only the latest is kept: one schema's rules are checked one after the other.
    if key not in _environments:
        _environments.clear()
        _environments[key] = (
            _engine().NewEnv(
                descriptor_pool=pool,
                config=_config(list_search),
                variables={name: _type(text) for name, text in types},
                functions=_declare(_functions(list_search), checked=True),
            ),
            pool,
        )
    return _environments[key][0]


def _functions(list_search: bool) -> tuple[Signature, ...]:
    from corral.cluster.apiserver.cel.library import FUNCTIONS, LIST_SEARCH

    return FUNCTIONS + LIST_SEARCH if list_search else FUNCTIONS


def _declare(signatures: Iterable[Signature], *, checked: bool) -> list[Any]:
    """Function declarations, one per name; at run time one overload per tuple of kinds."""
    cel = _engine()
    overloads: dict[str, dict[Any, Any]] = {}
    for s in signatures:
        kinds = (s.member, s.params if checked else s.kinds)
        params = [_type(p if checked else kind_of(p)) for p in s.params]
        result = _type(s.result if checked else "map" if s.optional else kind_of(s.returns))
        name = _OPTIONAL_NAMES.get(s.name, s.name) if s.optional and not checked else s.name
        overload = cel.Overload(
            s.identity, result, params, s.member, None if checked else _guarded(s.call)
        )
        overloads.setdefault(name, {}).setdefault(kinds, overload)
    return [cel.FunctionDecl(name, list(found.values())) for name, found in overloads.items()]


def _guarded(call: Any) -> Any:
    """Refuse with the reason alone; the engine wraps whatever is raised."""

    def guarded(*args: Any) -> Any:
        try:
            return call(*args)
        except ValueError as why:
            raise ValueError(f"{_REASON}{why}{_REASON}") from None

    return guarded


@cache
def _type(text: str) -> Any:
    cel = _engine()
    if text in OPAQUE:
        return cel.Type.AbstractType(f"kubernetes.{text}")
    if text.startswith("optional_type<"):
        return cel.Type.AbstractType("optional_type", [_type(text[14:-1])])
    if text.startswith("list<"):
        return cel.Type.List(_type(text[5:-1]))
    if text.startswith("map<string, "):
        return cel.Type.Map(cel.Type.STRING, _type(text[12:-1]))
    if text.upper() in _PLAIN_TYPES:
        return getattr(cel.Type, text.upper())
    return cel.Type(text)


_PLAIN_TYPES = frozenset(
    "BOOL BYTES DOUBLE DURATION DYN INT LIST MAP NULL STRING TIMESTAMP TYPE UINT".split()
)

# Host functions cannot answer optionals, so calls of these are rewritten to select one from a
# map: ``x.validate(y)`` becomes ``x.validate_(y)[?'value']``.
_OPTIONAL_NAMES = {"validate": "validate_", "format.named": "format.named_"}
_OPTIONAL_CALL = re.compile(r"(\.validate|\bformat\.named)\s*\(")


def _make_optionals(expression: str) -> str:
    found = _OPTIONAL_CALL.search(expression)
    while found is not None:
        end = _closing(expression, found.end())
        inner = expression[found.end() : end]
        head = f"{expression[: found.start()]}{found[1]}_({inner})[?'value']"
        expression = head + expression[end + 1 :]
        found = _OPTIONAL_CALL.search(expression, found.start() + 1)
    return expression


def _closing(text: str, start: int) -> int:
    """Where the parenthesis opened just before ``start`` closes."""
    depth, at = 1, start
    while at < len(text):
        literal = STRINGS.match(text, at)
        if literal is not None and literal.end() > at:
            at = literal.end()
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1
    return len(text)


_REASON = "\x1f"
_STATUS = re.compile(r"^[A-Z_]+: ")
_ENDING = re.compile(r" \[[A-Z_]+\]$")
_LINE = re.compile(r"<input>:(\d+):")
_QUALIFIED = re.compile(
    r"<input>:(?P<line>\d+):(?P<column>\d+): undeclared reference to '(?P<name>\w+(?:\.\w+)+)'"
    r"(?P<rest>[^\n]*)\n \| (?P<source>[^\n]*)\n \| \.*\^"
)
_STRUCT = re.compile(r" not found in struct '[^']*'")
_TEXTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r'Key not found in map : "?(.*?)"?$'), r"no such key: \1"),
    (re.compile(r"Index error: index=(-?\d+) size=\d+"), r"index out of bounds: \1"),
    (re.compile(r"divide by zero"), "division by zero"),
    (re.compile(r"modulo by zero|modulus by zero"), "modulus by zero"),
    (re.compile(r"integer overflow|Integer overflow"), "integer overflow"),
    (
        re.compile(r"cannot convert (\w+) to (\w+)"),
        r"type conversion error from '\1' to '\2'",
    ),
    (
        re.compile(r"No matching overloads found.*|Applying SELECT to non-message.*"),
        "no such overload",
    ),
)


def _runtime_text(text: str) -> str:
    if _REASON in text:
        return text.split(_REASON)[1]
    text = _ENDING.sub("", _STATUS.sub("", text))
    for pattern, replacement in _TEXTS:
        found = pattern.search(text)
        if found is not None:
            return found.expand(replacement)
    return text


def _root_reference(found: re.Match[str]) -> str:
    """An unknown ``foo.a`` is reported as the unknown ``foo``, where that stands."""
    line, column, name, source = found["line"], int(found["column"]), found["name"], found["source"]
    start = column - len(name.rpartition(".")[0])
    root = name.partition(".")[0]
    if start < 1 or not source[start - 1 :].startswith(root):
        return found[0]
    head = f"<input>:{line}:{start}: undeclared reference to '{root}'{found['rest']}"
    return f"{head}\n | {source}\n | {'.' * (start - 1)}^"


def _compile_text(text: str, shift: int) -> str:
    text = _ENDING.sub("", _STATUS.sub("", text))
    text = _QUALIFIED.sub(_root_reference, _STRUCT.sub("", text))
    return _LINE.sub(lambda m: f"<input>:{max(1, int(m[1]) - shift)}:", text)
