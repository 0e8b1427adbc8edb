"""The ten areas, case by case."""

from __future__ import annotations

from tests.unit.families.mpijob.mpijob_table_jobs import IMPLEMENTATION, NETWORK, RUN
from tests.unit.families.mpijob.mpijob_table_pods import CONTAINERS, LABELS, SECURITY
from tests.unit.families.mpijob.mpijob_table_rooms import QUOTA, RESOURCES, SCHEDULING, SLOTS

__all__ = ["CASES"]

CASES = [
    *RESOURCES,
    *SLOTS,
    *IMPLEMENTATION,
    *NETWORK,
    *RUN,
    *SCHEDULING,
    *CONTAINERS,
    *QUOTA,
    *SECURITY,
    *LABELS,
]
