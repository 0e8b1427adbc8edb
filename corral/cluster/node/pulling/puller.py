"""Pulls module images, each once at a time, and waits longer after each failure."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol
from weakref import WeakValueDictionary

from corral.cluster.node.container.backoff import INITIAL, MAXIMUM
from corral.cluster.node.pulling.cache import ModuleCache, Pulled
from corral.cluster.node.pulling.decisions import (
    ALWAYS,
    NEVER,
    image_module,
    policy_of,
    pull_secrets,
)
from corral.cluster.node.pulling.errors import PullBackOff, PullError
from corral.cluster.node.volumes.sources import ConfigError, Sources
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
AT_ONCE: Final = 8
"""Pulls at the same time."""
AT_ONCE_EACH: Final = 2
"""Those of one namespace: a registry that hardly answers keeps nobody else waiting."""
MOST_EACH: Final = 4 << 30
"""Bytes that a node pulls for a namespace in `SPAN`; what was just pulled cannot be removed yet."""
SPAN: Final = 600.0
_MAX_CONFIG: Final = 1 << 20
_MOST_ACCESSES: Final = 64
"""As whom a module was had: so many are remembered, and others ask the registry again."""


class Say(Protocol):
    """Tells what happens, as an event of the container."""

    def __call__(self, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None: ...


@dataclass(slots=True)
class _Failure:
    seconds: float
    until: float
    message: str


class _Share(asyncio.Semaphore):
    """The turns of one namespace."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is pulled, for which pod, and as whom."""

    pod: Obj
    reference: Reference
    credentials: Credentials
    access: str


class Puller:
    """The module images of one node."""

    def __init__(
        self,
        folder: Path,
        registries: Mapping[str, str],
        *,
        token: Callable[[Obj], Awaitable[str]] | None,
        mapped: Callable[[str], bool],
        allowed: Sequence[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``token`` gives one of a pod's service account, for registries of the cluster's own.

        A node has no rights in them: what a pod may not have itself is not pulled for it. Nor are
        servers called for it that are not public, but those of ``registries`` and ``allowed``, as
        `EgressPolicy` writes them: a node reaches more than its pods do.
        """
        self._cache = ModuleCache(folder, most=MAX_CACHE)
        self._urls = registries
        self._token = token
        self._mapped = mapped
        self._allowed = allowed
        self._clock = clock
        self._made = False
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._shares: WeakValueDictionary[str, _Share] = WeakValueDictionary()
        self._pulled: dict[str, deque[tuple[float, int]]] = {}
        """By namespace: when how many bytes were pulled for it, as far as that counts."""
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
        access = self._access(pod, reference, credentials)
        image = container.get("image", "")
        # of one namespace: another one may wait long for its turn
        async with self._lock(f"{pod['metadata']['namespace']} {reference}"):
            known = await asyncio.to_thread(self._cache.find, str(reference))
            # what was had as somebody is for those who have shown that they are the same
            mine = known is not None and bool({"", access} & set(known.accesses))
            if policy == NEVER and not mine:
                words = f'Container image "{image}" is not present with pull policy of Never'
                say("Warning", "ErrImageNeverPull", words)
                raise PullError(words, reason="ErrImageNeverPull", retry_after=INITIAL)
            if known is not None and mine and policy != ALWAYS:
                words = f'Container image "{image}" already present on machine'
                say("Normal", "Pulled", f"{words} and can be accessed by the pod")
                return known
            key = (pod["metadata"]["uid"], str(reference))
            self._check_backoff(key, image, say)
            wanted = _Wanted(pod, reference, credentials, access)
            return await self._try(wanted, key=key, image=image, say=say)

    async def _try(self, wanted: _Wanted, *, key: tuple[str, str], image: str, say: Say) -> Pulled:
        say("Normal", "Pulling", f'Pulling image "{image}"')
        began = self._clock()
        try:
            async with asyncio.timeout(PATIENCE), self._share(wanted.pod), self._turns:
                started = self._clock()
                pulled = await self._pull(wanted)
        except (RegistryError, ConfigError, OSError, TimeoutError) as error:
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

    def _lock(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock

    # -- shares of namespaces --------------------------------------------------------------------

    def _share(self, pod: Obj) -> _Share:
        namespace = pod["metadata"]["namespace"]
        share = self._shares.get(namespace)
        if share is None:
            share = self._shares[namespace] = _Share(AT_ONCE_EACH)
        return share

    def _check_share(self, namespace: str) -> None:
        """Raises OSError where a namespace has pulled too much of late."""
        now = self._clock()
        for name, pulls in list(self._pulled.items()):
            while pulls and pulls[0][0] < now - SPAN:
                pulls.popleft()
            if not pulls:
                del self._pulled[name]
        total = sum(size for _, size in self._pulled.get(namespace, ()))
        if total >= MOST_EACH:
            raise OSError(
                f"this node has pulled {total} bytes of modules for namespace {namespace} in "
                f"{SPAN:g} s, and pulls {MOST_EACH} at most: it is tried again later"
            )

    def _charge(self, namespace: str, size: int) -> None:
        self._pulled.setdefault(namespace, deque()).append((self._clock(), size))

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

    def _access(self, pod: Obj, reference: Reference, credentials: Credentials) -> str:
        """As whom a pod pulls: with a login, as its service account, or as anybody."""
        login = credentials.find(reference.registry, reference.repository)
        if login is not None or self._token is None or reference.registry not in self._urls:
            return _fingerprint(login)
        account = pod["spec"].get("serviceAccountName") or "default"
        return f"account {pod['metadata']['namespace']}/{account}"

    async def _pull(self, wanted: _Wanted) -> Pulled:
        from corral.egress import EgressPolicy
        from corral.oci import Artifacts, ClientSettings, Registries, endpoints

        reference, access, shown = wanted.reference, wanted.access, ""
        if self._token is not None and reference.registry in self._urls:
            shown = await self._token(wanted.pod)
        pairs = [f"{name}={url}" for name, url in self._urls.items()]
        token = (lambda: shown) if shown else None
        registries = Registries(endpoints(pairs, token=token), wanted.credentials)
        settings = ClientSettings(
            connect_timeout=5.0,
            read_timeout=30.0,
            tries=3,
            max_blob=MAX_MODULE,
            egress=EgressPolicy.of(self._allowed),
        )
        async with Artifacts(registries, settings=settings) as artifacts:
            manifest = await _manifest(artifacts, reference)
            fixed = str(reference.with_digest(manifest.digest))
            known = await asyncio.to_thread(self._cache.find, fixed)
            pulled = known or await self._fetched(artifacts, wanted, manifest)
            others = [one for one in pulled.accesses if one != access]
            pulled = replace(pulled, accesses=(*others, access)[-_MOST_ACCESSES:])
        for name in {str(reference), fixed}:
            await asyncio.to_thread(self._cache.remember, name, pulled)
        return pulled

    async def _fetched(self, artifacts: Artifacts, wanted: _Wanted, manifest: Manifest) -> Pulled:
        """What a namespace has a share of: the disk of the node."""
        namespace = wanted.pod["metadata"]["namespace"]
        self._check_share(namespace)
        pulled = await self._fetch(artifacts, wanted.reference, manifest)
        self._charge(namespace, pulled.size)
        return pulled

    async def _fetch(
        self, artifacts: Artifacts, reference: Reference, manifest: Manifest
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
            entrypoint=config.entrypoint or (name,),
            cmd=config.cmd,
            env=config.env,
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
