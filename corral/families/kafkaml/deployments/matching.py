"""Which data fits which deployment. No I/O.

Data fits where its samples have the shape of the model's input, its restrictions are equal to what
is asked for, and there is enough of it. A datasource and a deployment that have met stay together:
what was matched once is not matched again, nor by a deployment that is over.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from corral.api.kafkaml.kinds import Datasource, FederatedDeployment

__all__ = ["Wanted", "client_id", "matches", "newly_matched"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one model of a deployment takes."""

    deployment: str
    input_shape: str
    """As its check found it: ``28 28``."""
    distributed: bool = False
    federated_id: str = ""


def client_id(source: Datasource) -> str:
    """Who the client of some data is: what it says, else made of its name."""
    if source.spec.client_id:
        return source.spec.client_id
    name = str(source.metadata["name"])
    return hashlib.sha256(name.encode()).hexdigest()[:8]


def matches(wanted: Wanted, deployment: FederatedDeployment, source: Datasource) -> str:
    """Why data does not fit; empty where it does."""
    spec, data = deployment.spec, source.spec
    if data.deployment and data.deployment != wanted.deployment:
        return f"it is for deployment {data.deployment}"
    if data.federated_string_id and data.federated_string_id != wanted.federated_id:
        return f"it is for federated id {data.federated_string_id}"
    if data.incremental != spec.incremental:
        return "it goes on" if data.incremental else "it does not go on"
    if dict(data.dataset_restrictions) != dict(spec.data_restriction):
        return "its restrictions differ from what is asked for"
    shape = _shape(data.input_config.get("data_reshape"))
    if data.input_format == "RAW" and shape != _taken(wanted):
        return f"its samples have shape {shape or 'one'!r}; the model takes {_taken(wanted)!r}"
    if not data.incremental and (data.total_msg or 0) < spec.min_data:
        return f"it has {data.total_msg or 0} messages; {spec.min_data} are asked for"
    return ""


def newly_matched(
    wanted: Wanted,
    deployment: FederatedDeployment,
    sources: Iterable[Datasource],
    *,
    taken: Collection[str],
    room: int,
) -> list[Datasource]:
    """Data that fits and is not a client's yet, oldest first; at most ``room``.

    ``taken`` are the ids of the clients that the deployment has.
    """
    out: list[Datasource] = []
    seen = set(taken)
    for source in sorted(sources, key=_age):
        if len(out) >= room:
            break
        if client_id(source) not in seen and not matches(wanted, deployment, source):
            seen.add(client_id(source))
            out.append(source)
    return out


def _age(source: Datasource) -> tuple[str, str]:
    metadata = source.metadata
    return str(metadata.get("creationTimestamp") or ""), str(metadata.get("name") or "")


def _shape(said: object) -> str:
    words = str(said or "").split()
    return " ".join(words)


def _taken(wanted: Wanted) -> str:
    """A part of a model of more than two dimensions loses the last one."""
    words = wanted.input_shape.split()
    if wanted.distributed and len(words) > 2:
        words = words[:-1]
    return " ".join(words)
