"""Reading a blob as it comes: gone on with after a break, never too long, verified at its end."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator

import aiohttp

from corral.oci.errors import DigestMismatch, TooLarge, Unavailable
from corral.oci.manifest import Descriptor
from corral.oci.reference import Reference
from corral.oci.transport import Transport

__all__ = ["download"]


async def download(
    transport: Transport, reference: Reference, descriptor: Descriptor
) -> AsyncGenerator[bytes, None]:
    """The bytes of a blob; they are known to be the right ones only when this has ended.

    Raises:
        DigestMismatch: they are not the ones that the descriptor describes.
        TooLarge: the blob is larger than the settings allow.
    """
    limit = transport.settings.max_blob
    if descriptor.size > limit:
        raise TooLarge(
            f"{descriptor.digest} of {reference} has {descriptor.size} bytes, and {limit} are taken"
        )
    hasher = hashlib.sha256()
    done = failures = 0
    while done < descriptor.size:
        before = done
        try:
            async for piece in _from(transport, reference, descriptor, done):
                if done + len(piece) > descriptor.size:
                    raise _wrong(reference, descriptor, "it is longer than its manifest says")
                done += len(piece)
                hasher.update(piece)
                yield piece
            cause: BaseException = EOFError(f"it ends after {done} of {descriptor.size} bytes")
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            cause = error
        if done == descriptor.size:
            break
        failures = 1 if done > before else failures + 1
        if failures >= transport.settings.tries:
            raise transport.broken(reference, cause) from cause
        await transport.pause(failures)
    if f"sha256:{hasher.hexdigest()}" != descriptor.digest:
        raise _wrong(reference, descriptor, f"its bytes have sha256:{hasher.hexdigest()}")


async def _from(
    transport: Transport, reference: Reference, descriptor: Descriptor, start: int
) -> AsyncGenerator[bytes, None]:
    """The bytes from ``start`` on, also of a registry that knows no ranges."""
    url = transport.url(reference, f"blobs/{descriptor.digest}")
    headers = {"Range": f"bytes={start}-"} if start else {}
    async with transport.send(reference, "GET", url, headers=headers) as response:
        whole = response.content_length if response.status == 200 else None
        if whole is not None and whole < descriptor.size:
            # no break of the connection: asking again would never end
            words = f"the registry has {whole} bytes, its manifest says {descriptor.size}"
            raise _wrong(reference, descriptor, words)
        skip = start if response.status == 200 else 0
        if start and not skip:
            expected = f"bytes {start}-"
            if not response.headers.get("Content-Range", expected).startswith(expected):
                raise Unavailable(f"{reference.registry} answers with another range than asked for")
        async for piece in response.content.iter_any():
            if skip >= len(piece):
                skip -= len(piece)
                continue
            yield piece[skip:] if skip else piece
            skip = 0


def _wrong(reference: Reference, descriptor: Descriptor, why: str) -> DigestMismatch:
    return DigestMismatch(
        f"{descriptor.digest} of {reference} is damaged: {why}; push it again, "
        "and look at the registry's disk"
    )
