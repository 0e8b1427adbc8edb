"""How the controllers of WasmTasks and PropletGroups are added to a manager."""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.families.federated.settings import FederatedSettings

if TYPE_CHECKING:
    from corral.runtime import Manager

__all__ = ["register"]


def register(manager: Manager, settings: FederatedSettings) -> None:
    """Add them: both work with the same knowledge of proplets."""
    from corral.families.federated.groups.family import register as groups
    from corral.families.federated.groups.pools import Pools
    from corral.families.federated.tasks.family import register as tasks

    pools = Pools(manager, settings)
    groups(manager, settings, pools)
    tasks(manager, settings, pools)
