"""How source code gets to the pods of a job: mounted, inside the job, or in ConfigMaps.

`ship` takes the first that will do:

* ``mount``: a folder is mounted as it is (hostPath) where all nodes are processes of this very
  machine, and they (``--allow-host-access path``) and the namespace let pods do that. What programs
  write lands in the folder.
* ``inline``: an archive of up to `INLINE` bytes is a variable of the job's own pods. Nothing else
  has to be made, nothing is left behind, and it works through a gateway too.
* ``configmap``: a larger one is cut into ConfigMaps, which belong to the job once it is adopted.

However it comes, the program starts in the folder `WORKDIR`, which it may write to; the variable
CORRAL_WORKDIR names it. An archive is unpacked by ``sh``, ``base64`` and ``tar`` of the image.
``CORRAL_SHIP`` (mount, archive) overrides the choice. Code is never pickled.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from corral.client.access import Access
from corral.client.code import CODE_OF, owner_of
from corral.client.kinds import JobKind
from corral.client.translate import ApiRequest, translating
from corral.kube import KubeClient
from corral.kube.errors import AlreadyExists, ApiError, Forbidden, NotFound
from corral.kube.resources import CONFIGMAPS, NAMESPACES, NODES
from corral.kube.types import Obj
from corral.sdk.errors import CannotShip
from corral.sdk.programs.archive import IGNORE_FILE, pack

__all__ = ["INLINE", "LIMIT", "WORKDIR", "Shipped", "create_shipped", "inline", "ship"]

Way = Literal["mount", "inline", "configmap"]

WORKDIR: Final = "/corral/work"
"""Where the program starts."""
INLINE: Final = 32 << 10
"""Bytes of an archive that a cluster's jobs carry themselves: every pod has a copy."""
INLINE_ONLY: Final = 90 << 10
"""The same where there is no other way; one variable holds 128 KiB at most."""
LIMIT: Final = 8 << 20
"""Bytes of an archive that ConfigMaps are made for, unless said otherwise."""

_PARTS: Final = "/corral/code"
_PART: Final = 700 << 10
"""As base64 it stays below the 1 MiB that a ConfigMap holds and that is sent in one piece."""
_VOLUME, _CODE = "corral-work", "corral-code"
_RUNTIME_LABEL: Final = "corral.dev/runtime"
_HOST_PATH_LABEL: Final = "corral.dev/host-path"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_UNPACK: Final = {
    "inline": 'printf %s "$CORRAL_CODE" | base64 -d | tar xzf -',
    "configmap": 'cat "$CORRAL_CODE_DIR"/* | tar xzf -',
}


@dataclass(frozen=True, slots=True)
class Shipped:
    """What a pod template needs so that its program finds the code."""

    way: Way
    volumes: tuple[Obj, ...]
    mounts: tuple[Obj, ...]
    env: tuple[Obj, ...]
    objects: tuple[Obj, ...] = ()
    """ConfigMaps that were made; `adopt` gives them to the job."""
    digest: str = ""
    """SHA-256 of the archive; empty where the folder is mounted."""
    workdir: str = WORKDIR

    def command(self, argv: Sequence[str]) -> list[str]:
        """``argv`` as a container's command: the code is there and the folder is right."""
        if self.way == "mount":
            return list(argv)
        script = f'cd "$CORRAL_WORKDIR" && {_UNPACK[self.way]} && unset CORRAL_CODE && exec "$@"'
        return ["sh", "-c", script, "corral", *argv]

    def into(self, template: Obj, *, container: str = "trainer") -> Obj:
        """A copy of a pod template whose first container has all of it, but for the command."""
        out = deepcopy(template)
        spec = out.setdefault("spec", {})
        containers = spec.setdefault("containers", [])
        if not containers:
            containers.append({"name": container})
        first = containers[0]
        spec["volumes"] = [*(spec.get("volumes") or ()), *deepcopy(self.volumes)]
        first["volumeMounts"] = [*(first.get("volumeMounts") or ()), *deepcopy(self.mounts)]
        first["env"] = [*(first.get("env") or ()), *deepcopy(self.env)]
        first.setdefault("workingDir", self.workdir)
        return out

    async def adopt(self, client: KubeClient | None, job: Obj) -> None:
        """Make the ConfigMaps the job's: they go when it goes."""
        if client is not None:
            for obj in self.objects:
                await _give(client, obj, owner_of(job))

    async def discard(self, client: KubeClient | None) -> None:
        """Take the ConfigMaps back, where no job came of it."""
        if client is None:
            return
        for obj in self.objects:
            meta = obj["metadata"]
            if meta.get("ownerReferences"):
                continue  # another job's, which has the same code
            try:
                await client.delete(CONFIGMAPS, meta["name"], namespace=meta["namespace"])
            except NotFound:
                continue


