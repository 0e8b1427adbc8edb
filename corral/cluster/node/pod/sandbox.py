"""The sandbox and the volumes of one pod: opened, kept up to date, closed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from corral.cluster.node.container.launcher import Scene
from corral.cluster.node.container.processes import ContainerError
from corral.cluster.node.isolation import Sandbox
from corral.cluster.node.network import NetworkError, NoAddress
from corral.cluster.node.parts import NodeParts
from corral.cluster.node.volumes.pod_volumes import PodVolumes, VolumeError
from corral.cluster.node.volumes.references import references_of
from corral.cluster.node.volumes.sources import ConfigError, PodContext
from corral.cluster.node.volumes.tokens import PodTokens
from corral.kube.types import Obj

__all__ = ["Stage", "StageError"]

logger = logging.getLogger(__name__)


class StageError(Exception):
    """Something that a pod needs cannot be had now; reason and message are for an event."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Stage:
    """Of one pod. ``open`` may be called again until it succeeds."""

    def __init__(self, pod: Obj, parts: NodeParts, *, changed: Callable[[], None]) -> None:
        """``changed`` is called when an object that the pod uses has changed."""
        self.pod = pod
        """The newest version."""
        self._uid: str = pod["metadata"]["uid"]
        self._parts = parts
        self._changed = changed
        self._tokens = PodTokens(parts.client, pod, turns=parts.turns, clock=parts.clock)
        self._sources = parts.objects.of(pod["metadata"]["namespace"])
        self._claims: dict[str, Path] = {}
        self._paths: dict[str, Path] = {}
        self._opening: asyncio.Task[Sandbox] | None = None
        self.sandbox: Sandbox | None = None
        gid = (pod["spec"].get("securityContext") or {}).get("fsGroup")
        layout = parts.layout
        disk = layout.volumes(self._uid)
        self._volumes = PodVolumes(
            disk,
            sources=self._sources,
            token=self._tokens.get,
            claim=self._claim,
            gid=gid,
            memory=layout.memory(self._uid) if layout.has_memory else None,
            files=disk if parts.network.mode == "root" and layout.files_on_disk() else None,
            bounds=layout.bounds,
            mode=layout.mode,
            jobs=parts.config.job_folders,
        )

    def _claim(self, name: str) -> Path:
        if name not in self._claims:
            raise ConfigError(f'persistentvolumeclaim "{name}" not found')
        return self._claims[name]

    # -- opening -----------------------------------------------------------------------------

    def restore(self, process: int = 0) -> bool:
        """Take over the sandbox that an earlier agent made; False when there is none.

        ``process`` is one that runs in it.
        """
        self.sandbox = self._parts.network.restore(self.pod, process)
        return self.sandbox is not None

    async def open(self) -> Scene:
        """Make everything that containers need; all at once where it does not depend.

        Raises StageError.
        """
        namespace = self.pod["metadata"]["namespace"]
        wanted = references_of(self.pod)
        self._parts.objects.hold(self._uid, namespace, wanted, changed=self._changed)
        opened, *others = await asyncio.gather(
            self._open_sandbox(),
            self._parts.objects.ready(self._uid),
            self._tokens.fetch(),
            self._fetch_claims(),
            return_exceptions=True,
        )
        if isinstance(opened, BaseException):
            raise opened
        for problem in others:
            if isinstance(problem, ConfigError):
                raise StageError("FailedMount", f"Unable to attach or mount volumes: {problem}")
            if isinstance(problem, BaseException):
                raise problem
        return self._make_volumes(opened)

    async def _open_sandbox(self) -> Sandbox:
        if self.sandbox is None:
            if self._opening is None:
                self._opening = asyncio.create_task(self._parts.network.open(self.pod))
            try:
                # half a sandbox must not be left behind when we are cancelled
                self.sandbox = await asyncio.shield(self._opening)
            except (ContainerError, NetworkError, NoAddress, OSError) as err:
                words = f"Failed to create pod sandbox: {err}"
                raise StageError("FailedCreatePodSandBox", words) from err
            finally:
                if self._opening.done():
                    self._opening = None
        return self.sandbox

    async def _fetch_claims(self) -> None:
        self._claims = await self._parts.claims.folders(self.pod)

    def _make_volumes(self, sandbox: Sandbox) -> Scene:
        context = self.context()
        try:
            self._paths = self._volumes.prepare(context)
        except VolumeError as err:
            raise StageError("FailedMount", f"MountVolume.SetUp failed for {err}") from err
        return Scene(context=context, sandbox=sandbox, sources=self._sources, volumes=self._paths)

    def context(self) -> PodContext:
        """The pod with its addresses, as variables and files may show them."""
        network = self._parts.network
        own = network.own_addresses(self.sandbox) if self.sandbox is not None else ()
        return PodContext(
            pod=self.pod,
            pod_ips=own,
            host_ips=network.host_addresses(),
            allocatable=self._parts.allocatable,
        )

    def scene(self) -> Scene:
        """As ``open`` returned it, with the pod's newest version."""
        assert self.sandbox is not None
        return Scene(
            context=self.context(),
            sandbox=self.sandbox,
            sources=self._sources,
            volumes=self._paths,
        )

    # -- keeping -----------------------------------------------------------------------------

    def refresh_at(self) -> float | None:
        """When a token is due."""
        return self._tokens.refresh_at()

    async def refresh(self) -> None:
        """Bring tokens and files up to date; what cannot be had stays as it was."""
        try:
            await self._tokens.fetch()
            self._volumes.refresh(self.context())
        except (ConfigError, OSError) as err:
            logger.info("volumes of %s are not refreshed: %s", self.pod["metadata"]["name"], err)

    # -- closing -----------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait for a sandbox that is just being made."""
        if self._opening is not None:
            (opened,) = await asyncio.gather(self._opening, return_exceptions=True)
            if isinstance(opened, Sandbox):
                self.sandbox = opened
            self._opening = None

    async def close(self, *, keep_volumes: bool = False) -> None:
        """Remove it; nothing of the pod runs any more."""
        self._parts.objects.release(self._uid)
        await self.settle()
        if self.sandbox is not None:
            try:
                await self._parts.network.close(self.sandbox)
            except (ContainerError, NetworkError, OSError) as err:
                logger.warning("the sandbox of %s: %s", self.pod["metadata"]["name"], err)
            self.sandbox = None
        if keep_volumes:
            return
        self._parts.sweeper.later(self._volumes.remove)
