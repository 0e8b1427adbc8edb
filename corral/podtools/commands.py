"""The modules that pods start with ``python -m``, each named in this one place.

Pods of earlier versions start the same programs as ``corral.inpod.courier`` and so on; those names
stay, as modules that start the ones named here.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "KAFKA_CLIENT",
    "KAFKA_INFERENCE",
    "KAFKA_SERVER",
    "MODEL_CHECK",
    "SNAPSHOTS",
    "UPLOADER",
    "python_command",
]

UPLOADER: Final = "corral.podtools.uploader"
SNAPSHOTS: Final = "corral.podtools.snapshots"
MODEL_CHECK: Final = "corral.podtools.models.check"
KAFKA_SERVER: Final = "corral.podtools.kafkaml.server"
KAFKA_CLIENT: Final = "corral.podtools.kafkaml.client"
KAFKA_INFERENCE: Final = "corral.podtools.kafkaml.infer"


def python_command(module: str, *args: str) -> list[str]:
    """The command of a container whose image has a Python with Corral."""
    return ["python", "-m", module, *args]
