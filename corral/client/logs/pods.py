"""The pods whose logs are followed, as they are now: one list, then every change.

A `PodView` is one pod, with its latest state and a way to wait for the next; `PodWatch` keeps views
up to date through lost connections and expired versions, and tells of every pod once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from corral.client.errors import Expired, ServerError, Unavailable
from corral.client.logs.reach import MAX_FAILURES, ReadContext
from corral.client.phases import section, status_of, text
from corral.client.translate import ApiRequest, translating
from corral.kube.resources import PODS
from corral.kube.types import Obj

__all__ = ["Attempt", "PodView", "PodWatch", "attempt_of", "containers_of", "list_pods"]

DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_KINDS = ("initContainers", "containers", "ephemeralContainers")
_STATUSES = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


@dataclass(frozen=True, slots=True)
class Attempt:
    """How far a container is."""

    restarts: int = 0
    begun: bool = False
    """There is a log to read."""
    over: bool = False
    """It does not run and will not run again."""


class PodView:
    """One pod; by its uid, for another of the same name is another one."""

    def __init__(self, pod: Obj) -> None:
        self.pod = pod
        self.gone = False
        self._changed = asyncio.Event()

    @property
    def name(self) -> str:
        return text(section(self.pod, "metadata").get("name"))

    @property
    def uid(self) -> str:
        return text(section(self.pod, "metadata").get("uid"))

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in section(self.pod, "metadata")

    def update(self, pod: Obj) -> None:
        self.pod = pod
        self._wake()

    def leave(self) -> None:
        """It is deleted."""
        self.gone = True
        self._wake()

    def nudge(self) -> None:
        """Whoever waits shall look again."""
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, patience: float | None = None) -> None:
        """Until the pod has changed, at most that many seconds."""
        event = self._changed
        try:
            async with asyncio.timeout(patience):
                await event.wait()
        except TimeoutError:
            return


def containers_of(pod: Obj, wanted: str | None) -> list[str]:
    """The containers to read: the default one, a named one, or all of them for ``*``."""
    spec, metadata = section(pod, "spec"), section(pod, "metadata")
    names = [text(c.get("name")) for kind in _KINDS for c in spec.get(kind) or ()]
    if wanted == "*":
        return names
    chosen = wanted or section(metadata, "annotations").get(DEFAULT_CONTAINER)
    if chosen in names:
        return [chosen]
    if wanted:
        return []
    return [text(c.get("name")) for c in (spec.get("containers") or ())[:1]]


def attempt_of(pod: Obj, container: str) -> Attempt:
    """Read from the pod's status; whatever is missing has not happened yet."""
    status = status_of(pod)
    ended = text(status.get("phase")) in ("Succeeded", "Failed")
    every = (c for kind in _STATUSES for c in status.get(kind) or ())
    found = next((c for c in every if c.get("name") == container), None)
    if found is None:
        return Attempt(over=ended)
    state, last = section(found, "state"), section(found, "lastState")
    restarts = found.get("restartCount")
    return Attempt(
        restarts=restarts if isinstance(restarts, int) else 0,
        begun="running" in state or "terminated" in state or "terminated" in last,
        over=ended or ("terminated" in state and not _again(pod, container, state)),
    )


def _again(pod: Obj, container: str, state: Obj) -> bool:
    """Whether a container that has ended will be started again."""
    spec = section(pod, "spec")
    if "deletionTimestamp" in section(pod, "metadata"):
        return False
    every = (c for kind in _KINDS for c in spec.get(kind) or ())
    own: Obj = next((c for c in every if c.get("name") == container), {})
    policy = own.get("restartPolicy") or spec.get("restartPolicy") or "Always"
    if any(c.get("name") == container for c in spec.get("initContainers") or ()):
        policy = "OnFailure" if policy == "Always" and "restartPolicy" not in own else policy
    failed = section(state, "terminated").get("exitCode") != 0
    return policy == "Always" or (policy == "OnFailure" and failed)


async def list_pods(reach: ReadContext, selector: str) -> tuple[str, list[Obj]]:
    """The version of the list, and the pods that a selector matches now. Raises JobError."""
    failures = 0
    while True:
        try:
            with translating(ApiRequest("list", PODS, reach.namespace)):
                found = await reach.client.list_all(PODS, reach.namespace, label_selector=selector)
            return text(section(found, "metadata").get("resourceVersion")), found["items"]
        except (Unavailable, ServerError):
            failures += 1
            if failures > MAX_FAILURES:
                raise
            await reach.pause(failures)


class PodWatch:
    """The pods that a selector matches.

    ``on_pod`` hears of each when it is first seen, and whether it was there from the beginning.
    """

    def __init__(
        self, reach: ReadContext, selector: str, *, on_pod: Callable[[PodView, bool], None]
    ) -> None:
        self.views: dict[str, PodView] = {}
        self._reach = reach
        self._selector = selector
        self._on_pod = on_pod
        self._beginning = True

    async def catch_up(self) -> None:
        """See every pod that is there now; what is known already is left to the watch."""
        _, pods = await list_pods(self._reach, self._selector)
        for pod in pods:
            if text(section(pod, "metadata").get("uid")) not in self.views:
                self._note(pod)

    async def run(self) -> None:
        """Without end; begins with a list. Raises JobError."""
        asked = ApiRequest("watch", PODS, self._reach.namespace)
        while True:
            version, pods = await list_pods(self._reach, self._selector)
            self._renew(pods)
            self._beginning = False
            try:
                with translating(asked):
                    watch = self._reach.client.resuming_watch(
                        PODS,
                        self._reach.namespace,
                        resource_version=version,
                        label_selector=self._selector,
                    )
                    async with aclosing(watch.events()) as events:
                        async for event in events:
                            self._take(event.type, event.object)
            except Expired:
                continue  # the list tells what was missed

    def _renew(self, pods: list[Obj]) -> None:
        present = {text(section(pod, "metadata").get("uid")) for pod in pods}
        for uid in self.views.keys() - present:
            self.views.pop(uid).leave()
        for pod in pods:
            self._note(pod)

    def _take(self, kind: str, pod: Obj) -> None:
        if kind == "DELETED":
            view = self.views.pop(text(section(pod, "metadata").get("uid")), None)
            if view is not None:
                view.pod = pod
                view.leave()
        elif kind != "BOOKMARK":
            self._note(pod)

    def _note(self, pod: Obj) -> None:
        uid = text(section(pod, "metadata").get("uid"))
        view = self.views.get(uid)
        if view is not None:
            view.update(pod)
            return
        self.views[uid] = view = PodView(pod)
        self._on_pod(view, self._beginning)