async def create_shipped(
    jobs: Access,
    kind: JobKind,
    namespace: str,
    name: str,
    *,
    source: Path | bytes,
    build: Callable[[Shipped], Obj],
    dry_run: bool = False,
) -> Obj:
    """Create a job with its code, which goes with the job or, without one, at once.

    Raises:
        CannotShip: the code cannot be sent.
        JobError: the job was refused.
    """
    with translating(ApiRequest("create", CONFIGMAPS, namespace)):
        shipped = await ship(jobs.client, namespace, name, source)
    try:
        made = await jobs.create(kind, namespace, build(shipped), dry_run=dry_run)
    except BaseException:
        await shipped.discard(jobs.client)
        raise
    if dry_run:
        await shipped.discard(jobs.client)
    else:
        await shipped.adopt(jobs.client, made)
    return made


async def ship(
    client: KubeClient | None, namespace: str, name: str, source: Path | bytes
) -> Shipped:
    """Bring a folder, a file or an archive to where the pods of job ``name`` find it.

    Without a client, behind a gateway, the job itself carries it.

    Raises:
        CannotShip: there is none, or its archive is too large.
    """
    if client is not None and isinstance(source, Path):
        folder = await asyncio.to_thread(_folder, source)
        if folder is not None and await _may_mount(client, namespace):
            return _mounted(folder)
    archive = source if isinstance(source, bytes) else await asyncio.to_thread(pack, source)
    if client is None or len(archive) <= INLINE:
        return inline(archive)
    if len(archive) > LIMIT:
        raise CannotShip(_too_large(len(archive), LIMIT))
    return await _config_maps(client, namespace, name, archive)


def inline(archive: bytes, *, limit: int = INLINE_ONLY) -> Shipped:
    """An archive inside the job: all there is where only jobs can be created.

    Raises:
        CannotShip: it has more than ``limit`` bytes.
    """
    if len(archive) > min(limit, INLINE_ONLY):
        raise CannotShip(_too_large(len(archive), min(limit, INLINE_ONLY)))
    text = base64.b64encode(archive).decode()
    return Shipped(
        "inline",
        volumes=({"name": _VOLUME, "emptyDir": {}},),
        mounts=({"name": _VOLUME, "mountPath": WORKDIR},),
        env=(*_variables(), {"name": "CORRAL_CODE", "value": text}),
        digest=hashlib.sha256(archive).hexdigest(),
    )


def _too_large(size: int, limit: int) -> str:
    return (
        f"the code is {size >> 10} KiB when packed, more than the {limit >> 10} KiB that can be "
        f"shipped: name what the program does not need in {IGNORE_FILE}, keep data in a volume or "
        "a bucket, or build an image"
    )


def _variables() -> tuple[Obj, ...]:
    return (
        {"name": "CORRAL_WORKDIR", "value": WORKDIR},
        {"name": "PYTHONUNBUFFERED", "value": "1"},  # logs are followed
    )


# -- mounted ---------------------------------------------------------------------------------------


def _folder(source: Path) -> Path | None:
    """The whole path, where it is a folder."""
    whole = source.expanduser().resolve()
    return whole if whole.is_dir() else None


def _mounted(folder: Path) -> Shipped:
    return Shipped(
        "mount",
        volumes=({"name": _VOLUME, "hostPath": {"path": str(folder), "type": "Directory"}},),
        mounts=({"name": _VOLUME, "mountPath": WORKDIR},),
        env=_variables(),
    )


