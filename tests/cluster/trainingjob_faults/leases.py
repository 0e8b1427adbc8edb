"""Who led when, told by the audit of writes to a Lease."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from corral.operator.settings import LEASE
from tests.faults.audit import Audit, Entry

__all__ = ["Term", "leader_of", "terms"]


@dataclass
class Term:
    """One holder from its first write of the lease to its last."""

    client: str
    identity: str
    began: float
    """When the request came that made it the holder."""
    acquired: datetime
    renewed: datetime
    """As the lease says."""
    transitions: int


def terms(audit: Audit, namespace: str) -> list[Term]:
    """In order; releases end a term and begin none."""
    found: list[Term] = []
    for entry in audit.of("leases", namespace=namespace):
        if not _wrote(entry):
            continue
        spec = entry.object["spec"]
        identity = spec.get("holderIdentity")
        if not identity:
            continue
        renewed = datetime.fromisoformat(spec["renewTime"])
        if found and found[-1].identity == identity:
            found[-1].renewed = renewed
            continue
        acquired = datetime.fromisoformat(spec["acquireTime"])
        transitions = spec.get("leaseTransitions") or 0
        found.append(Term(entry.client, identity, entry.at, acquired, renewed, transitions))
    return found


def leader_of(audit: Audit, namespace: str) -> Term | None:
    """Who wrote the lease last."""
    known = terms(audit, namespace)
    return known[-1] if known else None


def _wrote(entry: Entry) -> bool:
    return (
        entry.method in ("POST", "PUT")
        and entry.upstream in (200, 201)
        and entry.object["metadata"]["name"] == LEASE
    )
