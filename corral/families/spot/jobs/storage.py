"""Where a copy of a spot job keeps its checkpoints, and what its containers are told of it. No I/O.

All copies of a job see one folder. Each writes below ``replica-<number>`` of it, where starts of
the same copy fence each other by their attempt; copies never do. A start takes the newest
checkpoint that proves intact, whichever copy wrote it: copies do the same work.

With the engines that save images instead, the start is given what was saved last: the directory is
filled by an init container, newest image first, or the containers run the saved images.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from corral.api.spot.rules import duration_seconds
from corral.kube.types import Obj
from corral.podtools.commands import SNAPSHOTS, python_command
from corral.runtime.pods.reports import (
    CHECKPOINT_VOLUME,
    REPORT_AUDIENCE,
    TOKEN_FILE,
    TOKEN_VOLUME,
    token_volume,
)

__all__ = [
    "DIRECTORY_VOLUME",
    "FOLDER",
    "RESTORER",
    "CopyStorage",
    "StorageProblem",
    "StorageSettings",
    "claim_of",
    "folder_of",
    "storage_for",
    "storage_type",
]

FOLDER: Final = "/checkpoints"
"""Where containers find the checkpoints of all copies."""
DIRECTORY_VOLUME: Final = "corral-directory"
RESTORER: Final = "corral-restore"
"""The init container that fills the directory from an image."""
_TOKEN_FOLDER: Final = TOKEN_FILE.rpartition("/")[0]
_LOGINS_VOLUME: Final = "corral-registry-login"
_LOGINS_FOLDER: Final = "/var/run/secrets/corral-registry"
_REGISTRY_TOKEN_VOLUME: Final = "corral-registry-token"
_REGISTRY_TOKEN_FOLDER: Final = "/var/run/secrets/corral"
_REMOTE: Final = ("gcs", "s3", "azure")
DEFAULT_INTERVAL: Final = 600.0
"""Seconds, while the interval is ``auto`` and none was worked out yet."""


class StorageProblem(Exception):
    """The job cannot keep its checkpoints as it says; the message is for its author."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSettings:
    """What the operator knows of the surroundings of pods."""

    local_root: Path | None = None
    """Where ``checkpointStorage.type: local`` is kept; None: it is not to be had."""
    report_url: str | None = None
    """Where pods reach the report endpoint, without a path; None: pods do not report."""
    report_ca: str = ""
    report_audience: str = REPORT_AUDIENCE
    courier_image: str = "corral/courier"
    """What fetches images: has Python and this package."""
    registries: Mapping[str, str] = field(default_factory=dict)
    """Name → URL of registries, as pods reach them."""


@dataclass(frozen=True, slots=True)
class CopyStorage:
    """What a copy's pod is given; `add_to` puts it in."""

    env: dict[str, str]
    volumes: list[Obj] = field(default_factory=list)
    mounts: list[Obj] = field(default_factory=list)
    init_containers: list[Obj] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    """Container → the image of its saved state, which it is started from."""

    def add_to(self, pod: Obj) -> None:
        """Put it into a pod's spec, in place; what the author wrote stays."""
        known = {volume.get("name") for volume in pod.get("volumes") or ()}
        added = [volume for volume in self.volumes if volume["name"] not in known]
        if added:
            pod["volumes"] = [*(pod.get("volumes") or ()), *added]
        for container in pod.get("containers") or ():
            self._add_to_container(container)
        if self.init_containers:
            present = pod.get("initContainers") or []
            pod["initContainers"] = [*(dict(one) for one in self.init_containers), *present]

    def _add_to_container(self, container: Obj) -> None:
        theirs = container.get("env") or []
        taken = {variable.get("name") for variable in theirs}
        ours = [{"name": k, "value": v} for k, v in self.env.items() if k not in taken]
        container["env"] = [*ours, *theirs]
        mounts = list(container.get("volumeMounts") or ())
        paths = {str(mount.get("mountPath", "")).rstrip("/") for mount in mounts}
        mounts += [dict(m) for m in self.mounts if m["mountPath"].rstrip("/") not in paths]
        if mounts:
            container["volumeMounts"] = mounts
        if container.get("name") in self.images:
            container["image"] = self.images[container["name"]]


