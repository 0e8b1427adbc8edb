"""What is offered: each request with the versions that are understood."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.cluster.broker.api import (
    cluster,
    configs,
    fetch,
    groups,
    offsets,
    records,
    sasl,
    topics,
)
from corral.cluster.broker.api.call import Answer, Call

__all__ = ["BEFORE_LOGIN", "TABLE", "Api"]


@dataclass(frozen=True, slots=True)
class Api:
    """One kind of request."""

    oldest: int
    newest: int
    answer: Callable[[Call], Awaitable[Answer | None]]


TABLE: Final[Mapping[int, Api]] = {
    0: Api(3, 11, records.produce),
    1: Api(4, 12, fetch.fetch),
    2: Api(1, 7, fetch.list_offsets),
    3: Api(0, 12, cluster.metadata),
    8: Api(2, 8, offsets.offset_commit),
    9: Api(1, 8, offsets.offset_fetch),
    10: Api(0, 4, cluster.find_coordinator),
    11: Api(0, 4, groups.join_group),
    12: Api(0, 2, groups.heartbeat),
    13: Api(0, 2, groups.leave_group),
    14: Api(0, 2, groups.sync_group),
    15: Api(0, 5, groups.describe_groups),
    16: Api(0, 5, groups.list_groups),
    17: Api(1, 1, sasl.sasl_handshake),
    18: Api(0, 4, cluster.api_versions),
    19: Api(2, 7, topics.create_topics),
    20: Api(1, 6, topics.delete_topics),
    21: Api(0, 2, records.delete_records),
    22: Api(0, 4, records.init_producer_id),
    23: Api(2, 4, fetch.offset_for_leader_epoch),
    32: Api(1, 4, configs.describe_configs),
    33: Api(0, 2, configs.alter_configs),
    36: Api(0, 2, sasl.sasl_authenticate),
    37: Api(0, 3, topics.create_partitions),
    42: Api(0, 2, groups.delete_groups),
    44: Api(0, 1, configs.incremental_alter_configs),
    47: Api(0, 0, offsets.offset_delete),
    50: Api(0, 0, sasl.describe_user_scram_credentials),
    51: Api(0, 0, sasl.alter_user_scram_credentials),
    60: Api(0, 2, cluster.describe_cluster),
}
"""By the protocol's number. Versions with static members, the newer group protocol, topic ids in
the place of names, and transactions are left out: they are not here."""

BEFORE_LOGIN: Final = frozenset({17, 18, 36})
"""What somebody may ask who has not logged in."""
