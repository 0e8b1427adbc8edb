"""Why the objects of a job cannot be made, as errors that a status can show.

`ResourceProblem` is for people: trying again does not help until somebody changes something.
`StillThere` passes by itself: the object of an earlier job or attempt has yet to go.
"""

from __future__ import annotations

from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime import TerminalError, controller_of

__all__ = [
    "NameTaken",
    "NoGangScheduling",
    "NoLocalStorage",
    "ResourceProblem",
    "StillThere",
]


class ResourceProblem(TerminalError):
    """What the job needs cannot be made; ``reason`` is a word for a condition."""

    reason = "ResourceProblem"


class NameTaken(ResourceProblem):
    """An object has the name that the job's own would have, and belongs to somebody else."""

    reason = "NameTaken"

    def __init__(self, resource: Resource, obj: Obj) -> None:
        name = obj["metadata"]["name"]
        holder = controller_of(obj)
        whose = f"belongs to {holder['kind']} {holder['name']}" if holder else "is not the job's"
        super().__init__(
            f"{resource.kind} {name} exists already and {whose}: rename the job, or remove it"
        )
        self.resource = resource
        self.name = name


class NoGangScheduling(ResourceProblem):
    """The job asks to be scheduled as a gang, and the cluster has no PodGroups."""

    reason = "NoGangScheduling"


class NoLocalStorage(ResourceProblem):
    """Checkpoints should be kept in a folder of the cluster's own, and it has none."""

    reason = "NoLocalStorage"


class StillThere(Exception):
    """An object of an earlier job, or a pod of an earlier attempt, has not gone yet."""

    def __init__(self, resource: Resource, name: str) -> None:
        super().__init__(f"{resource.kind} {name} of an earlier run has not gone yet")
        self.resource = resource
        self.name = name
