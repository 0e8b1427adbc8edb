"""HTTP to registries: connections, who we are, redirects, tries, and the mapping of errors.

Guarantees:
- A refusal is raised as a `RegistryError` of its kind, and no answer at all as `Unavailable`;
  nothing else about HTTP leaves this package.
- A request is sent again only where its sender said that this is safe.
- Who we are is never told to another server than the registry and its token service; a redirect
  from TLS to none is refused.
- Nothing is read without a limit.
- With `ClientSettings.egress`, no server is called that it does not permit, nor by a redirect; and
  of what a registry says that is not in the mapping, only the status and known codes are repeated.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from io import BytesIO
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from corral.egress.dialing import checked_async
from corral.egress.http import connector
from corral.egress.policy import EgressPolicy, EndpointRefused
from corral.egress.reading import load_json
from corral.oci.authorization import Authorization
from corral.oci.errors import (
    Denied,
    DigestMismatch,
    NotFound,
    RegistryError,
    TooLarge,
    Unavailable,
)
from corral.oci.reference import Reference
from corral.oci.registries import Registries
from corral.oci.settings import ClientSettings

__all__ = ["Body", "Transport", "read_all"]

Body = Callable[[], BytesIO | AsyncIterable[bytes]]
"""Makes the body, anew for each try."""

PULL: Final = "pull"
PUSH: Final = "pull,push"
DELETE: Final = "delete,pull"

_AGAIN: Final = frozenset({408, 429, 500, 502, 503, 504})
_MOVED: Final = frozenset({301, 302, 303, 307, 308})
_REDIRECTS: Final = 5
_CODES: Final = frozenset(
    {
        "BLOB_UNKNOWN", "BLOB_UPLOAD_INVALID", "BLOB_UPLOAD_UNKNOWN", "DENIED", "DIGEST_INVALID",
        "MANIFEST_BLOB_UNKNOWN", "MANIFEST_INVALID", "MANIFEST_UNKNOWN", "NAME_INVALID",
        "NAME_UNKNOWN", "SIZE_INVALID", "TOOMANYREQUESTS", "UNAUTHORIZED", "UNSUPPORTED",
    }
)  # fmt: skip
"""What the distribution specification lets a registry say."""
_BUFFER: Final = 256 << 10
"""Bytes that a connection reads ahead."""


class Transport:
    """The connections to all registries, opened when first needed; `close` ends them."""

    def __init__(
        self,
        registries: Registries,
        settings: ClientSettings,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.registries = registries
        self.settings = settings
        self._sleep = sleep
        self._authorization = Authorization(registries, self._ask_token_service)
        self._trusted: dict[str | None, ssl.SSLContext] = {}
        self._session: aiohttp.ClientSession | None = None
        self._egress: EgressPolicy | None = None
        if settings.egress is not None:
            own = (endpoint.url for endpoint in registries.mapping.values())
            self._egress = settings.egress.allowing(*own)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    def url(self, reference: Reference, path: str) -> str:
        """Of something in the repository of a reference."""
        base = self.registries.endpoint(reference.registry).url.rstrip("/")
        return f"{base}/v2/{reference.repository}/{path}"

    async def pause(self, failures: int) -> None:
        """Wait before the next try."""
        wait = min(self.settings.first_wait * 2 ** (failures - 1), self.settings.longest_wait)
        await self._sleep(wait * random.uniform(0.75, 1.25))

    @asynccontextmanager
    async def send(
        self,
        reference: Reference,
        method: str,
        url: str,
        *,
        actions: str = PULL,
        headers: Mapping[str, str] | None = None,
        body: Body | None = None,
        repeat: bool = True,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """A request and its answer, which is below 300, or raised as an error.

        ``repeat`` says that it does no harm to send it twice.
        """
        tries = self.settings.tries if repeat else 1
        failures = 0
        while True:
            try:
                response = await self._authorized(reference, method, url, actions, headers, body)
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                failures += 1
                if failures >= tries:
                    raise self.broken(reference, error) from error
                await self.pause(failures)
                continue
            async with response:
                if response.status < 300:
                    yield response
                    return
                refusal = await self._refusal(reference, response)
                failures += 1
                if response.status not in _AGAIN or failures >= tries:
                    raise refusal
                wait = _retry_after(response)
            if wait is None:
                await self.pause(failures)
            else:
                await self._sleep(min(wait, self.settings.longest_wait))

    async def get(
        self,
        reference: Reference,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limit: int,
    ) -> tuple[bytes, CIMultiDictProxy[str]]:
        """A whole answer, read again where it broke off, and its headers. Raises TooLarge."""
        failures = 0
        while True:
            async with self.send(reference, "GET", url, headers=headers) as response:
                try:
                    return await read_all(response, limit), response.headers
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    failures += 1
                    if failures >= self.settings.tries:
                        raise self.broken(reference, error) from error
            await self.pause(failures)

    def broken(self, reference: Reference, cause: BaseException) -> Unavailable:
        """The error for a connection that could not be made or was lost."""
        url = self.registries.endpoint(reference.registry).url
        return Unavailable(
            f"the registry {reference.registry} gives no answer at {url} "
            f"({_words(cause)}): see that it runs and can be reached from here"
        )

    # -- one try -------------------------------------------------------------------------------

    async def _authorized(
        self,
        reference: Reference,
        method: str,
        url: str,
        actions: str,
        headers: Mapping[str, str] | None,
        body: Body | None,
    ) -> aiohttp.ClientResponse:
        shown = self._authorization.header(reference, actions)
        response = await self._followed(reference, method, url, shown, headers, body)
        if response.status != 401:
            return response
        offered = list(response.headers.getall("WWW-Authenticate", []))
        try:
            again = await self._authorization.answer(
                reference, actions, offered=offered, used=shown
            )
        except BaseException:
            response.close()
            raise
        if not again:
            return response
        response.close()
        return await self._followed(reference, method, url, again, headers, body)

    async def _followed(
        self,
        reference: Reference,
        method: str,
        url: str,
        shown: str,
        headers: Mapping[str, str] | None,
        body: Body | None,
    ) -> aiohttp.ClientResponse:
        """Send it; a GET or HEAD goes where the registry points to."""
        home = self.registries.endpoint(reference.registry)
        for _ in range(_REDIRECTS + 1):
            own = _origin(url) == _origin(home.url)
            sent = {**(headers or {}), **({"Authorization": shown} if shown and own else {})}
            await self._check(url)
            response = await self._opened().request(
                method,
                URL(url, encoded=True),
                headers=sent,
                data=None if body is None else body(),
                allow_redirects=False,
                ssl=self._trust(home.ca_file) if own else True,
            )
            if response.status not in _MOVED or method not in ("GET", "HEAD"):
                return response
            target = urljoin(url, response.headers.get("Location", ""))
            response.close()
            if urlsplit(target).scheme not in ("http", "https") or (
                urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https"
            ):
                raise RegistryError(f"{reference.registry} sends us to an address that is not safe")
            url = target
        raise RegistryError(f"{reference.registry} sends us round in circles")

    async def _check(self, url: str) -> None:
        """Raises RegistryError: it is not to be called; OSError: its name is not known."""
        if self._egress is None:
            return
        try:
            await checked_async(self._egress, url)
        except EndpointRefused as error:
            raise RegistryError(str(error)) from error

    async def _ask_token_service(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> bytes:
        await self._check(url)
        async with self._opened().request(
            method, URL(url, encoded=True), headers=headers, data=body, allow_redirects=False
        ) as response:
            if response.status in (400, 401, 403):
                raise Denied(
                    f"the token service {_origin(url)} refuses the credentials "
                    f"({response.status}): check the user, the password and the Secret they are in"
                )
            if response.status != 200:
                raise Unavailable(f"the token service {_origin(url)} answers {response.status}")
            return await read_all(response, self.settings.max_answer)

    async def _refusal(
        self, reference: Reference, response: aiohttp.ClientResponse
    ) -> RegistryError:
        try:
            raw = await read_all(response, self.settings.max_answer)
        except (aiohttp.ClientError, TimeoutError, OSError, TooLarge):
            raw = b""
        configured = self._egress is None or reference.registry in self.registries.mapping
        refusal = _error(reference, response.status, raw, echo=configured)
        refusal.status = response.status
        return refusal

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False,
                read_bufsize=_BUFFER,
                headers={"User-Agent": self.settings.user_agent, "Accept-Encoding": "identity"},
                timeout=aiohttp.ClientTimeout(
                    total=None,
                    sock_connect=self.settings.connect_timeout,
                    sock_read=self.settings.read_timeout,
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                connector=None if self._egress is None else connector(self._egress),
            )
        return self._session

    def _trust(self, ca_file: str | None) -> ssl.SSLContext:
        # also for those of the machine: whoever started us may not have aiohttp know them
        if ca_file not in self._trusted:
            self._trusted[ca_file] = ssl.create_default_context(cafile=ca_file)
        return self._trusted[ca_file]


async def read_all(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """The whole body. Raises TooLarge beyond the limit."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > limit:
            raise TooLarge(f"{response.url.host} answers with more than {limit} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _retry_after(response: aiohttp.ClientResponse) -> float | None:
    value = response.headers.get("Retry-After", "")
    return float(value) if value.isdecimal() and len(value) < 6 else None


def _error(reference: Reference, status: int, raw: bytes, *, echo: bool) -> RegistryError:
    """``echo``: whether what the registry says may be repeated."""
    code, message = _first_error(raw)
    if not echo:
        code, message = (code if code in _CODES else ""), ""
    words = f"{status}{f' {code}' if code else ''}{f': {message}' if message else ''}"
    if code == "DIGEST_INVALID":
        return DigestMismatch(f"{reference.registry} received other bytes than were sent ({words})")
    if status in (401, 403):
        return Denied(
            f"{reference.registry} does not let us use {reference.repository} ({words}): "
            "check the credentials, and that they may do this"
        )
    if status == 404:
        return NotFound(
            f"{reference} is not in the registry ({words}): check its name, or push it first"
        )
    if status in _AGAIN:
        return Unavailable(f"the registry {reference.registry} answers {words}: try again later")
    return RegistryError(f"the registry {reference.registry} refuses {reference} ({words})")


def _first_error(raw: bytes) -> tuple[str, str]:
    """Code and message of the first error in an answer; empty where it says nothing."""
    try:
        content: Any = load_json(raw)
        first = content["errors"][0]
        return _clean(first.get("code")), _clean(first.get("message"))
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", ""


def _clean(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(char if char.isprintable() else " " for char in text[:300])


def _words(cause: BaseException) -> str:
    if isinstance(cause, aiohttp.ClientResponseError | aiohttp.ClientPayloadError):
        return type(cause).__name__  # its words may quote what the server sent
    return str(cause) or type(cause).__name__
