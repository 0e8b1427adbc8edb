"""Storing a blob: not at all where the registry has it, in one request, or in chunks.

A chunk that fails is gone on with from where the registry says it is; where it cannot say so, the
upload begins anew.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode, urljoin

import aiohttp

from corral.oci.blobs import Blob
from corral.oci.errors import Denied, NotFound, RegistryError, Unavailable
from corral.oci.reference import Reference
from corral.oci.transport import PUSH, Transport

__all__ = ["has_blob", "upload"]

_RANGE: Final = re.compile(r"(?:bytes=)?0-(\d{1,15})")
_BYTES: Final = {"Content-Type": "application/octet-stream"}


async def has_blob(transport: Transport, reference: Reference, blob: Blob) -> bool:
    """Whether the repository has it."""
    url = transport.url(reference, f"blobs/{blob.digest}")
    try:
        async with transport.send(reference, "HEAD", url, actions=PUSH) as response:
            length = response.headers.get("Content-Length", "")
            return not length or length == str(blob.size)
    except (Denied, NotFound):
        return False  # who may not, is told so with words when the upload begins


async def upload(
    transport: Transport, reference: Reference, blob: Blob, *, mount_from: str = ""
) -> None:
    """Store a blob in the repository of a reference; it is there when this returns.

    Raises:
        RegistryError: it cannot be stored; `Unavailable` after all tries.
    """
    failures = 0
    while not await has_blob(transport, reference, blob):
        session = _Session(transport, reference, blob)
        try:
            if await session.begin(mount_from):
                return
            await session.send()
            return
        except Unavailable:
            await blob.check()
            failures += 1
            if failures >= transport.settings.tries:
                raise
        await transport.pause(failures)


class _Session:
    """One upload at the registry."""

    def __init__(self, transport: Transport, reference: Reference, blob: Blob) -> None:
        self._transport = transport
        self._reference = reference
        self._blob = blob
        self._location = ""
        self._chunk = transport.settings.chunk

    async def begin(self, mount_from: str) -> bool:
        """Start it; whether the registry had the blob elsewhere and there is nothing to send."""
        url = self._transport.url(self._reference, "blobs/uploads/")
        if mount_from:
            url += "?" + urlencode({"mount": self._blob.digest, "from": mount_from})
        async with self._transport.send(
            self._reference, "POST", url, actions=PUSH, headers={"Content-Length": "0"}
        ) as response:
            if response.status == 201:
                return True
            self._follow(response, url)
            least = response.headers.get("OCI-Chunk-Min-Length", "")
            if least.isdecimal() and len(least) < 12:
                self._chunk = max(self._chunk, int(least))
        return False

    async def send(self) -> None:
        if self._blob.size <= self._chunk:
            await self._finish(0)
            return
        offset = 0
        while offset < self._blob.size:
            offset = await self._advance(offset)
        await self._finish(offset)

    async def _advance(self, offset: int) -> int:
        """Send the next chunk; gives how much the registry then has."""
        failures = 0
        while True:
            end = min(offset + self._chunk, self._blob.size)
            try:
                await self._patch(offset, end)
            except RegistryError as error:
                failures += 1
                elsewhere = error.status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
                if failures >= self._transport.settings.tries or not (
                    elsewhere or isinstance(error, Unavailable)
                ):
                    raise
                await self._blob.check()
                await self._transport.pause(failures)
                there = await self._there(error)
                if there > offset:
                    return there
                if elsewhere and there == offset:
                    raise self._lost(error) from error
                offset = there
                continue
            return end

    async def _patch(self, start: int, end: int) -> None:
        headers = {
            **_BYTES,
            "Content-Length": str(end - start),
            "Content-Range": f"{start}-{end - 1}",
        }
        async with self._transport.send(
            self._reference,
            "PATCH",
            self._location,
            actions=PUSH,
            headers=headers,
            body=lambda: self._blob.pieces(start, end),
            repeat=False,
        ) as response:
            self._follow(response, self._location)

    async def _there(self, cause: RegistryError) -> int:
        """How many bytes the registry has; raises Unavailable where it cannot say so."""
        try:
            async with self._transport.send(
                self._reference, "GET", self._location, actions=PUSH
            ) as response:
                match = _RANGE.fullmatch(response.headers.get("Range", ""))
                last = int(match[1]) if match else 0
                there = last + 1 if last else 0
                if there <= self._blob.size:
                    self._follow(response, self._location)
                    return there
        except Unavailable:
            raise
        except RegistryError as error:
            cause = error
        raise self._lost(cause) from cause

    def _lost(self, cause: RegistryError) -> Unavailable:
        return Unavailable(f"the upload to {self._reference.name} was lost ({cause})")

    async def _finish(self, offset: int) -> None:
        rest = self._blob.size - offset
        joint = "&" if "?" in self._location else "?"
        url = f"{self._location}{joint}digest={quote(self._blob.digest, safe='')}"
        async with self._transport.send(
            self._reference,
            "PUT",
            url,
            actions=PUSH,
            headers={**_BYTES, "Content-Length": str(rest)},
            body=(lambda: self._blob.pieces(offset, self._blob.size)) if rest else None,
            repeat=False,
        ):
            return

    def _follow(self, response: aiohttp.ClientResponse, url: str) -> None:
        location = response.headers.get("Location", "")
        if not location and not self._location:
            raise RegistryError(f"{self._reference.registry} does not say where to upload to")
        self._location = urljoin(url, location) if location else self._location
