"""TrainingJob: jobs that train a model with a set of replicas that find each other.

`register` adds the controllers to a manager. The decisions are pure (`state`, with `running` for a
job that should run); `job` carries them out, `resources` makes the objects, `status` writes what
has become of the job. Names below are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.controllers.trainingjob.limits import RunLimits
    from corral.controllers.trainingjob.reconciler import register
    from corral.controllers.trainingjob.settings import TrainingSettings

__all__ = ["RunLimits", "TrainingSettings", "register"]

__getattr__ = lazily(
    __name__,
    {
        "limits": "RunLimits",
        "reconciler": "register",
        "settings": "TrainingSettings",
    },
)
