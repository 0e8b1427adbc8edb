"""What machines, copies and the objects of a spot job are called. Pure.

Every name is a function of the job and of numbers in its status: whoever makes an object a second
time, since the first answer was lost or the operator died, meets the first one.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

from corral.kube.types import Obj

__all__ = ["ATTEMPT_LABEL", "MEMORY", "backup_name", "copy_name", "vm_name"]

ATTEMPT_LABEL: Final = "training.dcnlab.com/job-attempt"
"""On Jobs and their pods: which start."""
MEMORY: Final = "corral-spot-memory"
"""The ConfigMap of a namespace with what its jobs have learnt about machines."""
_LONGEST: Final = 63
"""Of a label's value, and of a machine's name on GCP."""


def vm_name(job: Obj, replica: int, number: int) -> str:
    """The machine, and its node: of this very job, as machines and nodes know no namespaces."""
    metadata = job["metadata"]
    mark = hashlib.sha256(str(metadata["uid"]).encode()).hexdigest()[:6]
    return _short(metadata["name"], f"-{mark}-{replica}-{number}")


def copy_name(job: Obj, replica: int, attempt: int) -> str:
    """The batch/v1 Job of one start of a copy."""
    return _short(job["metadata"]["name"], f"-replica-{replica}-{attempt}")


def backup_name(job: Obj, number: int) -> str:
    """A CheckpointBackup of one of its copies."""
    return _short(job["metadata"]["name"], f"-backup-{number}")


def _short(name: str, suffix: str) -> str:
    """As long as a label's value at most; what is cut off is told by a digest."""
    plain = re.sub(r"[^a-z0-9-]", "-", name.lower())
    if not plain[:1].isalpha():
        plain = f"s{plain}"  # machines' names begin with a letter
    room = _LONGEST - len(suffix)
    if len(plain) > room or plain != name:
        mark = hashlib.sha256(name.encode()).hexdigest()[:6]
        plain = f"{plain[: room - 7].rstrip('-')}-{mark}"
    return f"{plain}{suffix}"