async def _may_mount(client: KubeClient, namespace: str) -> bool:
    """Whether every node is a process of this machine, and pods may have its folders."""
    chosen = os.environ.get("CORRAL_SHIP", "")
    if chosen:
        return chosen == "mount"
    try:
        nodes = [node async for node in client.list(NODES)]
        space = await client.get(NAMESPACES, namespace)
    except (Forbidden, NotFound):
        return False
    labels = space["metadata"].get("labels") or {}
    enforced = labels.get("pod-security.kubernetes.io/enforce", "privileged")
    return enforced == "privileged" and bool(nodes) and all(_is_here(node) for node in nodes)


def _is_here(node: Obj) -> bool:
    labels = node["metadata"].get("labels") or {}
    info = (node.get("status") or {}).get("nodeInfo") or {}
    ours = labels.get(_RUNTIME_LABEL) == "process" and labels.get(_HOST_PATH_LABEL) == "allowed"
    return ours and bool(info) and info.get("bootID") == _boot()


def _boot() -> str | None:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return None


# -- ConfigMaps ------------------------------------------------------------------------------------


async def _config_maps(client: KubeClient, namespace: str, name: str, archive: bytes) -> Shipped:
    """Named by content: the same code of the same job is there once."""
    digest = hashlib.sha256(archive).hexdigest()
    parts = [archive[start : start + _PART] for start in range(0, len(archive), _PART)]
    made: list[Obj] = []
    try:
        for number, part in enumerate(parts):
            obj = _config_map(namespace, name, f"{name[:200]}-code-{digest[:10]}-{number}", part)
            made.append(await _created(client, obj))
    except ApiError:
        await Shipped("configmap", (), (), (), objects=tuple(made)).discard(client)
        raise
    return Shipped(
        "configmap",
        volumes=({"name": _VOLUME, "emptyDir": {}}, {"name": _CODE, "projected": _sources(made)}),
        mounts=(
            {"name": _VOLUME, "mountPath": WORKDIR},
            {"name": _CODE, "mountPath": _PARTS, "readOnly": True},
        ),
        env=(*_variables(), {"name": "CORRAL_CODE_DIR", "value": _PARTS}),
        objects=tuple(made),
        digest=digest,
    )


def _config_map(namespace: str, job: str, name: str, part: bytes) -> Obj:
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {CODE_OF: job[:63]}},
        "binaryData": {"part": base64.b64encode(part).decode()},
        "immutable": True,
    }


async def _created(client: KubeClient, obj: Obj) -> Obj:
    try:
        return await client.create(CONFIGMAPS, obj, field_manager="corral")
    except AlreadyExists:
        meta = obj["metadata"]
        return await client.get(CONFIGMAPS, meta["name"], namespace=meta["namespace"])


async def _give(client: KubeClient, obj: Obj, owner: Obj) -> None:
    """The owners of an earlier job of this name may be gone, and the ConfigMap with them."""
    meta = obj["metadata"]
    name, namespace = meta["name"], meta["namespace"]
    known = [other for other in meta.get("ownerReferences") or () if other["uid"] != owner["uid"]]
    try:
        patch = {"metadata": {"ownerReferences": [*known, owner]}}
        await client.patch(CONFIGMAPS, name, namespace=namespace, patch=patch)
    except NotFound:
        labels = meta.get("labels") or {}
        fresh = {"name": name, "namespace": namespace, "labels": labels, "ownerReferences": [owner]}
        again = {"metadata": fresh, "binaryData": obj["binaryData"], "immutable": True}
        await client.create(CONFIGMAPS, again, field_manager="corral")


def _sources(made: Sequence[Obj]) -> Obj:
    """Numbered so that a shell's ``*`` has them in order."""
    return {
        "sources": [
            {
                "configMap": {
                    "name": obj["metadata"]["name"],
                    "items": [{"key": "part", "path": f"part-{number:04d}"}],
                }
            }
            for number, obj in enumerate(made)
        ]
    }
