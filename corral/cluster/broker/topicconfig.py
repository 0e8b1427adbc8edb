"""What can be set for a topic, by the names Kafka has for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.cluster.broker.errors import BrokerError, ErrorCode

__all__ = ["SETTINGS", "Setting", "TopicConfig", "checked"]

_LONG: Final = 2**63 - 1
_INT: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Setting:
    """One of them."""

    default: str
    check: Callable[[str], object]
    """Raises ValueError."""
    kind: int
    """The protocol's number for its type."""
    says: str


def _number(low: int, high: int) -> Callable[[str], int]:
    def check(text: str) -> int:
        # not all that int() reads: spaces without end would be kept with it
        if not re.fullmatch(r"-?[0-9]{1,19}", text):
            raise ValueError("must be a whole number")
        value = int(text)
        if not low <= value <= high:
            raise ValueError(f"must be from {low} to {high}")
        return value

    return check


def _only(*values: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in values:
            raise ValueError(f"can only be {' or '.join(values)} here")
        return text

    return check


_STRING, _INTEGER, _LONG_KIND, _LIST = 2, 3, 5, 7

SETTINGS: Final[Mapping[str, Setting]] = {
    "cleanup.policy": Setting(
        "delete", _only("delete"), _LIST, "Old segments are removed; there is no compaction."
    ),
    "compression.type": Setting(
        "producer", _only("producer"), _STRING, "Batches are kept as they come."
    ),
    "flush.messages": Setting(
        str(_LONG),
        _number(1, _LONG),
        _LONG_KIND,
        "Messages that may be only with the operating system when they are acknowledged.",
    ),
    "flush.ms": Setting(
        "10000", _number(0, _LONG), _LONG_KIND, "Milliseconds after which all are on disk."
    ),
    "max.message.bytes": Setting(
        "1048588", _number(0, _INT), _INTEGER, "The largest batch, as it comes."
    ),
    "message.timestamp.type": Setting(
        "CreateTime", _only("CreateTime"), _STRING, "Records have the time their producer gave."
    ),
    "min.insync.replicas": Setting("1", _number(1, 1), _INTEGER, "There is one replica."),
    "retention.bytes": Setting(
        "-1", _number(-1, _LONG), _LONG_KIND, "Bytes of a partition that are kept; -1: all."
    ),
    "retention.ms": Setting(
        "604800000", _number(-1, _LONG), _LONG_KIND, "Age of records that are kept; -1: any."
    ),
    "segment.bytes": Setting(
        str(256 * 2**20), _number(2**20, _INT), _INTEGER, "When the next file is begun."
    ),
    "segment.ms": Setting(
        "604800000", _number(1, _LONG), _LONG_KIND, "After how long the next file is begun."
    ),
}


def checked(name: str, value: str | None) -> str:
    """The value, as it is kept. Raises BrokerError."""
    setting = SETTINGS.get(name)
    if setting is None:
        known = ", ".join(SETTINGS)
        raise BrokerError(ErrorCode.invalid_config, f"{name}: not known here; known are {known}")
    if value is None:
        raise BrokerError(ErrorCode.invalid_config, f"{name}: null is no value")
    try:
        setting.check(value)
    except ValueError as err:
        raise BrokerError(ErrorCode.invalid_config, f"{name}: {value[:40]!r}: {err}") from err
    return value


class TopicConfig:
    """The settings of a topic: its own, before those of the broker, before those of Kafka."""

    def __init__(self, own: Mapping[str, str], defaults: Mapping[str, str]) -> None:
        self._defaults = defaults
        self.own: dict[str, str] = {}
        self.change(own)

    def change(self, own: Mapping[str, str]) -> None:
        """Have other settings of its own, checked before."""
        self.own = dict(own)
        self.max_message_bytes = self._number("max.message.bytes")
        self.retention_ms = self._number("retention.ms")
        self.retention_bytes = self._number("retention.bytes")
        self.segment_bytes = self._number("segment.bytes")
        self.segment_ms = self._number("segment.ms")
        self.flush_messages = self._number("flush.messages")
        self.flush_ms = self._number("flush.ms")

    def value(self, name: str) -> str:
        return self.own.get(name) or self._defaults.get(name) or SETTINGS[name].default

    def is_broker_default(self, name: str) -> bool:
        return name in self._defaults

    def _number(self, name: str) -> int:
        return int(self.value(name))
