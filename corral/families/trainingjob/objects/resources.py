"""ResourceController: makes and removes what a TrainingJob consists of.

Guarantees:
- A steady job costs no request: everything is compared with the informers' stores, and only what
  is missing or differs is written. `Caches.consistency` knows of every write.
- Nothing of anybody else is taken over. Objects come into being by a plain create, which fails
  where the name is taken; only what this very job controls is changed, by server-side apply.
- A pod is created at most once for a replica and an attempt: names follow from the job, and a pod
  that is there already is recognised by its attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.families.trainingjob.caches import Caches
from corral.families.trainingjob.lifecycle.generation import Generation
from corral.families.trainingjob.names import attempt_of, is_of_job, replica_of
from corral.families.trainingjob.objects.builders import children
from corral.families.trainingjob.objects.gangs import Gang, Gangs
from corral.families.trainingjob.objects.placement import one_of_each_model, wants_gpu_model
from corral.families.trainingjob.objects.podbuilder import PodBuilder
from corral.families.trainingjob.objects.problems import (
    NameTaken,
    NoGangScheduling,
    NoLocalStorage,
    ResourceProblem,
    StillThere,
)
from corral.families.trainingjob.objects.upkeep import Upkeep
from corral.families.trainingjob.settings import TrainingSettings
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import PODS
from corral.kube.types import Obj
from corral.runtime import (
    ChildWriter,
    EventRecorder,
    Manager,
    is_being_deleted,
    is_controlled_by,
    key_of,
    uid_of,
    version_of,
)
from corral.runtime.family.batches import in_batches
from corral.runtime.family.refusals import namespace_is_going

__all__ = [
    "Generation",
    "NameTaken",
    "NoGangScheduling",
    "NoLocalStorage",
    "ResourceController",
    "ResourceProblem",
    "StillThere",
]

_FINISHED = ("Succeeded", "Failed")


class ResourceController:
    """Writes for all jobs of one operator."""

    def __init__(
        self,
        manager: Manager,
        settings: TrainingSettings,
        *,
        recorder: EventRecorder | None = None,
        caches: Caches | None = None,
    ) -> None:
        """``recorder``: for events about pods that were created and deleted."""
        self.caches = caches or Caches(manager)
        self._client: KubeClient = manager.client
        self._settings = settings
        self._recorder = recorder
        self._writer = ChildWriter(
            manager.client,
            field_manager=settings.field_manager,
            consistency=self.caches.consistency,
        )
        self._gangs = Gangs(manager.client, scheduler=settings.gang_scheduler)
        self._upkeep = Upkeep(
            manager.client, self._writer, self.caches, field_manager=settings.field_manager
        )

    # --- everything but pods ---------------------------------------------------------------------

    async def ensure(self, job: Obj, generation: Generation) -> None:
        """Everything of the job but its pods exists and is as it should be.

        Raises:
            ResourceProblem: it cannot be; somebody has to change something.
            StillThere: what an earlier job of this name had is not gone yet; try again.
            ApiError: the server refused.
        """
        gang = await self._gang(job)
        if gang is not None:
            await self.caches.watch(gang.resource)
        await self._upkeep.keep(job, children(job, generation, gang=gang))

    # --- pods ------------------------------------------------------------------------------------

    async def create_pods(
        self, job: Obj, generation: Generation, indexes: Sequence[int]
    ) -> list[Obj]:
        """Create the pods with these indexes; those that are there already are given as well.

        Several at a time, in batches that begin small, so that a refusal that all would meet (a
        quota, say) is met by a few.

        Raises:
            ApiError, KubeConnectionError: the first refusal; what was made before it stays.
            ResourceProblem: a name is taken, or the pod cannot be put together.
            StillThere: the pod of an earlier attempt is not gone yet.
        """
        if not indexes:
            return []
        builder = await self._builder(job, generation)
        made: list[Obj] = []
        found: list[Obj] = []

        async def create(index: int) -> None:
            body = builder(index).build()
            try:
                made.append(await self._writer.create(job, PODS, body))
            except errors.AlreadyExists:
                found.append(await self._existing_pod(job, generation, body["metadata"]["name"]))

        try:
            await in_batches(create, indexes, limit=self._settings.pod_concurrency)
        except errors.ApiError as refusal:
            if not namespace_is_going(refusal):
                self._warn(job, "FailedCreate", f"Error creating: {refusal.message}")
            raise
        self._say(job, "SuccessfulCreate", "Created", made)
        return made + found

    async def _builder(self, job: Obj, generation: Generation) -> Callable[[int], PodBuilder]:
        """Makes the builder of a replica; what replicas have in common is found out once."""
        name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
        gang = await self._gang(job)
        levels = self.caches.namespace_metadata(namespace)
        wants = wants_gpu_model(job["spec"])
        nodes = one_of_each_model(self.caches.nodes.store) if wants else ()

        def build(index: int) -> PodBuilder:
            return (
                PodBuilder(name, namespace, index)
                .with_spec(job["spec"])
                .with_identity(uid_of(job))
                .with_generation(generation)
                .with_settings(self._settings)
                .with_policy(levels)
                .with_nodes(nodes)
                .with_gang(gang)
            )

        return build

    async def _gang(self, job: Obj) -> Gang | None:
        wanted = (job["spec"].get("scheduling") or {}).get("gang")
        return await self._gangs.find() if wanted else None

    async def _existing_pod(self, job: Obj, generation: Generation, name: str) -> Obj:
        """The pod that has the name already, if it is the one that was to be made."""
        try:
            live = await self._client.get(PODS, name, namespace=job["metadata"]["namespace"])
        except errors.NotFound:
            raise StillThere(PODS, name) from None  # it went at this very moment
        if not is_of_job(live, job["metadata"]["name"]):
            raise NameTaken(PODS, live)
        if not is_controlled_by(live, job) or attempt_of(live) != generation.attempt:
            raise StillThere(PODS, name)
        self._note(job, live)
        return live

    async def delete_pods(
        self, job: Obj, pods: Sequence[Obj], *, grace_seconds: int | None = None
    ) -> None:
        """Delete these very pods; those that are gone or going already are left alone.

        ``grace_seconds``: how long they have to end; what the pods say if None. A pod that is going
        is deleted again if it is to end sooner.

        Raises:
            ApiError, KubeConnectionError: the first refusal.
        """
        doomed = [pod for pod in pods if _may_go_sooner(pod, grace_seconds)]
        gone: list[Obj] = []

        async def delete(pod: Obj) -> None:
            if await self._delete_pod(job, pod, grace_seconds):
                gone.append(pod)

        try:
            await in_batches(delete, doomed, limit=self._settings.pod_concurrency)
        except errors.ApiError as refusal:
            self._warn(job, "FailedDelete", f"Error deleting: {refusal.message}")
            raise
        self._say(job, "SuccessfulDelete", "Deleted", gone)

    async def _delete_pod(self, job: Obj, pod: Obj, grace_seconds: int | None) -> bool:
        metadata = pod["metadata"]
        try:
            left = await self._client.delete(
                PODS,
                metadata["name"],
                namespace=metadata["namespace"],
                uid=uid_of(pod),
                grace_seconds=grace_seconds,
            )
        except (errors.NotFound, errors.Conflict):
            return False  # gone, or another one has the name
        if left.get("kind") == "Pod" and left["metadata"].get("deletionGracePeriodSeconds"):
            self._note(job, left)  # it has yet to end, and the cache will say so
        return True

    async def clean_up(self, job: Obj, policy: str, pods: Sequence[Obj]) -> None:
        """Delete the pods of a finished job that ``cleanPodPolicy`` names.

        ``Running``: those that have not finished; ``All``; ``None``.
        """
        if policy == "All":
            await self.delete_pods(job, pods)
        elif policy == "Running":
            await self.delete_pods(job, [pod for pod in pods if not _is_finished(pod)])

    # --- notes -----------------------------------------------------------------------------------

    def _note(self, job: Obj, pod: Obj) -> None:
        self.caches.consistency.wrote_at(key_of(job), uid_of(job), PODS, version_of(pod))

    def _say(self, job: Obj, reason: str, verb: str, pods: Sequence[Obj]) -> None:
        if self._recorder is not None and pods:
            names = [pod["metadata"]["name"] for pod in sorted(pods, key=_by_index)]
            self._recorder.normal(job, reason, f"{verb} {_listed(names)}")

    def _warn(self, job: Obj, reason: str, message: str) -> None:
        if self._recorder is not None:
            self._recorder.warning(job, reason, message)


def _is_finished(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") in _FINISHED


def _may_go_sooner(pod: Obj, grace_seconds: int | None) -> bool:
    if not is_being_deleted(pod):
        return True
    left = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    return grace_seconds is not None and grace_seconds < left


def _by_index(pod: Obj) -> int:
    return replica_of(pod) or 0


def _listed(names: list[str]) -> str:
    """All of a few, the ends of many: an event holds 1024 characters."""
    if len(names) == 1:
        return f"pod: {names[0]}"
    shown = ", ".join(names) if len(names) <= 8 else f"{names[0]} … {names[-1]}"
    return f"{len(names)} pods: {shown}"
