"""MPIJobs: their objects, their rules, their controller, and the webhooks.

`register` adds the controller to a manager. The decisions are pure (`state`); `run` carries them
out, `resources` makes the objects, `status` writes what has become of a job, `diagnosis` says why
it failed, `cleanup` takes down what is deleted. `objects` makes everything that belongs to a job
(`launcher`, `workers`, `hostfile`, `ssh`, `podgroup` and `networkpolicy` have the parts), of a job
seen through `view` and the cluster's `settings`. `validation` judges jobs, ten areas one by one,
and `webhooks` asks it. Names and labels are in `names`. Names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.controllers.mpijob.limits import MPISettings
    from corral.controllers.mpijob.reconciler import register
    from corral.controllers.mpijob.settings import ObjectSettings

__all__ = ["MPISettings", "ObjectSettings", "register"]

__getattr__ = lazily(
    __name__,
    {
        "limits": "MPISettings",
        "reconciler": "register",
        "settings": "ObjectSettings",
    },
)
