"""`Ask`: one request, taken apart and checked, as a view gets it.

Names and namespaces are checked before anything is sent anywhere; a body is read within its limit,
whatever its headers promise, and is a JSON object or refused.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from starlette.requests import ClientDisconnect, Request

from corral.client.kinds import JobKind
from corral.gateway.auth import Caller
from corral.gateway.limits import LimitSettings
from corral.gateway.problems import Refused
from corral.gateway.rest.answers import Open

if TYPE_CHECKING:
    from corral.gateway.rest.fanout import Fanout
    from corral.gateway.service import Gateway
    from corral.gateway.uploads import Uploads

__all__ = ["Ask", "Where", "checked_name"]

NAME: Final = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
NAMESPACE: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_PATTERNS: Final = {"name": re.compile(NAME), "namespace": re.compile(NAMESPACE)}
_ID: Final = re.compile(r"[\x21-\x7e]{1,200}")


def checked_name(what: str, written: str) -> str:
    """A name as the API server would take it.

    Raises:
        Refused: nothing can have this name.
    """
    if not _PATTERNS[what].fullmatch(written):
        detail = f"nothing can have the {what} {written[:80]!r}: lower case letters, digits and -"
        raise Refused("bad-request", detail, errors=((what, "is no name of Kubernetes"),))
    return written


@dataclass(frozen=True, slots=True)
class Where:
    """What a path leads to."""

    kind: JobKind
    namespace: str | None
    """None: all of them."""
    name: str = ""
    index: int | None = None
    """Of a worker."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of somebody."""

    request: Request
    where: Where
    query: Mapping[str, Any]
    caller: Caller
    gateway: Gateway
    limits: LimitSettings
    flows: Open
    fanout: Fanout
    uploads: Uploads

    @property
    def kind(self) -> JobKind:
        return self.where.kind

    @property
    def namespace(self) -> str:
        """Of an operation that has one."""
        return self.where.namespace or ""

    @property
    def name(self) -> str:
        return self.where.name

    @property
    def one(self) -> dict[str, Any]:
        """Which object the request is about."""
        return {"namespace": self.namespace, "name": self.name}

    def header(self, name: str) -> str:
        """A header, empty without it."""
        return self.request.headers.get(name, "").strip()

    def token(self, name: str) -> str:
        """A header that is one word. Raises Refused."""
        value = self.header(name)
        if value and not _ID.fullmatch(value):
            detail = "must be at most 200 printable characters without a space"
            raise Refused("bad-request", f"{name} {detail}", errors=((name, detail),))
        return value

    async def body(self, *types: str) -> Any:
        """The JSON value of the body.

        Raises:
            Refused: it is too large, of another type than these, or no JSON.
        """
        sent = self.header("content-type").partition(";")[0].strip().lower()
        if sent not in types:
            detail = f"the body must be {' or '.join(types)}, not {sent or 'untyped'}"
            raise Refused("unsupported-media-type", detail)
        content = await self.content()
        try:
            return orjson.loads(content)
        except orjson.JSONDecodeError as error:
            raise Refused("bad-request", f"the body is no JSON: {error}") from None

    async def object(self, *types: str) -> dict[str, Any]:
        """The JSON object of the body. Raises Refused."""
        value = await self.body(*(types or ("application/json",)))
        if not isinstance(value, dict):
            raise Refused("bad-request", "the body must be a JSON object")
        return value

    async def content(self) -> bytes:
        """The body, of any type. Raises Refused."""
        most = self.limits.body_bytes
        parts, size = [], 0
        try:
            async for part in _stream(self.request):
                size += len(part)
                if size > most:
                    raise Refused("too-large", f"a body may have {most} bytes")
                parts.append(part)
        except ClientDisconnect:
            raise Refused("bad-request", "the body ended early") from None
        return b"".join(parts)

    async def save(self, target: Path, *types: str, most: int) -> str:
        """Write the body to a file, whatever its size up to so many bytes; its content type.

        Raises:
            Refused: it is too large, ends early, or is of another type than these.
        """
        sent = self.header("content-type")
        if sent.partition(";")[0].strip().lower() not in types:
            detail = f"the body must be {' or '.join(types)}, not {sent or 'untyped'}"
            raise Refused("unsupported-media-type", detail)
        size = 0
        try:
            with target.open("wb") as file:
                async for part in _stream(self.request):
                    size += len(part)
                    if size > most:
                        raise Refused("too-large", f"a body may have {most} bytes")
                    file.write(part)
        except ClientDisconnect:
            raise Refused("bad-request", "the body ended early") from None
        return sent


async def _stream(request: Request) -> AsyncIterator[bytes]:
    async for part in request.stream():
        yield part
