"""Names of strategies as people of Kafka-ML know them."""

from __future__ import annotations

from typing import Final

__all__ = ["strategy_name"]

_ALIASES: Final = {"fedopt": "fedavgm", "fedavg+": "krum"}


def strategy_name(strategy: str) -> str:
    """The engine's name of a strategy, by any name that people know it by."""
    name = strategy.strip().lower() or "fedavg"
    return _ALIASES.get(name, name)
