"""MPIJobs: their objects, their rules, their controller, and the webhooks.

`register` adds the controller to a manager. In `lifecycle`, `state` decides without I/O, `run`
carries it out, `status` writes the status, `diagnosis` says why a job failed and `cleanup` deletes.
`objects` has the builders of everything that belongs to a job, which they see through `view` and
the cluster's `settings`. `validation` judges jobs, ten areas one by one, and `webhooks` asks it.
Names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.families.mpijob.lifecycle.limits import MPISettings
    from corral.families.mpijob.reconciler import register
    from corral.families.mpijob.settings import ObjectSettings

__all__ = ["MPISettings", "ObjectSettings", "register"]

__getattr__ = lazily(
    __name__,
    {
        "lifecycle.limits": "MPISettings",
        "reconciler": "register",
        "settings": "ObjectSettings",
    },
)
