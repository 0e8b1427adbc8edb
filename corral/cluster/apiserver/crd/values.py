"""Value validation: a schema compiled to closures that accept a value or say what is wrong.

Order, texts and error types are those of kube-apiserver's OpenAPI validator. Errors at a node
whose value did not change since ``old`` are dropped (ratcheting).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from corral.cluster.apiserver.crd.formats import FORMATS
from corral.cluster.apiserver.crd.junctors import compile_junctors
from corral.cluster.apiserver.crd.problems import (
    breach,
    go_number,
    name_of,
    whole,
    wrong_type,
)
from corral.cluster.apiserver.crd.types import MISSING, Errors, Validator, schema_types
from corral.cluster.apiserver.errors import not_supported, required, show, too_long, too_many
from corral.cluster.apiserver.patterns import compile_pattern
from corral.kube.types import Obj

__all__ = ["compile_values"]

Accept = Callable[[Any], bool]
Check = Callable[[Any, str, Errors], None]

_KINDS: dict[type, tuple[str, str]] = {
    bool: ("boolean", ""),
    str: ("string", ""),
    int: ("integer", "int64"),
    float: ("number", "float64"),
    list: ("array", ""),
    dict: ("object", ""),
}
_INT_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_MAX_FLOAT32 = 3.4028234663852886e38


def compile_values(schema: Obj) -> Validator:
    """The validator of a schema node and everything below it."""
    check_type = _type_check(schema)
    junctors = compile_junctors(schema, compile_values)
    by_kind: dict[type, Sequence[Check]] = {
        str: _string_checks(schema),
        int: _number_checks(schema),
        float: _number_checks(schema),
    }
    items = _items(schema)
    enum = _enum_check(schema)
    fields = _fields(schema)
    plain = junctors is None and enum is None

    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        start = len(out)
        if check_type is not None:
            check_type(value, path, out)
        if value is not None:
            if junctors is not None:
                junctors(value, path, out, old)
            kind = type(value)
            for check in by_kind.get(kind, ()):
                check(value, path, out)
            if kind is list and items is not None:
                items(value, path, out, old)
        if enum is not None:
            enum(value, path, out)
        if fields is not None and type(value) is dict:
            fields(value, path, out, old)
        if len(out) > start and old is not MISSING and value == old:
            del out[start:]

    if plain and schema.get("type") == "object" and fields is not None:
        return _only(dict, fields, validate)
    if plain and schema.get("type") == "array" and items is not None:
        return _only(list, items, validate)
    return validate


def _only(kind: type, inner: Validator, otherwise: Validator) -> Validator:
    """The short way for values of the one kind the schema wants."""

    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        if type(value) is not kind:
            otherwise(value, path, out, old)
            return
        start = len(out)
        inner(value, path, out, old)
        if len(out) > start and old is not MISSING and value == old:
            del out[start:]

    return validate


def _type_check(schema: Obj) -> Check | None:
    types = schema_types(schema)
    if not types:
        return None
    expected, nullable = ",".join(types), bool(schema.get("nullable"))
    format_ = effective_format(schema)
    numeric = "number" in types or "integer" in types

    def check(value: Any, path: str, out: Errors) -> None:
        if value is None:
            if not nullable:
                out.append(wrong_type(path, expected, "null"))
            return
        kind, own_format = _KINDS[type(value)]
        if kind in types or (kind == "integer" and "number" in types):
            return
        if kind == "number" and "integer" in types and value.is_integer():
            return
        if format_ and kind in ("string", "array"):
            if numeric:
                out.append(wrong_type(path, expected, kind))
        elif format_ and own_format != format_:
            out.append(wrong_type(path, format_, own_format))
        else:
            out.append(wrong_type(path, expected, kind))

    return check


def effective_format(schema: Obj) -> str:
    """The format where kube-apiserver knows it for the type, else nothing."""
    format_, kind = schema.get("format") or "", schema.get("type") or ""
    if schema.get("x-kubernetes-int-or-string"):
        return ""
    known = {"integer": ("int32", "int64"), "number": ("float", "double")}
    if kind in known:
        return format_ if format_ in known[kind] else ""
    if kind in ("", "string"):
        return format_ if format_.replace("-", "") in FORMATS else ""
    return ""


def _string_checks(schema: Obj) -> list[Check]:
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    pattern, format_ = schema.get("pattern"), effective_format(schema)
    checks: list[Check] = []
    if longest is not None or shortest is not None or pattern:
        search = compile_pattern(pattern) if pattern else None

        def text(value: str, path: str, out: Errors) -> None:
            if longest is not None and len(value) > longest:
                out.append(too_long(name_of(path), longest))
            elif shortest is not None and len(value) < shortest:
                out.append(breach(path, value, f"should be at least {shortest} chars long"))
            elif search is not None and search(value) is None:
                out.append(breach(path, value, f"should match '{pattern}'"))

        checks.append(text)
    has_format = FORMATS.get(format_.replace("-", "")) if format_ else None
    if has_format is not None:

        def formatted(value: str, path: str, out: Errors) -> None:
            if not has_format(value):
                out.append(wrong_type(path, format_, value))

        checks.append(formatted)
    return checks


def _number_checks(schema: Obj) -> list[Check]:
    checks: list[Check] = []
    kind = schema.get("type") if not schema.get("x-kubernetes-int-or-string") else ""
    if kind in ("integer", "number"):
        checks.append(partial(_check_range, kind, effective_format(schema)))
    if schema.get("multipleOf") is not None:
        checks.append(partial(_check_multiple, schema["multipleOf"]))
    for bound, word, sign in (("minimum", "greater", -1), ("maximum", "less", 1)):
        limit = schema.get(bound)
        if limit is not None:
            exclusive = bool(schema.get(f"exclusive{bound.capitalize()}"))
            checks.append(partial(_check_bound, limit, sign, exclusive, word))
    return checks


def _check_range(kind: str, format_: str, value: Any, path: str, out: Errors) -> None:
    if kind == "integer":
        low, high = _INT_RANGES.get(format_, _INT_RANGES["int64"])
        fine = (type(value) is int or value.is_integer()) and low <= value <= high
    else:
        fine = format_ != "float" or abs(value) <= _MAX_FLOAT32
    if not fine:
        described = f"with format {format_}" if format_ else "(default format)"
        out.append(whole(f"Checked value must be of type {kind} {described} in {path}"))


def _check_multiple(factor: float, value: Any, path: str, out: Errors) -> None:
    if type(value) is int and float(factor).is_integer():
        fine = value % int(factor) == 0
    else:
        ratio = value / factor
        fine = abs(ratio - round(ratio)) < 1e-9
    if not fine:
        shown = int(factor) if type(value) is int else factor
        out.append(breach(path, value, f"should be a multiple of {go_number(shown)}"))


def _check_bound(
    limit: float, sign: int, exclusive: bool, word: str, value: Any, path: str, out: Errors
) -> None:
    if type(value) is int and type(limit) is float and limit.is_integer():
        limit = int(limit)
    over = (value - limit) * sign
    if over > 0 or (exclusive and over == 0):
        tail = "" if exclusive else " or equal to"
        shown = int(limit) if type(value) is int else limit
        text = f"should be {word} than{tail} {go_number(shown)}"
        out.append(breach(path, value, text))


def _enum_check(schema: Obj) -> Check | None:
    allowed = schema.get("enum")
    if not allowed:
        return None
    names = [v if isinstance(v, str) else show(v) for v in allowed]

    def check(value: Any, path: str, out: Errors) -> None:
        for choice in allowed:
            if value == choice and (type(value) is bool) == (type(choice) is bool):
                if value is not None:
                    return
        out.append(not_supported(name_of(path), value, names))

    return check


def _items(schema: Obj) -> Validator | None:
    item = schema.get("items")
    fewest, most = schema.get("minItems"), schema.get("maxItems")
    unique = schema.get("uniqueItems")
    inner = compile_values(item) if isinstance(item, dict) else None
    accept = compile_accept(item) if isinstance(item, dict) else None
    keys = schema.get("x-kubernetes-list-map-keys") or []
    keyed = schema.get("x-kubernetes-list-type") == "map" and bool(keys)
    if inner is None and fewest is None and most is None and not unique:
        return None

    def validate(value: list[Any], path: str, out: Errors, old: Any) -> None:
        if inner is not None:
            find = correlator(old, keys) if keyed and type(old) is list else _uncorrelated
            for i, item_value in enumerate(value):
                if accept is None or not accept(item_value):
                    inner(item_value, f"{path}[{i}]", out, find(item_value))
        size = len(value)
        if fewest is not None and size < fewest:
            out.append(breach(path, size, f"should have at least {fewest} items"))
        if most is not None and size > most:
            out.append(too_many(name_of(path), size, most))
        if unique and any(item in value[:i] for i, item in enumerate(value)):
            out.append(breach(path, "", "shouldn't contain duplicates"))

    return validate


def correlator(old: Any, keys: Sequence[str]) -> Callable[[Any], Any]:
    """The function from an item to the item of an old list-map with the same keys, or MISSING."""
    if type(old) is not list or not old:
        return _uncorrelated
    known: dict[Any, Any] = {}
    for candidate in old:
        key = _key(candidate, keys)
        if key is not None:
            known.setdefault(key, candidate)
    return lambda item: known.get(_key(item, keys), MISSING)


def _uncorrelated(item: Any) -> Any:
    return MISSING


def _key(item: Any, keys: Sequence[str]) -> Any:
    """The values of the keys with their types; None where one is missing or not a scalar."""
    if type(item) is not dict:
        return None
    values = tuple(item.get(k) for k in keys)
    kinds = tuple(map(type, values))
    return (kinds, values) if all(kind in (str, int, float, bool) for kind in kinds) else None


def _fields(schema: Obj) -> Validator | None:
    children: dict[str, tuple[Accept | None, Validator]] = {
        name: (compile_accept(sub), compile_values(sub))
        for name, sub in (schema.get("properties") or {}).items()
    }
    more = schema.get("additionalProperties")
    extra = (compile_accept(more), compile_values(more)) if isinstance(more, dict) else None
    needed: Sequence[str] = tuple(schema.get("required") or ())
    fewest, most = schema.get("minProperties"), schema.get("maxProperties")
    limited = fewest is not None or most is not None
    closed = more is False
    if not (children or extra or needed or limited or closed):
        return None

    def validate(value: Mapping[str, Any], path: str, out: Errors, old: Any) -> None:
        if limited:
            _check_size(len(value), fewest, most, path, out)
        previous: Mapping[str, Any] = old if type(old) is dict else {}
        for name, item in value.items():
            child = children.get(name, extra)
            if child is None:
                if closed:
                    out.append(_not_allowed(path, name))
                continue
            accept, inner = child
            if accept is not None and accept(item):
                continue
            dotted = f"{path}.{name}" if path or child is extra else name
            inner(item, dotted, out, previous.get(name, MISSING))
        for name in needed:
            if name not in value:
                out.append(required(name_of(f"{path}.{name}")))

    return validate


def _check_size(size: int, fewest: int | None, most: int | None, path: str, out: Errors) -> None:
    if fewest is not None and size < fewest:
        out.append(breach(path, size, f"should have at least {fewest} properties"))
    if most is not None and size > most:
        out.append(too_many(name_of(path), size, most))


def _not_allowed(path: str, name: str) -> Any:
    from corral.cluster.apiserver.errors import invalid_value

    return invalid_value(name_of(path), name, f"{path}.{name} in body is a forbidden property")


_INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")


def compile_accept(schema: Obj) -> Accept | None:
    """A quick test for scalars: true only for values that are surely valid."""
    if schema.get("x-kubernetes-int-or-string"):
        return _accept_int_or_string(schema)
    if any(j in schema for j in _JUNCTORS):
        return None
    kind = schema.get("type")
    if kind == "string":
        return _accept_string(schema)
    if kind == "boolean" and not schema.get("enum"):
        return lambda value: type(value) is bool
    if kind == "integer" and not schema.get("enum") and schema.get("multipleOf") is None:
        return _accept_integer(schema)
    return None


def _accept_int_or_string(schema: Obj) -> Accept | None:
    usual = {"x-kubernetes-int-or-string", "anyOf", "pattern", "description", "default"}
    if schema.get("anyOf", _INT_OR_STRING) != _INT_OR_STRING or not schema.keys() <= usual:
        return None
    search = compile_pattern(schema["pattern"]) if schema.get("pattern") else None

    def accept(value: Any) -> bool:
        if type(value) is str:
            return search is None or search(value) is not None
        return type(value) is int

    return accept


def _accept_string(schema: Obj) -> Accept | None:
    if schema.get("enum"):
        choices = frozenset(v for v in schema["enum"] if isinstance(v, str))
        plain = not _string_checks(schema)
        return (lambda value: type(value) is str and value in choices) if plain else None
    longest, shortest = schema.get("maxLength"), schema.get("minLength")
    if schema.get("pattern") or effective_format(schema):
        checks = _string_checks(schema)

        def accept(value: Any) -> bool:
            if type(value) is not str:
                return False
            found: Errors = []
            for check in checks:
                check(value, "", found)
            return not found

        return accept
    if longest is None and shortest is None:
        return lambda value: type(value) is str
    low, high = shortest or 0, longest if longest is not None else 1 << 62
    return lambda value: type(value) is str and low <= len(value) <= high


def _accept_integer(schema: Obj) -> Accept:
    low, high = _INT_RANGES.get(effective_format(schema), _INT_RANGES["int64"])
    lower, upper = schema.get("minimum"), schema.get("maximum")
    if lower is not None:
        low = max(low, int(lower) + bool(schema.get("exclusiveMinimum")))
    if upper is not None:
        high = min(high, int(upper) - bool(schema.get("exclusiveMaximum")))
    return lambda value: type(value) is int and low <= value <= high
