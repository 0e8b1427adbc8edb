"""Kubernetes' CEL function libraries, as one table for the engine.

Every function is listed twice over: with the types rules are checked against, and with the kinds
of value that carry it at run time. Quantities, URLs, versions, formats and authorization checks
are maps at run time (``{"": text, …}``); addresses and networks are strings, so ``string()`` works
on them as it should.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

from corral.cluster.apiserver.cel import network, semver
from corral.cluster.apiserver.cel.authorization import AUTHORIZATION
from corral.cluster.apiserver.cel.formats import NAMED_FORMATS
from corral.cluster.apiserver.cel.quantity import is_quantity, parse_quantity
from corral.cluster.apiserver.cel.signatures import Signature, fn, method
from corral.cluster.apiserver.patterns import compiled

__all__ = ["FUNCTIONS", "LIST_SEARCH", "Signature"]

Map = dict[str, Any]


def _make_quantity(text: str) -> Map:
    return _quantity(parse_quantity(text))


def _as_int(q: Map) -> int:
    value = _amount(q)
    if value.denominator != 1 or not -(2**63) <= value < 2**63:
        raise ValueError("cannot convert value to integer")
    return int(value)


def _quantity(value: Fraction) -> Map:
    return {"": "quantity", "value": str(value)}


def _compare(parse: Callable[[Map], Any]) -> Callable[[Map, Map], int]:
    def compare(a: Map, b: Map) -> int:
        left, right = parse(a), parse(b)
        return int(left > right) - int(left < right)

    return compare


def _amount(q: Map) -> Fraction:
    return Fraction(q["value"])


def _version(v: Map) -> semver.Version:
    return semver.parse_version(v["value"], v["normalize"])


def _make_version(text: str, normalize: bool = False) -> Map:
    semver.parse_version(text, normalize)
    return {"": "semver", "value": text, "normalize": normalize}


def _holds(parse: Callable[..., Any]) -> Callable[..., bool]:
    def holds(*args: Any) -> bool:
        try:
            parse(*args)
        except ValueError:
            return False
        return True

    return holds


def _make_url(text: str) -> Map:
    network.parse_url(text)
    return {"": "url", "value": text}


def _url(part: Callable[[Any], Any]) -> Callable[[Map], Any]:
    return lambda u: part(network.parse_url(u["value"]))


def _ip(part: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda text: part(ipaddress.ip_address(text))


def _cidr(part: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda text: part(ipaddress.ip_interface(text))


def _canonical(text: str) -> bool:
    return network.canonical_ip(text) == text


def _find(text: str, pattern: str) -> str:
    found = compiled(pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    found = [match[0] for match in compiled(pattern).finditer(text)]
    return found if limit < 0 else found[:limit]


def _sorted(items: Sequence[Any]) -> bool:
    return all(a <= b for a, b in pairwise(items))


def _total(items: Sequence[Any]) -> Any:
    return sum(items[1:], items[0]) if items else 0


def _extreme(pick: Callable[[Sequence[Any]], Any], name: str) -> Callable[[Sequence[Any]], Any]:
    def extreme(items: Sequence[Any]) -> Any:
        if not items:
            raise ValueError(f"{name} called on empty list")
        return pick(items)

    return extreme


def _index(items: Sequence[Any], item: Any) -> int:
    return items.index(item) if item in items else -1


def _last_index(items: Sequence[Any], item: Any) -> int:
    return len(items) - 1 - items[::-1].index(item) if item in items else -1


def _validate(fmt: Map, text: str) -> Map:
    problems = NAMED_FORMATS[fmt["value"]](text)
    return {"value": problems} if problems else {}


def _named_format(name: str) -> Map:
    return {"value": _format(name)} if name in NAMED_FORMATS else {}


def _format(name: str) -> Map:
    return {"": "format", "value": name}


_SCALARS = ("int", "double", "uint", "string", "bool", "bytes", "timestamp", "duration")
_ANY = (*_SCALARS, "list", "map", "null")
_Q, _V, _U, _F = "Quantity", "Semver", "URL", "Format"

_ADD = {"add": 1, "sub": -1}
_POINTER_ESCAPES = str.maketrans({"/": "~1", "~": "~0"})

FUNCTIONS: tuple[Signature, ...] = (
    fn("quantity", ["string"], _Q, _make_quantity),
    fn("isQuantity", ["string"], "bool", is_quantity),
    method("sign", [_Q], "int", lambda q: (_amount(q) > 0) - (_amount(q) < 0)),
    method("asInteger", [_Q], "int", _as_int),
    method("asApproximateFloat", [_Q], "double", lambda q: float(_amount(q))),
    method("isInteger", [_Q], "bool", _holds(_as_int)),
    *(
        method(
            name, [_Q, other], _Q, lambda q, o, s=sign, p=parse: _quantity(_amount(q) + s * p(o))
        )
        for name, sign in _ADD.items()
        for other, parse in ((_Q, _amount), ("int", int))
    ),
    fn("semver", ["string"], _V, _make_version),
    fn("semver", ["string", "bool"], _V, _make_version),
    fn("isSemver", ["string"], "bool", _holds(_make_version)),
    fn("isSemver", ["string", "bool"], "bool", _holds(_make_version)),
    method("major", [_V], "int", lambda v: _version(v).numbers[0]),
    method("minor", [_V], "int", lambda v: _version(v).numbers[1]),
    method("patch", [_V], "int", lambda v: _version(v).numbers[2]),
    *(
        method(name, [kind, kind], result, lambda a, b, r=read: r(_ordered(a, b)))
        for name, result, read in (
            ("isGreaterThan", "bool", lambda n: n > 0),
            ("isLessThan", "bool", lambda n: n < 0),
            ("compareTo", "int", lambda n: n),
        )
        for kind in (_Q, _V)
    ),
    fn("url", ["string"], _U, _make_url),
    fn("isURL", ["string"], "bool", _holds(_make_url)),
    method("getScheme", [_U], "string", _url(lambda u: u.scheme)),
    method("getHost", [_U], "string", _url(network.host)),
    method("getHostname", [_U], "string", _url(lambda u: u.hostname or "")),
    method("getPort", [_U], "string", _url(lambda u: str(u.port or ""))),
    method("getEscapedPath", [_U], "string", _url(network.escaped_path)),
    method("getQuery", [_U], "map<string, list<string>>", _url(network.query)),
    # An address is a string to the checker too (dyn as a result): string(ip) must type-check.
    fn("ip", ["string"], "dyn", network.canonical_ip, returns="string"),
    method("ip", ["string"], "dyn", _cidr(lambda c: str(c.ip)), returns="string"),
    fn("isIP", ["string"], "bool", _holds(network.canonical_ip)),
    fn("ip.isCanonical", ["string"], "bool", _canonical),
    method("family", ["string"], "int", _ip(lambda ip: ip.version)),
    method("isUnspecified", ["string"], "bool", _ip(lambda ip: ip.is_unspecified)),
    method("isLoopback", ["string"], "bool", _ip(lambda ip: ip.is_loopback)),
    method("isLinkLocalMulticast", ["string"], "bool", _ip(network.is_link_local_multicast)),
    method(
        "isLinkLocalUnicast",
        ["string"],
        "bool",
        _ip(lambda ip: ip.is_link_local and not ip.is_multicast),
    ),
    method("isGlobalUnicast", ["string"], "bool", network.is_global_unicast),
    fn("cidr", ["string"], "dyn", network.canonical_cidr, returns="string"),
    fn("isCIDR", ["string"], "bool", _holds(network.canonical_cidr)),
    method("containsIP", ["string", "string"], "bool", network.contains),
    method("containsCIDR", ["string", "string"], "bool", network.contains),
    method("prefixLength", ["string"], "int", _cidr(lambda c: c.network.prefixlen)),
    method("masked", ["string"], "dyn", _cidr(lambda c: str(c.network)), returns="string"),
    method("find", ["string", "string"], "string", _find),
    method("findAll", ["string", "string"], "list<string>", _find_all),
    method("findAll", ["string", "string", "int"], "list<string>", _find_all),
    *(method("isSorted", [f"list<{t}>"], "bool", _sorted) for t in _SCALARS),
    *(
        method("sum", [f"list<{t}>"], t, _total, returns="dyn")
        for t in ("int", "uint", "double", "duration")
    ),
    *(
        method(name, [f"list<{t}>"], t, _extreme(pick, name), returns="dyn")
        for name, pick in (("min", min), ("max", max))
        for t in _SCALARS
    ),
    *(
        method("includes", ["list", kind], "bool", lambda items, item: item in items)
        for kind in _ANY
    ),
    *(fn(f"format.{name}", [], _F, lambda n=name: _format(n)) for name in NAMED_FORMATS),
    method("validate", [_F, "string"], "dyn", _validate, optional=True),
    fn("format.named", ["string"], "dyn", _named_format, optional=True),
    fn("jsonpatch.escapeKey", ["string"], "string", lambda s: s.translate(_POINTER_ESCAPES)),
    *AUTHORIZATION,
)


def _ordered(a: Map, b: Map) -> int:
    if a[""] != b[""]:
        raise ValueError("no such overload")
    return _BY_KIND[a[""]](a, b)


_BY_KIND: dict[str, Callable[[Map, Map], int]] = {
    "quantity": _compare(_amount),
    "semver": _compare(_version),
}

# The engine's own string library claims these names, so expressions that use them get this set
# in place of that library: list searches and the string functions that go with them.
LIST_SEARCH: tuple[Signature, ...] = (
    *(method("indexOf", ["list", kind], "int", _index) for kind in _ANY),
    *(method("lastIndexOf", ["list", kind], "int", _last_index) for kind in _ANY),
    method("indexOf", ["string", "string"], "int", lambda s, x: s.find(x)),
    method("indexOf", ["string", "string", "int"], "int", lambda s, x, n: s.find(x, n)),
    method("lastIndexOf", ["string", "string"], "int", lambda s, x: s.rfind(x)),
    method("lastIndexOf", ["string", "string", "int"], "int", lambda s, x, n: s.rfind(x, 0, n + 1)),
    method("charAt", ["string", "int"], "string", lambda s, n: s[n : n + 1]),
    method("lowerAscii", ["string"], "string", lambda s: s.lower()),
    method("upperAscii", ["string"], "string", lambda s: s.upper()),
    method("trim", ["string"], "string", lambda s: s.strip()),
    method("replace", ["string", "string", "string"], "string", lambda s, a, b: s.replace(a, b)),
    method(
        "replace",
        ["string", "string", "string", "int"],
        "string",
        lambda s, a, b, n: s.replace(a, b, n),
    ),
    method("split", ["string", "string"], "list<string>", lambda s, x: _split(s, x, -1)),
    method("split", ["string", "string", "int"], "list<string>", lambda s, x, n: _split(s, x, n)),
    method("substring", ["string", "int"], "string", lambda s, a: s[a:]),
    method("substring", ["string", "int", "int"], "string", lambda s, a, b: s[a:b]),
    method("join", ["list"], "string", lambda items: "".join(items)),
    method("join", ["list", "string"], "string", lambda items, by: by.join(items)),
)


def _split(text: str, by: str, limit: int) -> list[str]:
    if limit == 0:
        return []
    if not by:
        return list(text) if limit < 0 else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(by, -1 if limit < 0 else limit - 1)
