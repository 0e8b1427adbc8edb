"""TrainingJob: jobs that train a model with a set of replicas that find each other.

`register` adds the controllers to a manager. The decisions in `lifecycle` are pure (`state`, with
`running` for a job that should run); `lifecycle.job` carries them out and `lifecycle.status` writes
the status. `objects` makes what a job consists of, `checkpoints` keeps its data. Names below are
loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.families.trainingjob.lifecycle.limits import RunLimits
    from corral.families.trainingjob.reconciler import register
    from corral.families.trainingjob.settings import TrainingSettings

__all__ = ["RunLimits", "TrainingSettings", "register"]

__getattr__ = lazily(
    __name__,
    {
        "lifecycle.limits": "RunLimits",
        "reconciler": "register",
        "settings": "TrainingSettings",
    },
)
