"""Which attempt the pod of each replica belongs to, as a TrainingJob's status says. No I/O.

Every (replica, attempt) is claimed by a write of the status that is bound to the version read:
two operators cannot claim the same. ``status.attempt`` numbers whole sets of pods. A replica that
is started anew alone gets a higher number in ``status.replicaAttempts``, and the others keep theirs
(their environment does not change). So a pod is of use exactly if its attempt is the one that its
replica has now, and a report from any lower attempt is fenced.
"""

from __future__ import annotations

from collections.abc import Iterable

from corral.kube.types import Obj

__all__ = [
    "claim_replicas",
    "claim_set",
    "completed_replicas",
    "format_indexes",
    "highest_attempt",
    "is_fenced",
    "parse_indexes",
    "wanted_attempt",
]


def wanted_attempt(status: Obj, replica: int) -> int:
    """The attempt that the pod of this replica must be of; 0 before the first."""
    alone = (status.get("replicaAttempts") or {}).get(str(replica), 0)
    return int(max(alone, status.get("attempt") or 0))


def highest_attempt(status: Obj) -> int:
    """The highest number that was ever given out."""
    alone = (status.get("replicaAttempts") or {}).values()
    return int(max(status.get("attempt") or 0, *alone, 0))


def is_fenced(status: Obj, replica: int, attempt: int) -> bool:
    """Whether what this attempt of a replica says must not count any more."""
    return attempt < wanted_attempt(status, replica)


def claim_set(status: Obj, *, world: int, keep_completed: bool) -> int:
    """Begin a new set of pods, in place; its number."""
    attempt = highest_attempt(status) + 1
    status["attempt"], status["worldSize"] = attempt, world
    status.pop("replicaAttempts", None)
    done = [i for i in completed_replicas(status) if i < world] if keep_completed else []
    _put_completed(status, done)
    return attempt


def claim_replicas(status: Obj, replicas: Iterable[int]) -> int:
    """Begin these replicas anew and leave the others alone, in place; the new number."""
    attempt = highest_attempt(status) + 1
    alone = dict(status.get("replicaAttempts") or {})
    status["replicaAttempts"] = alone | {str(replica): attempt for replica in replicas}
    return attempt


def completed_replicas(status: Obj) -> set[int]:
    """The replicas of the present attempt that have succeeded."""
    return parse_indexes(status.get("completedReplicas") or "")


def add_completed(status: Obj, replicas: Iterable[int]) -> None:
    """Note in place that these have succeeded."""
    _put_completed(status, completed_replicas(status) | set(replicas))


def _put_completed(status: Obj, replicas: Iterable[int]) -> None:
    text = format_indexes(replicas)
    if text:
        status["completedReplicas"] = text
    else:
        status.pop("completedReplicas", None)


def parse_indexes(text: str) -> set[int]:
    """``0-2,5`` as the numbers it stands for."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def format_indexes(indexes: Iterable[int]) -> str:
    """Numbers as ``0-2,5``."""
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
