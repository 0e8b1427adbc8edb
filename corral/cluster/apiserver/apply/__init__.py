"""Who owns which field of an object, and server-side apply.

``track_update`` keeps ``metadata.managedFields`` for every other kind of write, ``apply`` merges an
applied configuration; both say what kube-apiserver says, entry by entry. Field sets are worked on
in the JSON shape they are stored in (see ``fields``), types come compiled from ``builtin_schema``
or ``crd_schema``. Nothing here does I/O or knows the time.
"""

from corral.cluster.apiserver.apply.compile import builtin_schema, crd_schema
from corral.cluster.apiserver.apply.managers import keep_times, managers_are_valid
from corral.cluster.apiserver.apply.scale import parent_entries, scale_entries
from corral.cluster.apiserver.apply.server_side import apply
from corral.cluster.apiserver.apply.tracking import track_update
from corral.cluster.apiserver.apply.types import TypeSchema

__all__ = [
    "TypeSchema",
    "apply",
    "builtin_schema",
    "crd_schema",
    "keep_times",
    "managers_are_valid",
    "parent_entries",
    "scale_entries",
    "track_update",
]
