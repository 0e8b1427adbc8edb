"""How a pod is let report to the operator: a volume with a token of its own. No I/O."""

from __future__ import annotations

from typing import Final

from corral.kube.types import Obj

__all__ = ["CHECKPOINT_VOLUME", "REPORT_AUDIENCE", "TOKEN_FILE", "TOKEN_VOLUME", "token_volume"]

REPORT_AUDIENCE: Final = "corral.dev/report"
CHECKPOINT_VOLUME: Final = "corral-checkpoints"
"""The volume with the checkpoints that a pod reports."""
TOKEN_VOLUME: Final = "corral-report-token"
TOKEN_FOLDER: Final = "/var/run/secrets/corral.dev"
TOKEN_FILE: Final = f"{TOKEN_FOLDER}/token"
TOKEN_SECONDS: Final = 3607
"""The kubelet renews it in time; as long as those that pods have for the API."""


def token_volume(audience: str) -> Obj:
    """The pod's own token for the report endpoint."""
    token = {"audience": audience, "expirationSeconds": TOKEN_SECONDS, "path": "token"}
    return {"name": TOKEN_VOLUME, "projected": {"sources": [{"serviceAccountToken": token}]}}
