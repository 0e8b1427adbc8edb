"""Which PodGroups the cluster has, and how pods say that they belong to one.

The coscheduling plugin's (``scheduling.x-k8s.io``) is taken where it is served, Volcano's
(``scheduling.volcano.sh``) otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from corral.families.trainingjob.objects.problems import NoGangScheduling
from corral.kube.client import KubeClient
from corral.kube.discovery import Discovery, UnknownKind
from corral.kube.resources import Resource
from corral.kube.types import Obj

__all__ = ["COSCHEDULING", "POD_GROUPS", "VOLCANO", "Gang", "Gangs", "gang_of"]

COSCHEDULING: Final = "scheduling.x-k8s.io"
VOLCANO: Final = "scheduling.volcano.sh"
POD_GROUPS: Final = (
    Resource(COSCHEDULING, "v1alpha1", "podgroups", True, "PodGroup"),
    Resource(VOLCANO, "v1beta1", "podgroups", True, "PodGroup"),
)
"""The kinds that are known, the preferred one first."""
_COSCHEDULING_LABEL: Final = f"{COSCHEDULING}/pod-group"
_VOLCANO_ANNOTATION: Final = "scheduling.k8s.io/group-name"
_ASK_AGAIN: Final = 30.0
"""Seconds until the server is asked again whether it has PodGroups by now."""


@dataclass(frozen=True, slots=True)
class Gang:
    """The kind of PodGroup to use."""

    resource: Resource
    scheduler: str = ""
    """``schedulerName`` of the pods; empty: the default."""

    def mark(self, pod: Obj, group: str) -> None:
        """Make a pod a member of the group of this name, in place."""
        metadata = pod.setdefault("metadata", {})
        if self.resource.group == COSCHEDULING:
            metadata.setdefault("labels", {})[_COSCHEDULING_LABEL] = group
        else:
            metadata.setdefault("annotations", {})[_VOLCANO_ANNOTATION] = group
        if self.scheduler:
            pod.setdefault("spec", {}).setdefault("schedulerName", self.scheduler)


def gang_of(served: Discovery, *, scheduler: str | None = None) -> Gang | None:
    """The kind of PodGroup that a server has; None: none that is known."""
    for known in POD_GROUPS:
        try:
            resource = served.for_kind(known.api_version, known.kind)
        except UnknownKind:
            continue
        default = "volcano" if resource.group == VOLCANO else ""
        return Gang(resource, default if scheduler is None else scheduler)
    return None


class Gangs:
    """Asks the server once, and again from time to time while it has no PodGroups."""

    def __init__(
        self,
        client: KubeClient,
        *,
        scheduler: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._scheduler = scheduler
        self._clock = clock
        self._found: Gang | None = None
        self._asked: float | None = None

    async def find(self) -> Gang:
        """The kind of PodGroup to use.

        Raises:
            NoGangScheduling: the cluster has none.
        """
        due = self._asked is None or self._clock() - self._asked >= _ASK_AGAIN
        if self._found is None and due:
            served = await self._client.discover(refresh=self._asked is not None)
            self._asked = self._clock()
            self._found = gang_of(served, scheduler=self._scheduler)
        if self._found is None:
            kinds = " or ".join(resource.api_version for resource in POD_GROUPS)
            raise NoGangScheduling(
                f"spec.scheduling.gang needs PodGroups of {kinds}, and the cluster has neither"
            )
        return self._found
