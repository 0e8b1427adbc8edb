"""What is different between the objects of two operators, and which of it is meant to be."""

from __future__ import annotations

import re
from base64 import b64decode
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.cluster.compare.normal import Normal, differences
from tests.cluster.mpijob_peer.story import Obj, Snapshot


@dataclass(frozen=True)
class Difference:
    """A place where ours is meant to be different, and why."""

    place: str
    """An expression for the start of the line that says so."""
    reason: str

    def covers(self, line: str) -> bool:
        return re.match(self.place, line) is not None


MEANT = (
    Difference(
        r'Job \S+-launcher\.spec\.podReplacementPolicy: ours "Failed" theirs "TerminatingOrFailed"',
        "mpi-operator v0.8.2 says so too: two launchers of a job must not run at the same time",
    ),
    Difference(
        r"Job \S+-launcher\.spec\.template\.spec\.containers\.[\w-]+\.env\.PRTE_MCA_\w+: ours has",
        "Open MPI 5 reads these and ignores those of version 4",
    ),
    Difference(
        r"Pod \S+-launcher-\.spec\.containers\.[\w-]+\.env\.PRTE_MCA_\w+: ours has",
        "the pod of that Job",
    ),
    Difference(
        r'MPIJob \S+\.metadata\.finalizers: ours has \["corral\.dev/mpijob-cleanup"\]',
        "the order in which a job's objects are taken down",
    ),
)


def compare(ours: Snapshot, theirs: Snapshot) -> list[str]:
    """Every difference, meant or not, as a line that begins with kind, name and field."""
    found = []
    for key in sorted(ours.keys() | theirs.keys()):
        if key not in theirs:
            found.append(f"{key}: ours alone")
        elif key not in ours:
            found.append(f"{key}: theirs alone")
        else:
            left, right = (comparable(key, side[key]) for side in (ours, theirs))
            found += [f"{key}{line}" for line in differences(*_by_name(left, right))]
    return found


def not_meant(lines: list[str]) -> list[str]:
    return [line for line in lines if not any(each.covers(line) for each in MEANT)]


def comparable(key: str, obj: Obj) -> Any:
    """An object without what no two operators could have in common."""
    kept = deepcopy(obj)
    # who wrote a field and in how many steps is not what was made
    for name in ("managedFields", "resourceVersion", "generation"):
        kept["metadata"].pop(name, None)
    kind, _, name = key.partition(" ")
    if kind == "Secret":
        kept["data"] = {field: _shape(value) for field, value in kept["data"].items()}
    if kind != "MPIJob":
        kept.pop("status", None)  # of the controllers of the cluster
    generated = name if name.endswith("-") else ""
    return Normal(generated=generated).value(kept)


def _shape(value: str) -> Any:
    """What kind of key it is, without the key."""
    text = b64decode(value).decode()
    lines = text.splitlines()
    if lines[0].startswith("-----BEGIN"):
        return [lines[0], lines[-1], [len(line) for line in lines], text.endswith("\n")]
    words = text.split()
    return [words[0], len(words), len(words[1]), text.endswith("\n")]


def _by_name(ours: Any, theirs: Any) -> tuple[Any, Any]:
    """Lists of named things as maps, with the order of what both have: so one more is one line."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        pairs = {k: _by_name(ours[k], theirs[k]) for k in ours.keys() & theirs.keys()}
        return (
            {k: pairs[k][0] if k in pairs else v for k, v in ours.items()},
            {k: pairs[k][1] if k in pairs else v for k, v in theirs.items()},
        )
    if not (isinstance(ours, list) and isinstance(theirs, list)):
        return ours, theirs
    for key in ("name", "type"):
        if _have(ours, key) and _have(theirs, key):
            both = {item[key] for item in ours} & {item[key] for item in theirs}
            return _by_name(_named(ours, key, both), _named(theirs, key, both))
    if len(ours) == len(theirs):
        pairs_in_order = [_by_name(left, right) for left, right in zip(ours, theirs, strict=True)]
        return [left for left, _ in pairs_in_order], [right for _, right in pairs_in_order]
    return ours, theirs


def _have(items: list[Any], key: str) -> bool:
    names = [item.get(key) if isinstance(item, dict) else None for item in items]
    return None not in names and len(set(names)) == len(names)


def _named(items: list[Any], key: str, both: set[str]) -> Obj:
    order = [item[key] for item in items if item[key] in both]
    return {**{item[key]: item for item in items}, "(order)": order}
