"""What data control messages say, as Datasources. No I/O.

The same announcement is the same object, by its name: what comes twice is there once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from corral.api.kafkaml.kinds import DATASOURCES, GROUP, Datasource, FederatedDeployment
from corral.families.kafkaml.logins import secret_for
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.types import Obj
from corral.podtools.kafka.messages import DataControl, MessageError

__all__ = [
    "ANNOUNCED_LABEL",
    "Where",
    "datasource_of",
    "is_known",
    "outdated",
    "position_key",
    "positions_of",
    "wanted_feeds",
]

ANNOUNCED_LABEL: Final = f"{GROUP}/announced"
_LONGEST: Final = 1_000_000
"""Bytes of an announcement that is read at all."""
_OVER: Final = ("Completed", "Failed")


@dataclass(frozen=True, slots=True, order=True)
class Where:
    """A topic with announcements."""

    servers: str
    secret: str
    """The Secret with the login; empty without one."""
    topic: str


def wanted_feeds(
    deployments: Iterable[FederatedDeployment], settings: KafkaMLSettings
) -> dict[Where, list[FederatedDeployment]]:
    """Where data may be announced for deployments that look for some."""
    out: dict[Where, list[FederatedDeployment]] = {}
    for deployment in deployments:
        spec, status = deployment.spec, deployment.status
        if spec.suspend or (status is not None and status.phase in _OVER):
            continue
        servers = spec.kafka.bootstrap_servers or settings.own_kafka or settings.kafka
        secret = secret_for(spec.kafka, settings)
        results = (status.results if status is not None else None) or ()
        for topic in _topics(spec.topics.data_control, [r.federated_string_id for r in results]):
            if servers:
                out.setdefault(Where(servers, secret, topic), []).append(deployment)
    return out


def _topics(template: str, ids: Iterable[str]) -> set[str]:
    """Those of a template; none while it needs an id that is not given yet."""
    if "{" not in template:
        return {template}
    return {template.replace("{id}", found).replace("{client}", "") for found in ids}


def datasource_of(namespace: str, message: bytes | None) -> Obj:
    """The Datasource that says the same as a message. Raises MessageError."""
    if message is not None and len(message) > _LONGEST:
        raise MessageError(f"data control: it is larger than {_LONGEST} bytes")
    spec = DataControl.decode(message).spec()
    try:
        text = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise MessageError(f"data control: {error}") from error
    name = f"announced-{hashlib.sha256(text).hexdigest()[:16]}"
    obj = DATASOURCES.stamp(
        {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": {ANNOUNCED_LABEL: "true"},
            },
            "spec": spec,
        }
    )
    problems = Datasource.validate(obj)
    if problems:
        raise MessageError(f"data control: {'; '.join(map(str, problems))[:500]}")
    return obj


def is_known(spec: Mapping[str, Any], sources: Iterable[Obj], ids: Mapping[str, str]) -> bool:
    """Whether somebody has made a Datasource of the same data already.

    ``ids`` are the names of deployments by their federated ids.
    """
    wanted = str(spec.get("federatedStringId") or "")
    for source in sources:
        other = source.get("spec") or {}
        if other.get("topic") != spec["topic"]:
            continue
        if (other.get("datasetRestrictions") or {}) != spec["datasetRestrictions"]:
            continue
        theirs = str(other.get("deployment") or "")
        if theirs and theirs != ids.get(wanted):
            continue
        if (other.get("federatedStringId") or "") in ("", wanted):
            return True
    return False


def outdated(sources: Iterable[Obj], live: Iterable[str], *, most: int) -> list[Obj]:
    """Announced ones beyond so many, the oldest first, that no live deployment uses."""
    used = set(live)
    announced = [s for s in sources if ANNOUNCED_LABEL in (s["metadata"].get("labels") or {})]
    spare = len(announced) - most
    if spare <= 0:
        return []
    free = [
        source
        for source in announced
        if not used & {m["deployment"] for m in (source.get("status") or {}).get("matches") or ()}
    ]
    return sorted(free, key=_made)[:spare]


def _made(source: Obj) -> tuple[str, str]:
    metadata = source["metadata"]
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("name"))


# --- how far they were read ----------------------------------------------------------------------


def position_key(where: Where) -> str:
    """Of a ConfigMap that keeps how far topics were read."""
    return hashlib.sha256(f"{where.servers} {where.topic}".encode()).hexdigest()[:16]


def positions_of(kept: Mapping[str, str] | None, where: Where) -> dict[int, int]:
    """By partition, the first message that was not read yet; what cannot be meant is not there."""
    try:
        said = orjson.loads((kept or {}).get(position_key(where)) or b"{}")
        return {int(number): int(start) for number, start in said["next"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}
