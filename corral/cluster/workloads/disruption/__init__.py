"""How many pods of a budget may be disrupted now: the status of PodDisruptionBudgets.

``budget`` decides, from pods and the number that their controllers want; ``scales`` finds that
number; ``controller`` drives both, and takes back the disruption condition of pods that nobody
deleted.
"""

from __future__ import annotations

from corral.cluster.workloads.disruption.budget import Verdict, failed_status, judge

__all__ = ["Verdict", "failed_status", "judge"]
