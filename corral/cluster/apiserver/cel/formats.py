"""The named formats of the CEL format library, and the string checks behind them."""

from __future__ import annotations

import re
from collections.abc import Callable

__all__ = ["NAMED_FORMATS"]

_ALNUM = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL = re.compile(rf"{_ALNUM}\Z")
_SUBDOMAIN = re.compile(rf"{_ALNUM}(\.{_ALNUM})*\Z")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
_NAME_PART = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z")

LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', "
    "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_NAME_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_QUALIFIED_TEXT = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
    "used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS "
    "subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    "or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)

Check = Callable[[str], list[str]]


def dns_label(text: str) -> list[str]:
    return _problems(text, _LABEL, LABEL_TEXT, 63)


def dns_subdomain(text: str) -> list[str]:
    return _problems(text, _SUBDOMAIN, SUBDOMAIN_TEXT, 253)


def dns_1035_label(text: str) -> list[str]:
    return _problems(text, _LABEL_1035, LABEL_1035_TEXT, 63)


def label_value(text: str) -> list[str]:
    return _problems(text, _LABEL_VALUE, _VALUE_TEXT, 63)


def qualified_name(text: str) -> list[str]:
    parts = text.split("/")
    if len(parts) > 2:
        return [_QUALIFIED_TEXT]
    found: list[str] = []
    if len(parts) == 2:
        if not parts[0]:
            found.append("prefix part must be non-empty")
        else:
            found += [f"prefix part {problem}" for problem in dns_subdomain(parts[0])]
    if not parts[-1]:
        found.append("name part must be non-empty")
    elif len(parts[-1]) > 63:
        found.append("name part must be no more than 63 bytes")
    if not _NAME_PART.match(parts[-1]):
        found.append(_NAME_TEXT)
    return found


def _problems(text: str, form: re.Pattern[str], explanation: str, longest: int) -> list[str]:
    found = []
    if len(text.encode()) > longest:
        found.append(f"must be no more than {longest} bytes")
    if not form.match(text):
        found.append(explanation)
    return found


def _prefix(check: Check) -> Check:
    """A generateName prefix may end in a dash: the random part follows."""
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") and len(text) > 1 else text)


def _strfmt(name: str, problem: str) -> Check:
    def check(text: str) -> list[str]:
        from corral.cluster.apiserver.crd.formats import is_format

        return [] if is_format(name, text) else [problem]

    return check


def _uri(text: str) -> list[str]:
    from corral.cluster.apiserver.cel.network import parse_url

    try:
        parse_url(text)
    except ValueError as why:
        return [str(why).partition("from string: ")[2]]
    return []


NAMED_FORMATS: dict[str, Check] = {
    "dns1123Label": dns_label,
    "dns1123Subdomain": dns_subdomain,
    "dns1035Label": dns_1035_label,
    "qualifiedName": qualified_name,
    "dns1123LabelPrefix": _prefix(dns_label),
    "dns1123SubdomainPrefix": _prefix(dns_subdomain),
    "dns1035LabelPrefix": _prefix(dns_1035_label),
    "labelValue": label_value,
    "uri": _uri,
    "uuid": lambda text: [] if _UUID.match(text) else ["does not match the UUID format"],
    "byte": _strfmt("byte", "invalid base64"),
    "date": _strfmt("date", "invalid date"),
    "datetime": _strfmt("datetime", "invalid datetime"),
}
