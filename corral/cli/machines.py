"""Options about the machines of spot jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from corral.cluster.up.folder import DataFolder
    from corral.controllers.spot.machines_settings import LocalVms, MachineSettings

__all__ = ["end_machines", "local_vms", "machine_settings"]


def local_vms(
    folder: DataFolder,
    registries: Mapping[str, str],
    *,
    images: Path | None,
    isolation: str,
    max_pods: int,
) -> LocalVms:
    """Machines of a cluster on this machine: their nodes are as the cluster's own."""
    from corral.controllers.spot.machines_settings import LocalVms

    options = [f"--isolation={isolation}", f"--max-pods={max_pods}"]
    options += [f"--registry-map={name}={url}" for name, url in registries.items()]
    if images is not None:
        options.append(f"--images={images.absolute()}")
    return LocalVms(folder=_machines(folder), authority=folder.path / "pki", options=tuple(options))


def _machines(folder: DataFolder) -> Path:
    return folder.path / "machines"


def end_machines(folder: DataFolder) -> None:
    """End the machines of a cluster that does not run."""
    if not _machines(folder).exists():
        return
    import asyncio

    from corral.controllers.spot.local_vms import end_all
    from corral.controllers.spot.machines_settings import LocalVms

    async def end() -> None:
        # without an API server their agents cannot end in order
        await end_all(LocalVms(folder=_machines(folder), stop_grace_s=2.0), asyncio.Event())

    asyncio.run(end())


def machine_settings(
    folder: Path | None,
    authority: Path | None,
    options: Sequence[str] | None,
    cloud_options: Sequence[str] | None,
) -> MachineSettings:
    """How machines are made, as the command line says. Raises BadParameter."""
    from corral.controllers.spot.machines_settings import LocalVms, MachineSettings

    local = None
    if folder is not None:
        local = LocalVms(
            folder=folder.absolute(),
            authority=authority.absolute() if authority is not None else None,
            options=tuple(options or ()),
        )
    return MachineSettings(local=local, cloud_options=_by_cloud(cloud_options or ()))


def _by_cloud(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    from corral.api.spot_vm import CLOUDS

    found: dict[str, dict[str, Any]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        cloud, dot, option = name.partition(".")
        if not equals or not dot or not option or cloud not in CLOUDS:
            raise typer.BadParameter(f"--cloud-option {word}: write CLOUD.NAME=VALUE")
        found.setdefault(cloud, {})[option] = value
    return found
