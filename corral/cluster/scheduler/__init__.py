"""The scheduler as a running process: ``corral.cluster.scheduler.placement`` with its I/O.

A plain API client, what kube-scheduler is to a real cluster, and able to run beside it under
another name. Guarantees:

- Pods go where kube-scheduler 1.37 with its default configuration would put them, and pods that
  cannot are told so in its words (less what ``scheduling`` leaves out).
- PodGroups of ``scheduling.volcano.sh`` and ``scheduling.x-k8s.io`` are placed whole or not at
  all; waiting ones hold nothing, so they cannot block each other.
- It may be killed at any moment: all it knows is read from the API server again.

``registration`` puts it together; ``loop`` is where decisions are made, ``gangcycle`` those for
groups; ``feed`` is what comes in, and ``binding``, ``claims``, ``evictions``, ``statuses`` and
``groupwriter`` are what goes out.
"""

from corral.cluster.scheduler.definitions import crds
from corral.cluster.scheduler.loop import Scheduler, SchedulerSettings
from corral.cluster.scheduler.registration import register

__all__ = ["Scheduler", "SchedulerSettings", "crds", "register"]
