"""How much somebody has stored, and may have."""

from __future__ import annotations

from dataclasses import dataclass

from corral.cluster.broker.errors import BrokerError, ErrorCode

__all__ = ["Usage"]


@dataclass(slots=True)
class Usage:
    """Bytes of records, all partitions of a tenant together."""

    limit: int
    of: str = ""
    size: int = 0
    producers: int = 0
    """Idempotent ones that its partitions remember."""
    most_producers: int = 2**63

    def check(self, more: int) -> None:
        """Raises BrokerError where there is no room."""
        if self.size + more > self.limit:
            raise BrokerError(
                ErrorCode.policy_violation,
                f"{self.of} has {self.size} bytes of records and may have {self.limit}: "
                "delete topics or records, or have them kept for less long (retention.ms)",
            )
