"""Fields of requests, checked by the very rules that REST has for its query parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from google.protobuf.message import Message  # type: ignore[import-untyped]

from corral.gateway.problems import Refused
from corral.gateway.rest.params import Param

__all__ = ["read_fields"]

_FIELDS: Final = {"phase": "phases", "token": "page_token"}
"""Parameters whose field has another name than theirs in snake case."""


def read_fields(request: Message, params: Iterable[Param]) -> Mapping[str, Any]:
    """The value of every parameter, by its name in REST; its default where the field is not set.

    Raises:
        Refused: some are wrong; all of them are named.
    """
    values: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    given = {field.name: value for field, value in request.ListFields()}
    for param in params:
        field = _FIELDS.get(param.name) or _snake(param.name)
        try:
            values[param.name] = _read(param, given[field]) if field in given else param.default
        except ValueError as error:
            wrong.append((field, str(error)))
    if wrong:
        detail = "; ".join(f"{field}: {reported}" for field, reported in wrong)
        raise Refused("bad-request", detail, errors=tuple(wrong))
    return values


def _read(param: Param, given: Any) -> Any:
    if param.many:
        return tuple(param.read(word) for word in given)
    return param.read(str(given))


def _snake(name: str) -> str:
    return re.sub(r"([A-Z])", lambda found: f"_{found.group(1).lower()}", name)
