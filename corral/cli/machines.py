"""Options about the machines of spot jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from corral.cluster.up.folder import DataFolder
    from corral.families.spot.machines.settings import LocalVms, MachineSettings

__all__ = ["end_machines", "local_vms", "machine_settings"]


def local_vms(
    folder: DataFolder,
    registries: Mapping[str, str],
    *,
    allowed: Sequence[str] = (),
    images: Path | None,
    isolation: str,
    max_pods: int,
    expose: Sequence[Path] = (),
    host_access: Sequence[str] = (),
) -> LocalVms:
    """Machines of a cluster on this machine: their nodes are as the cluster's own."""
    from corral.families.spot.machines.settings import LocalVms

    options = [f"--isolation={isolation}", f"--max-pods={max_pods}"]
    options += [f"--registry-map={name}={url}" for name, url in registries.items()]
    options += [f"--allow-endpoint={text}" for text in allowed]
    options += [f"--expose={path.absolute()}" for path in expose]
    options += [f"--allow-host-access={word}" for word in host_access]
    options.append(f"--job-folder={folder.checkpoints}")
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

    from corral.families.spot.machines.local_vms import end_all
    from corral.families.spot.machines.settings import LocalVms

    async def end() -> None:
        # without an API server their agents cannot end in order
        await end_all(LocalVms(folder=_machines(folder), stop_grace_s=2.0), asyncio.Event())

    asyncio.run(end())


def machine_settings(
    folder: Path | None,
    authority: Path | None,
    options: Sequence[str] | None,
    cloud_options: Sequence[str] | None,
    *,
    allowed: Sequence[str] = (),
    lent: Sequence[str] | None = None,
    join_namespaces: Sequence[str] | None = None,
    most: int | None = None,
    most_per_namespace: int | None = None,
) -> MachineSettings:
    """How machines are made, as the command line says. Raises BadParameter."""
    from corral.egress import EgressPolicy
    from corral.families.spot.machines.settings import LocalVms, MachineSettings

    local = None
    if folder is not None:
        local = LocalVms(
            folder=folder.absolute(),
            authority=authority.absolute() if authority is not None else None,
            options=tuple(options or ()),
        )
        local = replace(
            local,
            most=local.most if most is None else most,
            most_per_namespace=(
                local.most_per_namespace if most_per_namespace is None else most_per_namespace
            ),
        )
    return MachineSettings(
        local=local,
        cloud_options=_by_cloud(cloud_options or ()),
        egress=EgressPolicy.of(allowed),
        lent=_lent(lent or ()),
        join_namespaces=tuple(join_namespaces or ()),
    )


def _lent(rules: Sequence[str]) -> tuple[str, ...]:
    from corral.api.spot.vm import CLOUDS

    for rule in rules:
        namespace, equals, what = rule.partition("=")
        if not (namespace and equals and what.partition(":")[0] in CLOUDS):
            raise typer.BadParameter(
                f"--lend-identity {rule}: write NAMESPACE=CLOUD or NAMESPACE=CLOUD:ACCOUNT"
            )
    return tuple(rules)


def _by_cloud(words: Sequence[str]) -> dict[str, dict[str, Any]]:
    from corral.api.spot.vm import CLOUDS

    found: dict[str, dict[str, Any]] = {}
    for word in words:
        name, equals, value = word.partition("=")
        cloud, dot, option = name.partition(".")
        if not equals or not dot or not option or cloud not in CLOUDS:
            raise typer.BadParameter(f"--cloud-option {word}: write CLOUD.NAME=VALUE")
        found.setdefault(cloud, {})[option] = value
    return found
