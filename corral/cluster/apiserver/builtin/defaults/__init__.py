"""The values the API server writes into fields that a client left out.

``apply_defaults`` is idempotent and changes the object in place. It expects an object of the
right types (after decoding) and never raises on missing parts; kinds without defaults pass
through untouched. What depends on the write itself (status, generation, generated selectors,
addresses) is in the sibling package ``strategy``.
"""

from __future__ import annotations

from collections.abc import Callable

from corral.kube.types import Obj

from . import cluster, core, workloads

__all__ = ["apply_defaults"]

_DEFAULTS: dict[tuple[str, str, str], Callable[[Obj], None]] = {
    **core.DEFAULTS,
    **workloads.DEFAULTS,
    **cluster.DEFAULTS,
}


def apply_defaults(group: str, version: str, kind: str, obj: Obj) -> None:
    """Set every default of the kind in place."""
    default = _DEFAULTS.get((group, version, kind))
    if default is not None:
        default(obj)