def storage_for(
    job: Obj,
    replica: int,
    attempt: int,
    *,
    settings: StorageSettings,
    interval: float | None = None,
    restore_images: Sequence[str] = (),
) -> CopyStorage:
    """Everything about checkpoints that the pod of one start of a copy needs.

    Args:
        job: the SpotInstanceJob.
        replica: which copy.
        attempt: of all starts of the job; a higher one fences the lower ones of the same copy.
        settings: of the operator.
        interval: seconds between checkpoints, where they are ``auto``.
        restore_images: with the engines Directory and Kubelet, images to start from, newest first
            (`corral.families.spot.backups.restores.images_of`).

    Raises:
        StorageProblem: the job wants what is not to be had here.
    """
    config = job["spec"]["checkpointConfig"]
    engine = config.get("engine") or "Application"
    env = {"CORRAL_ATTEMPT": str(attempt)} | _reporting(job, settings)
    if engine == "Application":
        found = _application(job, replica, settings=settings, interval=interval)
    elif engine == "Directory":
        found = _directory(job, settings, restore_images)
    else:
        found = CopyStorage({}, images=_images(job, restore_images))
    volumes, mounts = list(found.volumes), list(found.mounts)
    if settings.report_url:
        volumes.append(token_volume(settings.report_audience))
        mounts.append({"name": TOKEN_VOLUME, "mountPath": _TOKEN_FOLDER, "readOnly": True})
    return CopyStorage(env | found.env, volumes, mounts, found.init_containers, found.images)


def storage_type(job: Obj) -> str:
    """Gcs, s3, azure, pvc or local (which is also what stands for nothing), in small letters."""
    storage = job["spec"]["checkpointConfig"].get("checkpointStorage") or {}
    return str(storage.get("type") or "local").lower()


def folder_of(job: Obj, root: Path | None) -> Path:
    """The folder of this machine with the checkpoints of all copies.

    Raises:
        StorageProblem: there are none in this cluster.
    """
    if root is None:
        raise StorageProblem(
            "spec.checkpointConfig.checkpointStorage: folders of the machine are for clusters of "
            "one machine; use type pvc, gcs, s3 or azure"
        )
    storage = job["spec"]["checkpointConfig"].get("checkpointStorage") or {}
    metadata = job["metadata"]
    base = storage.get("pathPrefix") or ""
    top = Path(base) if base.startswith("/") else root
    # A job made anew under the name must not meet the marks of attempts that it has not made.
    return top.joinpath(metadata["namespace"], metadata["name"], metadata["uid"])


def claim_of(job: Obj) -> str:
    """The claim that all copies mount, with ``type: pvc``: named by ``bucket``."""
    storage = job["spec"]["checkpointConfig"].get("checkpointStorage") or {}
    return str(storage.get("bucket") or f"{job['metadata']['name']}-checkpoints")


def _reporting(job: Obj, settings: StorageSettings) -> dict[str, str]:
    if not settings.report_url:
        return {}
    metadata = job["metadata"]
    path = f"v1/namespaces/{metadata['namespace']}/spotinstancejobs/{metadata['name']}"
    env = {
        "CORRAL_REPORT_URL": f"{settings.report_url.rstrip('/')}/{path}",
        "CORRAL_REPORT_TOKEN_FILE": TOKEN_FILE,
    }
    return env | ({"CORRAL_REPORT_CA": settings.report_ca} if settings.report_ca else {})


def _application(
    job: Obj, replica: int, *, settings: StorageSettings, interval: float | None
) -> CopyStorage:
    config = job["spec"]["checkpointConfig"]
    kind = storage_type(job)
    remote = kind in _REMOTE
    if remote and not settings.report_url:
        raise StorageProblem(
            f"spec.checkpointConfig.checkpointStorage: type {kind} needs the operator's report "
            "endpoint, which is off (--report-port)"
        )
    env = {
        "CORRAL_CHECKPOINT_DIR": FOLDER if remote else f"{FOLDER}/replica-{replica}",
        "CORRAL_CHECKPOINT_STORE": "remote" if remote else "volume",
        "CORRAL_CHECKPOINT_INTERVAL": f"{_interval(config, interval):g}",
        "CORRAL_CHECKPOINT_KEEP": str(config.get("keep") or 3),
        "CORRAL_RESTORE_FROM": "latest",
    }
    if not remote:
        env["CORRAL_CHECKPOINT_PEERS"] = FOLDER
    mount: Obj = {"name": CHECKPOINT_VOLUME, "mountPath": FOLDER}
    volume: Obj = {"name": CHECKPOINT_VOLUME}
    if remote:
        volume["emptyDir"] = {}
    elif kind == "pvc":
        volume["persistentVolumeClaim"] = {"claimName": claim_of(job)}
        mount["subPath"] = _sub_path(job)
    elif kind == "local":
        place = str(folder_of(job, settings.local_root))
        volume["hostPath"] = {"path": place, "type": "DirectoryOrCreate"}
    else:
        raise StorageProblem(
            f"spec.checkpointConfig.checkpointStorage.type: {kind} is not known; use gcs, s3, "
            "azure, pvc or local"
        )
    return CopyStorage(env, [volume], [mount])


