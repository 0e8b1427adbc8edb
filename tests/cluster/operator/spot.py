"""What shows the operator's rights to spot jobs, their machines and backups."""

from __future__ import annotations

from corral.api.spot import GROUP
from tests.cluster.operator.rights import Right

UNSEEN = {
    **{
        Right("", "nodes", verb): "of machines: tests/cluster/spot_machines"
        for verb in ("patch", "delete")
    },
    Right(GROUP, "spotinstancejobs/finalizers", "update"): (
        "asked for by the admission plugin that guards blockOwnerDeletion"
    ),
    **{
        Right(GROUP, resource, verb): "shown where spot jobs run: tests/cluster/spot_jobs"
        for resource, verb in (
            ("spotinstancejobs", "patch"),
            ("spotinstancejobs/status", "patch"),
            ("spotinstancevms", "patch"),
            ("spotinstancevms/status", "patch"),
            ("spotinstancevms", "list"),
            ("spotinstancevms", "watch"),
        )
    },
}
"""Rights that these objects need not show, and why they are given."""
