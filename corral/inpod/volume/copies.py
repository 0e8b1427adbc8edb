"""Copies of one job on one volume: each writes a folder of its own, and reads those of all.

Copies do the same work, so any of them may go on from what any other has saved. Attempts fence
within a folder; copies never fence each other. Each copy removes its own old checkpoints, late
enough that a copy which has just begun to read one can finish.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from . import disk
from .volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..environment import Environment
    from ..errors import Finding
    from .manifest import Manifest

log = logging.getLogger("corral.inpod")

READING = 60.0
"""Seconds for which a checkpoint stays when newer ones have taken its place."""


def newest_first(
    environment: Environment, reject: Callable[[Finding], None]
) -> list[tuple[Volume, Manifest]]:
    """The complete checkpoints of all copies, highest step first; their data is not checked.

    Raises:
        OSError: the volume cannot be read.
    """
    found: list[tuple[Volume, Manifest]] = []
    for volume in volumes(environment):
        scan = volume.scan()
        for finding in scan.findings:
            if finding.is_news:
                reject(finding)
        found += [(volume, each) for each in scan.manifests if _is_ours(environment, each)]
    return sorted(found, key=lambda item: _newness(item[1]), reverse=True)


def volumes(environment: Environment) -> list[Volume]:
    """The folders of all copies, our own first."""
    own = os.path.abspath(environment.checkpoint_dir)
    top = os.path.abspath(environment.peers)
    try:
        found = [entry.path for entry in disk.entries(top) if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        found = []
    others = sorted(path for path in found if path != own and not _is_hidden(path))
    return [Volume(path) for path in [own, *others]]


def retain(environment: Environment, volume: Volume, *, now: float) -> list[str]:
    """Remove the checkpoints of this copy that newer ones have replaced; those that went."""
    if environment.keep < 1:
        return []
    mine = [each for each in volume.scan().manifests if _is_ours(environment, each)]
    mine.sort(key=_newness, reverse=True)
    gone = []
    for number, replaced in enumerate(mine[environment.keep :]):
        if now - mine[number].time < READING:
            continue
        try:
            volume.delete(replaced.id)
        except OSError as error:
            log.warning("checkpoint %s cannot be removed: %s", replaced.id, error)
            continue
        gone.append(replaced.id)
    return gone


def _newness(found: Manifest) -> tuple[int, int, float, str]:
    return (found.step, found.attempt, found.time, found.id)


def _is_ours(environment: Environment, found: Manifest) -> bool:
    return found.job_uid in ("", environment.job_uid)


def _is_hidden(path: str) -> bool:
    return os.path.basename(path).startswith(".")