def _interval(config: Mapping[str, Any], chosen: float | None) -> float:
    fixed = duration_seconds(str(config.get("checkpointInterval") or ""))
    return fixed if fixed is not None else chosen or DEFAULT_INTERVAL


def _sub_path(job: Obj) -> str:
    storage = job["spec"]["checkpointConfig"].get("checkpointStorage") or {}
    metadata = job["metadata"]
    parts = [part for part in str(storage.get("pathPrefix") or "").split("/") if part]
    if ".." in parts:
        raise StorageProblem("spec.checkpointConfig.checkpointStorage.pathPrefix: leave out ..")
    return "/".join([*parts, metadata["name"], metadata["uid"]])


def _directory(job: Obj, settings: StorageSettings, images: Sequence[str]) -> CopyStorage:
    config = job["spec"]["checkpointConfig"]
    directory = str(config.get("directory") or "").rstrip("/")
    if not directory:
        raise StorageProblem(
            "spec.checkpointConfig.directory: the Directory engine must know what to save"
        )
    volume, mount = _directory_volume(job, directory)
    volumes = [volume] if volume else []
    mounts = [mount] if volume else []
    env = {"CORRAL_DIRECTORY": directory}
    if not images:
        return CopyStorage(env, volumes, mounts)
    told = {
        "CORRAL_DIRECTORY": directory,
        "CORRAL_DIRECTORY_NAME": directory.strip("/"),
        "CORRAL_DIRECTORY_IMAGES": json.dumps(list(images)),
        "CORRAL_REGISTRY_TOKEN": f"{_REGISTRY_TOKEN_FOLDER}/token",
    }
    if settings.registries:
        told["CORRAL_REGISTRIES"] = json.dumps(dict(settings.registries))
    token = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}
    volumes.append({"name": _REGISTRY_TOKEN_VOLUME, "projected": {"sources": [token]}})
    inside = [
        mount,
        {
            "name": _REGISTRY_TOKEN_VOLUME,
            "mountPath": _REGISTRY_TOKEN_FOLDER,
            "readOnly": True,
        },
    ]
    secret = (config.get("checkpointRepoCredentialRef") or {}).get("name")
    if secret:
        volumes.append({"name": _LOGINS_VOLUME, "secret": {"secretName": secret}})
        inside.append({"name": _LOGINS_VOLUME, "mountPath": _LOGINS_FOLDER, "readOnly": True})
        told["CORRAL_REGISTRY_LOGIN"] = _LOGINS_FOLDER
    restorer: Obj = {
        "name": RESTORER,
        "image": settings.courier_image,
        "command": python_command(SNAPSHOTS, "restore"),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "env": [{"name": name, "value": value} for name, value in told.items()],
        "volumeMounts": inside,
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
    }
    return CopyStorage(env, volumes, mounts, [restorer])


def _directory_volume(job: Obj, directory: str) -> tuple[Obj | None, Obj]:
    """The template's own volume at the directory, else one of ours; and how it is mounted."""
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    for container in pod.get("containers") or ():
        for mount in container.get("volumeMounts") or ():
            if str(mount.get("mountPath", "")).rstrip("/") == directory:
                return None, dict(mount)
    ours: Obj = {"name": DIRECTORY_VOLUME, "emptyDir": {}}
    return ours, {"name": DIRECTORY_VOLUME, "mountPath": directory}


def _images(job: Obj, images: Sequence[str]) -> dict[str, str]:
    """The image of the newest saved state for the job's container; a runtime restores from it."""
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    first = next(iter(pod.get("containers") or ()), None)
    return {str(first["name"]): images[0]} if images and first else {}
