"""Formats of names, labels and amounts, with the words of Kubernetes for what is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from corral.kube.quantity import Quantity

__all__ = ["amount", "dns_label", "dns_subdomain", "env_name", "label_value", "qualified_name"]

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_QUALIFIED: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_QUALIFIED})?"

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
    "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used "
    f"for validation is '{_LABEL}')"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
_NAME_TEXT: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    f"validation is '{_QUALIFIED}')"
)
_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  "
    f"or '12345', regex used for validation is '{_VALUE}')"
)

_ENV_TEXT: Final = (
    "a valid environment variable name must consist only of printable ASCII characters other than "
    "'='"
)

_label = re.compile(_LABEL).fullmatch
_env = re.compile(r"[ -<>-~]+").fullmatch
_subdomain = re.compile(_SUBDOMAIN).fullmatch
_qualified = re.compile(_QUALIFIED).fullmatch
_value = re.compile(_VALUE).fullmatch


def dns_label(text: str) -> Iterator[str]:
    yield from _long(text, 63)
    if not _label(text):
        yield _LABEL_TEXT


def dns_subdomain(text: str) -> Iterator[str]:
    yield from _long(text, 253)
    if not _subdomain(text):
        yield _SUBDOMAIN_TEXT


def env_name(text: str) -> Iterator[str]:
    if not _env(text):
        yield _ENV_TEXT


def label_value(text: str) -> Iterator[str]:
    yield from _long(text, 63)
    if not _value(text):
        yield _VALUE_TEXT


def qualified_name(text: str) -> Iterator[str]:
    """The key of a label or annotation: a name, with or without a domain before it."""
    prefix, slash, name = text.rpartition("/")
    if slash and not prefix:
        yield "prefix part must be non-empty"
    elif slash:
        yield from (f"prefix part {why}" for why in dns_subdomain(prefix))
    if not name:
        yield "name part must be non-empty"
    yield from (f"name part {why}" for why in _long(name, 63))
    if not _qualified(name):
        yield _NAME_TEXT


def _long(text: str, limit: int) -> Iterator[str]:
    if len(text) > limit:
        yield f"must be no more than {limit} bytes"


def amount(text: int | str | None) -> Quantity | None:
    """A quantity; none where there is none, or no quantity."""
    try:
        return Quantity.parse(str(text)) if text is not None else None
    except ValueError:
        return None
