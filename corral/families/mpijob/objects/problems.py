"""Why the objects of an MPIJob cannot be made."""

from __future__ import annotations

from corral.kube.resources import Resource

__all__ = ["ResourceExists", "StillThere"]


class ResourceExists(Exception):
    """An object has the name that the job's own would have, and belongs to somebody else."""

    def __init__(self, resource: Resource, name: str) -> None:
        super().__init__(
            f'Resource "{name}" of Kind "{resource.kind}" already exists and is not managed by '
            "MPIJob"
        )


class StillThere(Exception):
    """What an earlier job of this name had, or a worker that is being replaced, is not gone yet."""

    def __init__(self, resource: Resource, name: str) -> None:
        super().__init__(f"{resource.kind} {name} of an earlier run has not gone yet")
