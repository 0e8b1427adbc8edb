"""The replica sets of a deployment: which one is new, their revisions, sizes and names."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final

import orjson

from corral.cluster.workloads.pods import controller_reference, uid
from corral.cluster.workloads.times import datetime_or_zero
from corral.kube.types import Obj

__all__ = [
    "active_sets",
    "annotations_of",
    "available",
    "by_creation",
    "find_new",
    "limits",
    "new_replica_set",
    "new_set_size",
    "replicas",
    "revision",
    "same_template",
    "template_hash",
    "total",
    "with_replica_annotations",
    "with_revision_annotations",
]

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"
ROLLBACK_TO: Final = "deprecated.deployment.rollback.to"
NOT_COPIED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
    }
)
"""Annotations that belong to one object and do not travel between deployment and set."""
_HISTORY_CHARACTERS: Final = 2000
_LONGEST_NAME: Final = 253
_SAFE: Final = "bcdfghjklmnpqrstvwxz2456789"


def replicas(obj: Obj) -> int:
    """The size asked for."""
    found = obj["spec"].get("replicas")
    return 1 if found is None else int(found)


def available(replica_set: Obj) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))


def total(sets: Iterable[Obj]) -> int:
    return sum(map(replicas, sets))


def active_sets(sets: Iterable[Obj]) -> list[Obj]:
    """Those that have, or ought to have, pods."""
    return [one for one in sets if replicas(one) > 0]


def by_creation(replica_set: Obj) -> tuple[Any, ...]:
    meta = replica_set["metadata"]
    return (datetime_or_zero(meta.get("creationTimestamp")), meta["name"])


def annotations_of(obj: Obj) -> dict[str, str]:
    return dict(obj["metadata"].get("annotations") or {})


def revision(replica_set: Obj) -> int:
    """0 when it has none that can be read."""
    text = annotations_of(replica_set).get(REVISION, "")
    return int(text) if text.isascii() and text.isdecimal() else 0


def _plain(value: Any) -> Any:
    """Without what is empty: absent and empty mean the same in a template."""
    if isinstance(value, dict):
        found = {key: _plain(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _without_hash(template: Obj) -> Obj:
    meta = template.get("metadata") or {}
    labels = {k: v for k, v in (meta.get("labels") or {}).items() if k != HASH_LABEL}
    plain: Obj = _plain({**template, "metadata": {**meta, "labels": labels}})
    return plain


def same_template(one: Obj, other: Obj) -> bool:
    """Whether two pod templates mean the same, the hash label aside."""
    return _without_hash(one) == _without_hash(other)


def find_new(deployment: Obj, sets: Iterable[Obj]) -> Obj | None:
    """The oldest set with the deployment's template."""
    template = deployment["spec"]["template"]
    for one in sorted(sets, key=by_creation):
        if same_template(one["spec"]["template"], template):
            return one
    return None


def template_hash(template: Obj, collisions: int | None) -> str:
    """A short name for a template; another one for every collision counted."""
    text = orjson.dumps(_plain(template), option=orjson.OPT_SORT_KEYS)
    if collisions is not None:
        text += collisions.to_bytes(8, "little")
    number = int.from_bytes(hashlib.sha256(text).digest()[:4], "little")
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def _scaled(value: int | str | None, size: int, *, up: bool) -> int:
    """A number, or a percentage of ``size``."""
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    hundredths = int(value.removesuffix("%")) * size
    return -(-hundredths // 100) if up else hundredths // 100


def is_rolling(deployment: Obj) -> bool:
    strategy = deployment["spec"].get("strategy") or {}
    return bool(strategy.get("type", "RollingUpdate") == "RollingUpdate")


def limits(deployment: Obj) -> tuple[int, int]:
    """(maxSurge, maxUnavailable) in pods; never both 0, or nothing could ever change."""
    if not is_rolling(deployment):
        return 0, 0
    size = replicas(deployment)
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = _scaled(rolling.get("maxSurge"), size, up=True)
    unavailable = _scaled(rolling.get("maxUnavailable"), size, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, size)


def new_set_size(deployment: Obj, sets: Iterable[Obj], current: int) -> int:
    """How big the new set may become now."""
    wanted = replicas(deployment)
    if not is_rolling(deployment):
        return wanted
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    room = wanted + _scaled(rolling.get("maxSurge"), wanted, up=True) - total(sets)
    return current + min(room, wanted - current) if room > 0 else current


def with_replica_annotations(deployment: Obj, annotations: dict[str, str]) -> dict[str, str]:
    """The size the deployment asked for, kept on the set: a change of it is a scaling."""
    wanted = replicas(deployment)
    return {
        **annotations,
        DESIRED_REPLICAS: str(wanted),
        MAX_REPLICAS: str(wanted + limits(deployment)[0]),
    }


def with_revision_annotations(deployment: Obj, replica_set: Obj, number: int) -> dict[str, str]:
    """The set's annotations with the deployment's own, and with a higher revision if it is due."""
    found = annotations_of(replica_set)
    found |= {k: v for k, v in annotations_of(deployment).items() if k not in NOT_COPIED}
    old = found.get(REVISION, "")
    if old and not old.isdecimal():
        return found
    if int(old or 0) < number:
        found[REVISION] = str(number)
        if old:
            found[REVISION_HISTORY] = _history(found.get(REVISION_HISTORY, ""), old)
    return found


def _history(text: str, old: str) -> str:
    entries = [*text.split(","), old] if text else [old]
    while len(",".join(entries)) > _HISTORY_CHARACTERS:
        entries.pop(0)
    return ",".join(entries)


def new_replica_set(deployment: Obj, sets: Iterable[Obj], number: int) -> Obj:
    """The body of the set for the deployment's template."""
    spec, meta = deployment["spec"], deployment["metadata"]
    template = spec["template"]
    collisions = (deployment.get("status") or {}).get("collisionCount")
    short = template_hash(template, collisions)
    given = template.get("metadata") or {}
    labels = {**(given.get("labels") or {}), HASH_LABEL: short}
    selector = spec["selector"]
    body: Obj = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": f"{meta['name'][: _LONGEST_NAME - len(short) - 1]}-{short}",
            "namespace": meta.get("namespace", ""),
            "labels": labels,
            "ownerReferences": [controller_reference(deployment, "apps/v1", "Deployment")],
        },
        "spec": {
            "replicas": new_set_size(deployment, sets, 0),
            "selector": {
                **selector,
                "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: short},
            },
            "template": {**template, "metadata": {**given, "labels": labels}},
        },
    }
    if spec.get("minReadySeconds"):
        body["spec"]["minReadySeconds"] = spec["minReadySeconds"]
    annotations = with_revision_annotations(deployment, body, number)
    body["metadata"]["annotations"] = with_replica_annotations(deployment, annotations)
    return body


def others(sets: Iterable[Obj], new: Obj | None) -> list[Obj]:
    """All but the new one."""
    return [one for one in sets if new is None or uid(one) != uid(new)]
