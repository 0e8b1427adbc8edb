"""How the controllers of spot jobs, machines and backups are added to a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.families.spot.settings import SpotSettings

if TYPE_CHECKING:
    from corral.runtime import Manager

__all__ = ["register"]


def register(manager: Manager, settings: SpotSettings) -> None:
    """Add them; each knows the others by what they write to their objects alone."""
    from corral.families.spot.backups.kubelet_engine import KubeletSettings
    from corral.families.spot.backups.wiring import register as backups
    from corral.families.spot.jobs.controller import register as jobs
    from corral.families.spot.machines.controller import register as machines

    jobs(manager, settings)
    machines(manager, settings.machines)
    backups(
        manager,
        registry_map=settings.registry_map,
        token=settings.registry_token,
        kubelets=KubeletSettings(
            ca_file=settings.kubelet_ca,
            account=settings.kubelet_account,
            courier_image=settings.courier_image,
            registries=settings.registries,
        ),
        egress=settings.machines.egress,
    )
