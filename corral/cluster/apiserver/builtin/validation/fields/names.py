"""Formats of names, labels, ports and keys, with the texts the API gives for each breach.

Every check returns the list of breaches (empty when the value is fine). The checks run on every
write, so each has one precompiled pattern and answers with a shared empty tuple when it matches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

__all__ = [
    "NameRule",
    "config_map_key",
    "dns1035_label",
    "dns_label",
    "dns_subdomain",
    "dns_subdomain_underscore",
    "env_name",
    "http_header_name",
    "in_range",
    "label_value",
    "name_any",
    "name_is_1035_label",
    "name_is_label",
    "name_is_path_segment",
    "name_is_subdomain",
    "path_segment",
    "percent",
    "port_name",
    "port_number",
    "qualified_name",
    "wildcard_subdomain",
]

Messages = Sequence[str]
NameRule = Callable[[str, bool], Messages]
"""``rule(name, is_prefix)``: what is wrong with a name (or with a generateName prefix)."""

OK: Messages = ()

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_UNDERSCORE = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_UNDERSCORES = rf"{_UNDERSCORE}(\.{_UNDERSCORE})*"
_LABEL_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD = rf"\*\.{_SUBDOMAIN}"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE = f"({_QUALIFIED})?"
_KEY = "[-._a-zA-Z0-9]+"

_label = re.compile(_LABEL).fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_underscores = re.compile(_UNDERSCORES).fullmatch
_label_1035 = re.compile(_LABEL_1035).fullmatch
_wildcard = re.compile(_WILDCARD).fullmatch
_qualified = re.compile(_QUALIFIED).fullmatch
_key = re.compile(_KEY).fullmatch
_port_chars = re.compile("[-a-z0-9]+").fullmatch
_a_letter = re.compile("[a-z]").search
_percent = re.compile("[0-9]+%").fullmatch
_header = re.compile("[-A-Za-z0-9]+").fullmatch
_env = re.compile(r"[ -<>-~]+").fullmatch


def regex_error(text: str, pattern: str, *examples: str) -> str:
    """The text of a pattern breach: what is wanted, examples, and the pattern."""
    if not examples:
        return f"{text} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{e}', " for e in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_TEXT = regex_error(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_TEXT = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_UNDERSCORES_TEXT = regex_error(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' "
    "or '.', and must start and end with an alphanumeric character",
    _UNDERSCORES,
    "example.com",
)
_LABEL_1035_TEXT = regex_error(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_WILDCARD_TEXT = regex_error(
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which "
    "must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric "
    "character",
    _WILDCARD,
    "*.example.com",
)
_QUALIFIED_TEXT = regex_error(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character",
    _QUALIFIED,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE_TEXT = regex_error(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)
_KEY_TEXT = regex_error(
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
    _KEY,
    "key.name",
    "KEY_NAME",
    "key-name",
)
_PERCENT_TEXT = regex_error(
    "a valid percent string must be a numeric string followed by an ending '%'",
    "[0-9]+%",
    "1%",
    "93%",
)
_HEADER_TEXT = regex_error(
    "a valid HTTP header must consist of alphanumeric characters or '-'",
    "[-A-Za-z0-9]+",
    "X-Header-Name",
)
_ENV_TEXT = (
    "a valid environment variable name must consist only of printable ASCII characters other "
    "than '='"
)
_PORT_NUMBER = ("must be between 1 and 65535, inclusive",)


def dns_label(value: str) -> Messages:
    if len(value) <= 63 and _label(value):
        return OK
    out = ["must be no more than 63 characters"] if len(value) > 63 else []
    if not _label(value):
        out.append("must not contain dots" if _subdomain(value) else _LABEL_TEXT)
    return out


def dns_subdomain(value: str) -> Messages:
    if len(value) <= 253 and _subdomain(value):
        return OK
    out = ["must be no more than 253 characters"] if len(value) > 253 else []
    if not _subdomain(value):
        out.append(_SUBDOMAIN_TEXT)
    return out


def dns_subdomain_underscore(value: str) -> Messages:
    out = ["must be no more than 253 characters"] if len(value) > 253 else []
    if not _underscores(value):
        out.append(_UNDERSCORES_TEXT)
    return out


def dns1035_label(value: str) -> Messages:
    if len(value) <= 63 and _label_1035(value):
        return OK
    out = ["must be no more than 63 characters"] if len(value) > 63 else []
    if not _label_1035(value):
        out.append(_LABEL_1035_TEXT)
    return out


def wildcard_subdomain(value: str) -> Messages:
    out = ["must be no more than 253 characters"] if len(value) > 253 else []
    if not _wildcard(value):
        out.append(_WILDCARD_TEXT)
    return out


def qualified_name(value: str) -> Messages:
    """A label key, finalizer or condition type: ``[prefix/]name``."""
    prefix, slash, name = value.rpartition("/")
    if not slash:
        if len(value) <= 63 and _qualified(value):
            return OK
        out: list[str] = []
    elif "/" in prefix:
        return [
            f"a valid label key {_QUALIFIED_TEXT} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    elif not prefix:
        out = ["prefix part must be non-empty"]
    else:
        out = [f"prefix part {m.replace('characters', 'bytes', 1)}" if m.startswith("must be no")
               else f"prefix part {m}" for m in dns_subdomain(prefix)]  # fmt: skip
    if not name:
        out.append("name part must be non-empty")
    elif len(name) > 63:
        out.append("name part must be no more than 63 bytes")
    if not _qualified(name):
        out.append(f"name part {_QUALIFIED_TEXT}")
    return out


def label_value(value: str) -> Messages:
    if not value or (len(value) <= 63 and _qualified(value)):
        return OK
    out = ["must be no more than 63 bytes"] if len(value) > 63 else []
    if not _qualified(value):
        out.append(_LABEL_VALUE_TEXT)
    return out


def config_map_key(value: str) -> Messages:
    if len(value) <= 253 and _key(value) and not value.startswith("."):
        return OK
    out = ["must be no more than 253 characters"] if len(value) > 253 else []
    if not _key(value):
        out.append(_KEY_TEXT)
    if value in (".", ".."):
        out.append(f"must not be '{value}'")
    elif value.startswith(".."):
        out.append("must not start with '..'")
    return out


def env_name(value: str) -> Messages:
    if _env(value):
        return OK
    return (_ENV_TEXT,) if value else ("environment variable name must be non-empty",)


def http_header_name(value: str) -> Messages:
    return OK if _header(value) else (_HEADER_TEXT,)


def percent(value: str) -> Messages:
    return OK if _percent(value) else (_PERCENT_TEXT,)


def port_number(value: int) -> Messages:
    return OK if 1 <= value <= 65535 else _PORT_NUMBER


def port_name(value: str) -> Messages:
    out = ["must be no more than 15 characters"] if len(value) > 15 else []
    if not _port_chars(value):
        out.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _a_letter(value):
        out.append("must contain at least one letter (a-z)")
    if "--" in value:
        out.append("must not contain consecutive hyphens")
    if value and (value[0] == "-" or value[-1] == "-"):
        out.append("must not begin or end with a hyphen")
    return out


def in_range(value: int, low: int, high: int) -> Messages:
    return OK if low <= value <= high else (f"must be between {low} and {high}, inclusive",)


def path_segment(value: str) -> Messages:
    if value in (".", ".."):
        return (f"may not be '{value}'",)
    return [f"may not contain '{c}'" for c in "/%" if c in value]


def _mask(name: str, is_prefix: bool) -> str:
    # A generateName may end in a dash: the suffix that follows makes it a name.
    return f"{name[:-2]}a" if is_prefix and len(name) > 1 and name[-1] == "-" else name


def name_is_subdomain(name: str, is_prefix: bool = False) -> Messages:
    return dns_subdomain(_mask(name, True) if is_prefix else name)


def name_is_label(name: str, is_prefix: bool = False) -> Messages:
    return dns_label(_mask(name, True) if is_prefix else name)


def name_is_1035_label(name: str, is_prefix: bool = False) -> Messages:
    return dns1035_label(_mask(name, True) if is_prefix else name)


def name_is_path_segment(name: str, is_prefix: bool = False) -> Messages:
    if is_prefix:
        return [f"may not contain '{c}'" for c in "/%" if c in name]
    return path_segment(name)


def name_any(name: str, is_prefix: bool = False) -> Messages:
    """Names that only have to be usable in a URL: the common check sees to that."""
    return OK
