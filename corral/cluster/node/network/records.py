"""What an agent writes down about a pod's network before it makes one.

A record is there from before the first thing is made until after the last is removed: whatever an
agent leaves when it is killed, the next one finds it here.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from corral.cluster.node.isolation import Mode


@dataclass(frozen=True, slots=True)
class Record:
    """One pod."""

    uid: str
    mode: Mode
    namespace: str
    address: str
    hostname: str
    own: str
    """The head of its hosts file."""
    host_network: bool = False
    searches: Sequence[str] = ()
    """Domains of the cluster that the pod leaves out of names."""
    named: Sequence[str] = ()
    """Services of other namespaces that it names itself."""


class Records:
    """The records of one agent: a folder with two files for each pod."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self) -> dict[str, Record]:
        """Everything that earlier agents wrote down."""
        self._folder.mkdir(parents=True, exist_ok=True)
        found: dict[str, Record] = {}
        for path in self._folder.glob("*.json"):
            try:
                record = Record(**json.loads(path.read_text()))
            except (ValueError, TypeError):
                path.unlink()  # the agent died while it wrote this, so it had made nothing
                continue
            found[record.uid] = record
        return found

    def hosts(self, uid: str) -> Path:
        return self._folder / f"{uid}.hosts"

    def write(self, record: Record) -> None:
        (self._folder / f"{record.uid}.json").write_text(json.dumps(asdict(record)))

    def remove(self, uid: str) -> None:
        self.hosts(uid).unlink(missing_ok=True)
        (self._folder / f"{uid}.json").unlink(missing_ok=True)
