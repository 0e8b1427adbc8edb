"""How the controllers of spot jobs, machines and backups are added to a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.controllers.spot.settings import SpotSettings

if TYPE_CHECKING:
    from corral.runtime import Manager

__all__ = ["register"]


def register(manager: Manager, settings: SpotSettings) -> None:
    """Add them; each knows the others by what they write to their objects alone."""
    from corral.controllers.spot.backups_running import register as backups
    from corral.controllers.spot.engines_kubelet import KubeletSettings
    from corral.controllers.spot.jobs import register as jobs
    from corral.controllers.spot.machines import register as machines

    jobs(manager, settings)
    machines(manager, settings.machines)
    backups(
        manager,
        registry_map=settings.registry_map,
        token=settings.registry_token,
        kubelets=KubeletSettings(
            ca_file=settings.kubelet_ca,
            courier_image=settings.courier_image,
            registries=settings.registries,
        ),
    )
