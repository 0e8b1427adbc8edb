"""Artifacts in registries: push, read, tag, delete. See the package for what is guaranteed."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from types import TracebackType
from typing import Any, Final
from urllib.parse import urlencode, urljoin

from corral.egress.reading import load_json
from corral.oci.blobs import Blob
from corral.oci.download import download
from corral.oci.errors import (
    DigestMismatch,
    InvalidArtifact,
    NotFound,
    RegistryError,
    TooLarge,
    Unavailable,
)
from corral.oci.links import next_page
from corral.oci.manifest import (
    ACCEPTED,
    EMPTY_CONFIG,
    Descriptor,
    Index,
    Layer,
    Manifest,
    digest_of,
    encode,
    parse,
)
from corral.oci.reference import Reference
from corral.oci.registries import Registries
from corral.oci.settings import ClientSettings
from corral.oci.transport import DELETE, PUSH, Transport
from corral.oci.upload import upload

__all__ = ["Artifacts", "Pushed"]

_BATCH: Final = 2 << 20
"""Bytes written to a file at once."""
_PAGE: Final = 1000


@dataclass(frozen=True, slots=True)
class Pushed:
    """The artifact that was stored by a push."""

    reference: Reference
    """The reference with the digest in it."""
    digest: str
    size: int
    """The size of all layers in bytes."""


class Artifacts:
    """A client of any number of registries; use it as an asynchronous context."""

    def __init__(
        self,
        registries: Registries | None = None,
        *,
        settings: ClientSettings | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings or ClientSettings()
        self._transport = Transport(registries or Registries(), self._settings, sleep=sleep)

    async def __aenter__(self) -> Artifacts:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._transport.close()

    # -- writing -------------------------------------------------------------------------------

    async def push(
        self,
        ref: Reference,
        layers: Sequence[Layer],
        *,
        artifact_type: str,
        annotations: Mapping[str, str] | None = None,
        config: bytes = b"{}",
        config_media_type: str = "",
    ) -> Pushed:
        """Store an artifact under the tag of a reference; all of it is there when this returns.

        The same content makes the same digest. Pushing again what is there sends no layer.

        Raises:
            DigestMismatch: the reference has a digest, and this is something else.
            RegistryError: it could not be stored.
        """
        kind = config_media_type or (EMPTY_CONFIG if config == b"{}" else "application/json")
        parts = [Layer(kind, config), *layers]
        stored: list[Descriptor] = []
        for part in parts:
            blob = await Blob.of(part.source)
            if all(one.digest != blob.digest for one in stored):
                await upload(self._transport, ref, blob, mount_from=part.mount_from)
            stored.append(
                Descriptor(part.media_type, blob.digest, blob.size, dict(part.annotations))
            )
        raw = encode(
            config=stored[0],
            layers=stored[1:],
            artifact_type=artifact_type,
            annotations=annotations or {},
        )
        digest = digest_of(raw)
        if ref.digest and ref.digest != digest:
            raise DigestMismatch(f"what is pushed has {digest}, and {ref} says otherwise")
        manifest = parse(raw)
        await self._put(ref, ref.tag or (digest if ref.digest else ref.target), manifest)
        return Pushed(ref.with_digest(digest), digest, sum(one.size for one in stored[1:]))

    async def tag(self, ref: Reference, tag: str) -> Reference:
        """Give what a reference stands for one more tag; gives the new reference."""
        await self._put(ref, tag, found := await self._get(ref))
        return ref.with_tag(tag).with_digest(found.digest)

    async def delete(self, ref: Reference) -> None:
        """Remove what a reference stands for: by digest the manifest, by tag alone the tag.

        Raises:
            NotFound: there is nothing to remove.
        """
        url = self._transport.url(ref, f"manifests/{ref.target}")
        failures = 0
        while True:
            try:
                async with self._transport.send(ref, "DELETE", url, actions=DELETE, repeat=False):
                    return
            except NotFound:
                if failures:  # a try whose answer was lost has removed it
                    return
                raise
            except Unavailable:
                failures += 1
                if failures >= self._settings.tries:
                    raise
            await self._transport.pause(failures)

    async def _put(self, ref: Reference, target: str, manifest: Manifest | Index) -> None:
        url = self._transport.url(ref, f"manifests/{target}")
        async with self._transport.send(
            ref,
            "PUT",
            url,
            actions=PUSH,
            headers={"Content-Type": manifest.media_type},
            body=lambda: BytesIO(manifest.raw),
        ) as response:
            _same(ref, manifest.digest, response.headers.get("Docker-Content-Digest", ""))

    # -- reading -------------------------------------------------------------------------------

    async def manifest(self, ref: Reference, *, platform: str = "") -> Manifest:
        """What an artifact consists of.

        Of an index it is the manifest of a platform (``os/architecture``), or the only one.

        Raises:
            NotFound: there is none.
            InvalidArtifact: it cannot be read, or the index leaves a choice.
        """
        found = await self._get(ref)
        if isinstance(found, Index):
            found = await self._get(ref.with_digest(found.choose(platform).digest))
        if isinstance(found, Index):
            raise InvalidArtifact(f"{ref} is an index of indexes: name a manifest by its digest")
        return found

    async def pinned(self, ref: Reference) -> Reference:
        """The same with the digest of what its tag stands for now, an index or a manifest.

        Raises:
            RegistryError: there is none, or it cannot be read.
        """
        return ref.with_digest((await self._get(ref)).digest)

    async def stream(self, ref: Reference, descriptor: Descriptor) -> AsyncGenerator[bytes, None]:
        """The bytes of a layer as they come; trust them only when the iteration has ended.

        Raises:
            DigestMismatch: they are not the ones that the descriptor describes.
        """
        async with aclosing(download(self._transport, ref, descriptor)) as pieces:
            async for piece in pieces:
                yield piece

    async def read(self, ref: Reference, descriptor: Descriptor, *, limit: int) -> bytes:
        """A small layer at once. Raises TooLarge."""
        if descriptor.size > limit:
            raise TooLarge(
                f"{descriptor.digest} of {ref} has {descriptor.size} bytes, and {limit} are taken"
            )
        async with aclosing(self.stream(ref, descriptor)) as pieces:
            return b"".join([piece async for piece in pieces])

    async def fetch(self, ref: Reference, descriptor: Descriptor, target: Path) -> None:
        """Write a layer to a file, which appears only when it is complete and verified."""
        part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(8)}.part")
        file = await asyncio.to_thread(part.open, "xb", 0)
        try:
            batch: list[bytes] = []
            held = 0
            async with aclosing(self.stream(ref, descriptor)) as pieces:
                async for piece in pieces:
                    batch.append(piece)
                    held += len(piece)
                    if held >= _BATCH:
                        await asyncio.to_thread(file.write, b"".join(batch))
                        batch, held = [], 0
            await asyncio.to_thread(file.write, b"".join(batch))
            await asyncio.to_thread(os.replace, part, target)
        except BaseException:
            with suppress(FileNotFoundError):
                part.unlink()
            raise
        finally:
            file.close()

    async def tags(self, ref: Reference, *, most: int = 100_000) -> list[str]:
        """The tags of a repository, in the order of the registry. Raises TooLarge."""
        url = f"{self._transport.url(ref, 'tags/list')}?{urlencode({'n': _PAGE})}"
        found: list[str] = []
        while url:
            raw, headers = await self._transport.get(ref, url, limit=self._settings.max_answer)
            found += _names(ref, raw)
            if len(found) > most:
                raise TooLarge(f"{ref.name} has more than {most} tags")
            more = next_page(headers.getall("Link", []))
            url = urljoin(url, more) if more else ""
        return found

    async def _get(self, ref: Reference) -> Manifest | Index:
        url = self._transport.url(ref, f"manifests/{ref.target}")
        raw, headers = await self._transport.get(
            ref,
            url,
            headers={"Accept": ", ".join(ACCEPTED)},
            limit=self._settings.max_manifest,
        )
        kind = headers.get("Content-Type", "")
        found = parse(raw, expected=ref.digest, content_type=kind)
        _same(ref, found.digest, headers.get("Docker-Content-Digest", ""))
        return found


def _same(ref: Reference, ours: str, theirs: str) -> None:
    if theirs.startswith("sha256:") and theirs != ours:
        raise DigestMismatch(
            f"the registry says that the manifest of {ref} is {theirs}, but its bytes have {ours}"
        )


def _names(ref: Reference, raw: bytes) -> list[str]:
    try:
        content: Any = load_json(raw)
    except ValueError:
        content = None
    tags = content.get("tags") if isinstance(content, dict) else ()
    if tags is None:
        return []
    if not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
        raise RegistryError(f"{ref.registry} answers the question for tags with something else")
    return tags
