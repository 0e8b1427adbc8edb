"""The life of one machine as its entry in ``status.provisionedInstances`` tells it. Pure.

PENDING (its request id is written down, the cloud may have been asked) → PROVISIONING → RUNNING →
STOPPING (it is no longer wished) → TERMINATED. A machine that was refused or is lost is TERMINATED
at once; ``endTime`` is when nothing is left of it at the cloud.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from corral.api.spot.kinds import PREEMPTION_CONDITION
from corral.clouds.base import Notice, State, Vm
from corral.clouds.errors import (
    AccountRefused,
    BadRequest,
    CloudError,
    MissingLibrary,
    QuotaExceeded,
    StockOut,
)
from corral.families.spot.machines.requested import Wish
from corral.kube.types import Obj
from corral.runtime.conditions import find_condition, is_condition_true
from corral.runtime.keys import format_time
from corral.runtime.pods.states import moment
from corral.runtime.sightings import Sightings

__all__ = [
    "PENDING",
    "PROVISIONING",
    "RUNNING",
    "STATES",
    "STOPPING",
    "TERMINATED",
    "Change",
    "created",
    "is_alive",
    "is_over",
    "kept",
    "left_to_join",
    "lost",
    "not_joined",
    "phase_of",
    "refused",
    "removed",
    "said",
    "seen",
    "settled",
    "silent",
    "told_by",
    "told_by_node",
]

PENDING: Final = "PENDING"
PROVISIONING: Final = "PROVISIONING"
RUNNING: Final = "RUNNING"
STOPPING: Final = "STOPPING"
TERMINATED: Final = "TERMINATED"
STATES: Final = (PENDING, PROVISIONING, RUNNING, STOPPING, TERMINATED)
_WORDS: Final = 500
"""Longest message."""

Change = Callable[[Obj], None]
"""What became of work on a machine, to be written into its entry."""
_REASONS: Final[tuple[tuple[type[CloudError], str], ...]] = (
    (StockOut, "StockOut"),
    (QuotaExceeded, "QuotaExceeded"),
    (AccountRefused, "AccountRefused"),
    (MissingLibrary, "AccountRefused"),
    (BadRequest, "BadRequest"),
)


def is_alive(entry: Obj) -> bool:
    """Whether there is, or will be, a machine that somebody wants."""
    return entry.get("state") in (PENDING, PROVISIONING, RUNNING)


def is_over(entry: Obj) -> bool:
    """Whether nothing is left of it."""
    return bool(entry.get("endTime"))


# --- wishes --------------------------------------------------------------------------------------


def settled(entries: Iterable[Obj], wishes: Iterable[Wish], now: float) -> list[Obj]:
    """The entries with one for every wish; what nobody wishes is to go. New dicts."""
    found = {entry["name"]: dict(entry) for entry in entries}
    wished = set()
    for wish in wishes:
        entry = found.get(wish.instance)
        if entry is None or (entry.get("requestID") != wish.request_id and is_over(entry)):
            found.pop(wish.instance, None)  # at the end, where the newest are
            found[wish.instance] = _begun(wish, now)
        if found[wish.instance].get("requestID") == wish.request_id:
            wished.add(wish.instance)
    for name, entry in found.items():
        if name not in wished and is_alive(entry):
            entry |= {"state": STOPPING, "reason": "Deleted"}
    return list(found.values())


def _begun(wish: Wish, now: float) -> Obj:
    entry: Obj = {
        "name": wish.instance,
        "state": PENDING,
        "joinedCluster": False,
        "creationTime": format_time(now),
        "job": wish.job,
        "requestID": wish.request_id,
        "cloud": wish.cloud,
        "region": wish.region,
        "zone": wish.zone,
        "machineType": wish.machine_type,
        "provisioningModel": "Spot" if wish.spot else "OnDemand",
    }
    if wish.price is not None:
        entry["pricePerHour"] = wish.price
    if wish.credentials is not None:
        entry["credentialsSecretRef"] = wish.credentials
    return entry


def kept(entries: Sequence[Obj], wished: Iterable[str], limit: int) -> list[Obj]:
    """Without the oldest of those that are over, as far as their jobs have taken note."""
    needed = set(wished)
    past = [entry["name"] for entry in entries if is_over(entry) and entry["name"] not in needed]
    dropped = set(past[: max(len(past) - limit, 0)])
    return [entry for entry in entries if entry["name"] not in dropped]


# --- what the cloud says -------------------------------------------------------------------------


def created(entry: Obj, vm: Vm, *, now: float) -> None:
    """The cloud has made it, or had made it before."""
    entry["instanceID"] = vm.id
    if vm.created is not None:
        entry["creationTime"] = format_time(vm.created)
    seen(entry, vm, now=now)


def refused(entry: Obj, error: CloudError, *, now: float) -> None:
    """The cloud makes none; nothing was left behind."""
    reason = next((word for kind, word in _REASONS if isinstance(error, kind)), "BadRequest")
    entry |= {"state": TERMINATED, "reason": reason, "endTime": format_time(now)}
    said(entry, str(error))


def seen(entry: Obj, vm: Vm | None, *, now: float) -> None:
    """What it is now; None: there is none."""
    if vm is None or not vm.alive:
        if is_alive(entry):
            word = vm.raw_state if vm is not None else "no longer there"
            lost(entry, preempted=vm.preempted if vm is not None else None, why=word)
        return
    for name, value in (("internalIP", vm.internal_ip), ("externalIP", vm.external_ip)):
        if value:  # some clouds give them late
            entry[name] = value
    if entry.get("state") in (PENDING, PROVISIONING):
        entry["state"] = RUNNING if vm.state is State.RUNNING else PROVISIONING
        entry.pop("message", None)


def lost(entry: Obj, *, preempted: bool | None, why: str) -> None:
    """It is gone, and nobody of ours has ended it."""
    announced = preempted is None and bool(entry.get("preemptionDeadline"))
    reason = "Preempted" if preempted or announced else "Lost"
    entry |= {"state": TERMINATED, "reason": reason}
    said(entry, why)


def left_to_join(entry: Obj, *, now: float, limit: float, sightings: Sightings) -> float:
    """Seconds; a year for one that need not."""
    made = moment(entry.get("creationTime"))
    if entry.get("state") != RUNNING or entry.get("joinedCluster") or made is None:
        return 31e6
    return sightings.left(made, limit, now=now)


def not_joined(entry: Obj, why: str) -> None:
    """It runs, and does not become a node: it is of no use."""
    if is_alive(entry):
        entry |= {"state": TERMINATED, "reason": "NotJoined"}
        said(entry, why)


def removed(entry: Obj, *, now: float) -> None:
    """Nothing is left of it."""
    entry |= {"state": TERMINATED, "endTime": format_time(now)}
    entry.setdefault("reason", "Deleted")


def said(entry: Obj, words: str) -> None:
    """Something for people."""
    entry["message"] = words[:_WORDS]


# --- what is told about its end ------------------------------------------------------------------


def told_by(entry: Obj, notice: Notice) -> None:
    """The cloud has announced that it will take the machine."""
    if notice.deadline is not None:
        _announce(entry, at=format_time(notice.seen), deadline=notice.deadline)


def told_by_node(entry: Obj, node: Obj) -> None:
    """What its node says: that it is one, and what its agent has heard."""
    conditions = (node.get("status") or {}).get("conditions")
    if is_condition_true(conditions, "Ready") and entry.get("state") == RUNNING:
        entry |= {"joinedCluster": True, "nodeName": node["metadata"]["name"]}
        entry.pop("message", None)
    found = find_condition(conditions, PREEMPTION_CONDITION)
    if found is None or found.get("status") != "True":
        return
    try:
        deadline = moment((found.get("message") or "").rpartition(" ")[2])
    except ValueError:
        return  # somebody else's words
    if deadline is not None:
        _announce(entry, at=found["lastTransitionTime"], deadline=deadline)


def silent(
    entry: Obj, node: Obj, *, now: float, limit: float, sightings: Sightings | None = None
) -> None:
    """A machine whose node is not ready for too long is of no use, whatever its cloud says.

    ``sightings`` say since when a time is known that a wrong clock wrote.
    """
    ready = find_condition((node.get("status") or {}).get("conditions"), "Ready")
    if not entry.get("joinedCluster") or not is_alive(entry) or ready is None:
        return
    since = moment(ready.get("lastTransitionTime"))
    if ready.get("status") == "True" or since is None:
        return
    silence = now - (sightings or Sightings()).since(since, now=now)
    if silence > limit:
        lost(entry, preempted=None, why=f"its node has not been ready for {silence:.0f} s")


def _announce(entry: Obj, *, at: str, deadline: float) -> None:
    known = moment(entry.get("preemptionDeadline"))
    if is_alive(entry) and (known is None or int(deadline) < known):
        entry["preemptionDeadline"] = format_time(deadline)
        entry.setdefault("preemptionNotice", at)


def phase_of(entries: Iterable[Obj], *, deleting: bool) -> str:
    """Of all machines together."""
    if deleting:
        return "Deleting"
    alive = [entry for entry in entries if is_alive(entry)]
    if not alive:
        return "Idle"
    return "Ready" if all(entry.get("joinedCluster") for entry in alive) else "Provisioning"
