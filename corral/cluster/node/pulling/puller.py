"""Pulls module images, each once at a time, and waits longer after each failure."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol
from weakref import WeakValueDictionary

from corral.cluster.node.backoff import INITIAL, MAXIMUM
from corral.cluster.node.pulling.cache import ModuleCache, Pulled
from corral.cluster.node.pulling.decisions import (
    ALWAYS,
    NEVER,
    image_module,
    policy_of,
    pull_secrets,
)
from corral.cluster.node.pulling.errors import PullBackOff, PullError
from corral.cluster.node.sources import Sources
from corral.kube.types import Obj
from corral.oci import Credentials, Login, Reference, RegistryError, docker_config

if TYPE_CHECKING:
    from corral.cluster.node.pulling.modules import ImageConfig
    from corral.oci import Artifacts, Manifest

__all__ = ["Puller", "Say"]

FIRST_LOOK: Final = 2.0
"""Seconds after a failure at which a container shows that it is in a back-off."""
FORGET: Final = 600.0
"""Seconds without a failure after which an image starts with a short back-off again."""
PATIENCE: Final = 600.0
"""Seconds that one pull may take."""
MAX_MODULE: Final = 512 << 20
MAX_CACHE: Final = 8 << 30
AT_ONCE: Final = 4
"""Pulls at the same time."""
_MAX_CONFIG: Final = 1 << 20


class Say(Protocol):
    """Tells what happens, as an event of the container."""

    def __call__(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


@dataclass(slots=True)
class _Failure:
    seconds: float
    until: float
    message: str


class Puller:
    """The module images of one node."""

    def __init__(
        self,
        folder: Path,
        registries: Mapping[str, str],
        *,
        token: Callable[[], str] | None,
        mapped: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``token`` is the node's own, for the cluster's own registry."""
        self._cache = ModuleCache(folder, most=MAX_CACHE)
        self._urls = registries
        self._token = token
        self._mapped = mapped
        self._clock = clock
        self._made = False
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._failures: dict[tuple[str, str], _Failure] = {}

    def path(self, pulled: Pulled) -> Path:
        return self._cache.path(pulled.module)

    def forget(self, uid: str) -> None:
        """A pod is gone."""
        for key in [key for key in self._failures if key[0] == uid]:
            del self._failures[key]

    async def ensure(
        self, container: Obj, pod: Obj, sources: Sources, *, say: Say
    ) -> Pulled | None:
        """The module of a container, here and verified; None where it comes from elsewhere.

        Raises:
            PullError: it cannot be had now.
        """
        reference = image_module(container, pod, mapped=self._mapped)
        if reference is None:
            return None
        if not self._made:
            await asyncio.to_thread(self._cache.make)
            self._made = True
        policy = policy_of(container, reference)
        credentials = self._credentials(pod, sources, say)
        access = _fingerprint(credentials.find(reference.registry, reference.repository))
        image = container.get("image", "")
        async with self._lock(str(reference)):
            known = await asyncio.to_thread(self._cache.find, str(reference))
            if policy == NEVER and known is None:
                words = f'Container image "{image}" is not present with pull policy of Never'
                say("Warning", "ErrImageNeverPull", words)
                raise PullError(words, reason="ErrImageNeverPull", retry_after=INITIAL)
            # what was had with somebody's password is for those who show the same one
            mine = known is not None and known.access in ("", access)
            if known is not None and (policy == NEVER or (policy != ALWAYS and mine)):
                words = f'Container image "{image}" already present on machine'
                say("Normal", "Pulled", f"{words} and can be accessed by the pod")
                return known
            key = (pod["metadata"]["uid"], str(reference))
            self._check_backoff(key, image, say)
            return await self._try(reference, credentials, access, key=key, image=image, say=say)

    async def _try(
        self,
        reference: Reference,
        credentials: Credentials,
        access: str,
        *,
        key: tuple[str, str],
        image: str,
        say: Say,
    ) -> Pulled:
        say("Normal", "Pulling", f'Pulling image "{image}"')
        began = self._clock()
        try:
            async with asyncio.timeout(PATIENCE), self._turns:
                started = self._clock()
                pulled = await self._pull(reference, credentials, access)
        except (RegistryError, OSError, TimeoutError) as error:
            why = str(error) or f"it took longer than {PATIENCE:g} s"
            self._failed(key, why)
            say("Warning", "Failed", f'Failed to pull image "{image}": {why}')
            say("Warning", "Failed", "Error: ErrImagePull")
            raise PullError(why, retry_after=FIRST_LOOK) from error
        self._failures.pop(key, None)
        took, all_in_all = self._clock() - started, self._clock() - began
        say(
            "Normal",
            "Pulled",
            f'Successfully pulled image "{image}" in {took:.3g}s ({all_in_all:.3g}s including '
            f"waiting). Image size: {pulled.size} bytes.",
        )
        return pulled

    # -- back-off --------------------------------------------------------------------------------

    def _check_backoff(self, key: tuple[str, str], image: str, say: Say) -> None:
        failure = self._failures.get(key)
        if failure is None or failure.until <= self._clock():
            return
        words = f'Back-off pulling image "{image}"'
        say("Normal", "BackOff", words)
        say("Warning", "Failed", "Error: ImagePullBackOff")
        raise PullBackOff(
            f"{words}: ErrImagePull: {failure.message}",
            retry_after=failure.until - self._clock(),
        )

    def _failed(self, key: tuple[str, str], why: str) -> None:
        last, now = self._failures.get(key), self._clock()
        fresh = last is None or now - last.until > FORGET
        seconds = INITIAL if last is None or fresh else min(last.seconds * 2, MAXIMUM)
        self._failures[key] = _Failure(seconds, now + seconds, why)

    def _lock(self, reference: str) -> asyncio.Lock:
        lock = self._locks.get(reference)
        if lock is None:
            lock = self._locks[reference] = asyncio.Lock()
        return lock

    # -- the pull --------------------------------------------------------------------------------

    def _credentials(self, pod: Obj, sources: Sources, say: Say) -> Credentials:
        found, missing = Credentials(), []
        for name in pull_secrets(pod):
            secret = sources.secret(name)
            try:
                found = docker_config((secret or {}).get("data") or {}) | found
            except RegistryError:
                missing.append(name)
        if missing:
            names = ", ".join(missing)
            say(
                "Warning",
                "FailedToRetrieveImagePullSecret",
                f"Unable to retrieve some image pull secrets ({names}); "
                "attempting to pull the image may not succeed.",
            )
        return found

    async def _pull(self, reference: Reference, credentials: Credentials, access: str) -> Pulled:
        from corral.oci import Artifacts, ClientSettings, Registries, endpoints

        pairs = [f"{name}={url}" for name, url in self._urls.items()]
        registries = Registries(endpoints(pairs, token=self._token), credentials)
        settings = ClientSettings(
            connect_timeout=5.0, read_timeout=30.0, tries=3, max_blob=MAX_MODULE
        )
        async with Artifacts(registries, settings=settings) as artifacts:
            manifest = await _manifest(artifacts, reference)
            fixed = str(reference.with_digest(manifest.digest))
            known = await asyncio.to_thread(self._cache.find, fixed)
            pulled = known or await self._fetch(artifacts, reference, manifest, access)
            pulled = replace(pulled, access=access)
        for name in {str(reference), fixed}:
            await asyncio.to_thread(self._cache.remember, name, pulled)
        return pulled

    async def _fetch(
        self, artifacts: Artifacts, reference: Reference, manifest: Manifest, access: str
    ) -> Pulled:
        from corral.cluster.node.pulling.modules import ImageConfig, starts_like_a_module
        from corral.oci import InvalidArtifact

        fixed = reference.with_digest(manifest.digest)
        config = ImageConfig()
        if "image.config" in manifest.config.media_type or "image.v1" in manifest.config.media_type:
            raw = await artifacts.read(fixed, manifest.config, limit=_MAX_CONFIG)
            config = ImageConfig.parse(raw)
        written = self._cache.aside()
        try:
            name = await self._write(artifacts, fixed, manifest, config, written)
            if not await asyncio.to_thread(starts_like_a_module, written):
                raise InvalidArtifact(f"{fixed} is no WebAssembly module: it does not begin as one")
            module, size = await asyncio.to_thread(self._cache.keep, written)
        finally:
            await asyncio.to_thread(written.unlink, missing_ok=True)
        name = name or f"{reference.repository.rpartition('/')[2]}.wasm"
        return Pulled(
            f"{fixed.name}@{manifest.digest}",
            module,
            size,
            name,
            access,
            config.entrypoint or (name,),
            config.cmd,
            config.env,
        )

    async def _write(
        self,
        artifacts: Artifacts,
        fixed: Reference,
        manifest: Manifest,
        config: ImageConfig,
        target: Path,
    ) -> str:
        """Have the module in a file; gives its name."""
        from corral.cluster.node.pulling import modules
        from corral.oci import InvalidArtifact

        layer = modules.module_layer(manifest)
        if layer is not None:
            await artifacts.fetch(fixed, layer[0], target)
            return layer[1]
        for archive in modules.archives_of(manifest):
            packed = self._cache.aside()
            try:
                await artifacts.fetch(fixed, archive, packed)
                found = await asyncio.to_thread(
                    modules.extract,
                    packed,
                    compressed=modules.ARCHIVES[archive.media_type],
                    wanted=config.entrypoint,
                    target=target,
                    limit=MAX_MODULE,
                )
            finally:
                await asyncio.to_thread(packed.unlink, missing_ok=True)
            if found:
                return found
        raise InvalidArtifact(f"{fixed} has no .wasm file in it")


async def _manifest(artifacts: Artifacts, reference: Reference) -> Manifest:
    """That of the first platform there is of those that are modules."""
    from corral.cluster.node.pulling.modules import PLATFORMS
    from corral.oci import InvalidArtifact

    last: InvalidArtifact | None = None
    for platform in PLATFORMS:
        try:
            return await artifacts.manifest(reference, platform=platform)
        except InvalidArtifact as error:
            last = error
    assert last is not None
    raise last


def _fingerprint(login: Login | None) -> str:
    """Tells credentials apart and says nothing about them."""
    if login is None:
        return ""
    text = f"{login.username}\0{login.password}\0{login.identity_token}"
    return hashlib.sha256(b"corral pull\0" + text.encode()).hexdigest()
