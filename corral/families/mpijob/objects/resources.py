"""ResourceController: makes and removes what an MPIJob consists of.

A steady job costs no request: everything is compared with the informers' stores. Names follow from
the job, so that nothing is ever made twice, and nothing of anybody else is taken over. Keys are
made once, beside the event loop.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from functools import partial

from corral.families.mpijob import names
from corral.families.mpijob.caches import Caches
from corral.families.mpijob.lifecycle.limits import MPISettings
from corral.families.mpijob.objects import launching
from corral.families.mpijob.objects.builders import config_map, service
from corral.families.mpijob.objects.launcher import (
    follow_directives,
    launcher_job,
    launcher_template,
)
from corral.families.mpijob.objects.networkpolicy import network_policy
from corral.families.mpijob.objects.podgroup import pod_group, pod_groups
from corral.families.mpijob.objects.problems import StillThere
from corral.families.mpijob.objects.upkeep import Upkeep
from corral.families.mpijob.objects.workers import WorkerBuilder
from corral.families.mpijob.settings import ObjectSettings
from corral.families.mpijob.view import JobView
from corral.kube import errors
from corral.kube.client import KubeClient
from corral.kube.resources import (
    CONFIGMAPS,
    JOBS,
    NETWORKPOLICIES,
    PODS,
    ROLEBINDINGS,
    ROLES,
    SERVICEACCOUNTS,
    SERVICES,
    Resource,
)
from corral.kube.types import Obj
from corral.runtime import ChildWriter, is_being_deleted, is_controlled_by, merge_diff, uid_of
from corral.runtime.family.batches import at_once, in_batches

__all__ = ["ResourceController"]

_ACCESS: dict[str, Resource] = {
    found.kind: found for found in (SERVICEACCOUNTS, ROLES, ROLEBINDINGS)
}


class ResourceController:
    """Writes for all jobs of one operator."""

    def __init__(self, client: KubeClient, caches: Caches, settings: MPISettings) -> None:
        self._client = client
        self._caches = caches
        self._settings = settings
        self._writer = ChildWriter(
            client, field_manager=settings.field_manager, consistency=caches.consistency
        )
        self._upkeep = Upkeep(client, self._writer, caches, field_manager=settings.field_manager)
        self._with_keys: set[str] = set()
        """UIDs of jobs whose Secret was seen by this process."""

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._with_keys.discard(uid)

    def launcher_of(self, view: JobView) -> Obj | None:
        """The launcher, where it is this very job's."""
        found = self._caches.child(JOBS, view.namespace, names.launcher_name(view.name))
        return found if found is not None and is_controlled_by(found, view.obj) else None

    def settings_for(self, view: JobView, *, anew: bool = False) -> ObjectSettings:
        """What the objects of a job are made by; how it is launched is decided once.

        ``anew``: decide again, since there are no pods that it was decided for.
        """
        settings = self._settings.objects
        if settings.remote_agent or not self._settings.agent:
            return settings
        return launching.rsh_settings(settings) if self._by_agent(view, anew) else settings

    def _by_agent(self, view: JobView, anew: bool) -> bool:
        launcher = self.launcher_of(view)
        if launcher is not None and not anew:
            return _has_agent(launcher)
        found = self._caches.child(CONFIGMAPS, view.namespace, names.config_map_name(view.name))
        if found is not None and is_controlled_by(found, view.obj) and not anew:
            return launching.uses_rsh(found)
        default = self._settings.agent_by_default
        return launching.needs_rsh(view, self._caches.nodes.store, default=default)

    # --- everything but pods and launcher --------------------------------------------------------

    async def keep(
        self,
        view: JobView,
        settings: ObjectSettings,
        *,
        running: Sequence[str],
        pods: bool = False,
        grows: bool = False,
        lazy: bool = False,
    ) -> bool:
        """Service, ConfigMap, Secret and the like are as they should be.

        Args:
            view: the job.
            settings: what its objects are made by.
            running: the workers that run.
            pods: whether pods are about to be made, which cannot start without the Secret.
            grows: whether workers are among them: rights to them come when they are there.
            lazy: that other workers run by now need not be written yet; whether that was left.

        Raises:
            ResourceExists, StillThere: another object has a name of ours.
            ApiError, KubeConnectionError: the first refusal.
        """
        hosts = config_map(view, running, settings)
        left = lazy and self._upkeep.finds_new_hosts(view, hosts)
        wanted = self._wanted(view, settings) + ([] if left else [(CONFIGMAPS, hosts)])
        if grows and launching.uses_agent(settings):
            # an empty one is made first: nobody can be bound to a Role that is not there
            name = names.launcher_name(view.name)
            is_there = not self._upkeep.is_missing(ROLES, view.namespace, name)
            wanted = [found for found in wanted if found[0] is not ROLES or not is_there]
        is_new = self._upkeep.is_missing(SERVICES, view.namespace, view.name)
        steps: list[Callable[[], Awaitable[None]]] = [
            partial(self._upkeep.put, view, *found)
            for found in wanted
            if not self._upkeep.is_right(view, *found)
        ]
        if pods or uid_of(view.obj) not in self._with_keys:
            steps.append(partial(self._keep_keys, view, known=not is_new))
        await at_once(lambda step: step(), steps)
        if network_policy(view) is None:
            await self._upkeep.remove(view, NETWORKPOLICIES, view.name)
        return left

    def _wanted(self, view: JobView, settings: ObjectSettings) -> list[tuple[Resource, Obj]]:
        out = [(SERVICES, service(view))]
        policy = network_policy(view)
        if policy is not None:
            out.append((NETWORKPOLICIES, policy))
        if launching.uses_agent(settings):
            out += self._access(view)
        return out

    def _access(
        self, view: JobView, made: Iterable[str] = (), *, leaving: Container[str] = ()
    ) -> list[tuple[Resource, Obj]]:
        """Rights to the workers that are this very job's and stay, ``made`` among them.

        ``leaving``: the UIDs of those that are about to be deleted.
        """
        there = [
            pod["metadata"]["name"]
            for pod in self._caches.controlled(view.obj)
            if not is_being_deleted(pod) and uid_of(pod) not in leaving
        ]
        found = launching.access_objects(view, [*there, *made])
        return [(_ACCESS[obj["kind"]], obj) for obj in found]

    async def _keep_keys(self, view: JobView, *, known: bool) -> None:
        await self._upkeep.put_keys(view, known=known)
        self._with_keys.add(uid_of(view.obj))

    async def keep_group(self, view: JobView, *, wanted: bool) -> None:
        """The PodGroup is there as it should be, or is not there."""
        resource = pod_groups(self._settings.objects)
        if resource is None:
            return
        if not wanted:
            await self._upkeep.remove(view, resource, view.name)
            return
        group = pod_group(view, self._settings.objects, self._caches.priority_values())
        if group is not None and not self._upkeep.is_right(view, resource, group):
            await self._upkeep.put(view, resource, group)

    # --- workers ---------------------------------------------------------------------------------

    async def create_workers(
        self, view: JobView, settings: ObjectSettings, indexes: Sequence[int]
    ) -> None:
        """Create these workers, several at a time; those that are there already will do.

        The launcher's rights follow at once, since it may start next.

        Raises:
            ResourceExists, StillThere: another pod has the name.
            ApiError, KubeConnectionError: the first refusal; what was made before it stays.
        """
        if not indexes:
            return
        builder = WorkerBuilder(view, settings)

        made: list[str] = []

        async def create(index: int) -> None:
            pod = await self._upkeep.create(view, PODS, builder.pod(index))
            made.append(pod["metadata"]["name"])

        try:
            await in_batches(create, indexes, limit=self._settings.pod_concurrency)
        finally:
            if launching.uses_agent(settings):
                await self._grant(view, made)

    async def _grant(self, view: JobView, made: Sequence[str]) -> None:
        """Have the launcher's rights follow the workers that are there, and those just made."""
        (role,) = [obj for resource, obj in self._access(view, made) if resource is ROLES]
        if self._upkeep.is_right(view, ROLES, role):
            return
        await self._upkeep.put(view, ROLES, role)

    async def keep_rights(
        self, view: JobView, settings: ObjectSettings, *, leaving: Sequence[Obj]
    ) -> None:
        """Have a job that is over keep no right to the name of a worker that goes, or is gone.

        Raises:
            StillThere: the Role has just gone.
            ApiError, KubeConnectionError: it cannot be written now.
        """
        if not launching.uses_agent(settings):
            return  # there are no roles, and nobody looks for any
        found = self._caches.child(ROLES, view.namespace, names.launcher_name(view.name))
        if found is None or not is_controlled_by(found, view.obj) or is_being_deleted(found):
            return
        left = {uid_of(pod) for pod in leaving}
        (role,) = [o for r, o in self._access(view, leaving=left) if r is ROLES]
        if not self._upkeep.is_right(view, ROLES, role):
            await self._upkeep.correct(view, ROLES, found, role)

    async def delete_pods(
        self, view: JobView, pods: Sequence[Obj], *, grace_seconds: int | None = None
    ) -> None:
        """Delete these very pods; those that are gone already are no matter.

        ``grace_seconds``: how long they have to end; what the pods say if None.

        Raises:
            ApiError, KubeConnectionError: the first refusal.
        """

        async def delete(pod: Obj) -> None:
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
                return  # gone, or another one has the name
            if left.get("kind") == "Pod" and left["metadata"].get("deletionGracePeriodSeconds"):
                self._upkeep.note(view, PODS, left)  # it has yet to end; the cache will say so

        await in_batches(delete, pods, limit=self._settings.pod_concurrency)

    # --- the launcher ----------------------------------------------------------------------------

    async def create_launcher(self, view: JobView, settings: ObjectSettings) -> None:
        """Create the Job, suspended where the MPIJob is.

        Raises:
            ResourceExists, StillThere: another Job has the name.
            ApiError, KubeConnectionError: it was refused.
        """
        await self._upkeep.create(view, JOBS, launcher_job(view, settings))

    async def drop_launcher(self, view: JobView, settings: ObjectSettings) -> None:
        """Remove a launcher that was made for another way to reach workers: it cannot be changed.

        Raises:
            StillThere: it is going.
        """
        launcher = self.launcher_of(view)
        if launcher is not None and _has_agent(launcher) != launching.uses_agent(settings):
            if not is_being_deleted(launcher):
                await self._writer.delete(JOBS, launcher)
            raise StillThere(JOBS, names.launcher_name(view.name))

    async def suspend_launcher(self, view: JobView) -> None:
        """Have its pod taken away."""
        await self._patch_launcher(view, {"spec": {"suspend": True}})

    async def resume_launcher(self, view: JobView, settings: ObjectSettings, launcher: Obj) -> None:
        """Let it run where the template says by now; nothing else of a Job can change."""
        if (launcher.get("status") or {}).get("startTime"):
            # A Job that has once begun takes no other directives.
            await self._patch_launcher(view, {"status": {"startTime": None}}, subresource="status")
        changed = follow_directives(launcher, launcher_template(view, settings))
        spec = merge_diff(launcher["spec"], {**changed["spec"], "suspend": False})
        await self._patch_launcher(view, {"spec": spec})

    async def _patch_launcher(self, view: JobView, patch: Obj, *, subresource: str = "") -> None:
        written = await self._client.patch(
            JOBS,
            names.launcher_name(view.name),
            namespace=view.namespace,
            patch=patch,
            subresource=subresource,
            field_manager=self._settings.field_manager,
        )
        self._upkeep.note(view, JOBS, written)


def _has_agent(launcher: Obj) -> bool:
    """Whether a launcher was made to use the agent: it has it among its files."""
    volumes = launcher["spec"]["template"]["spec"].get("volumes") or ()
    items = [
        item["key"]
        for volume in volumes
        if volume["name"] == names.CONFIG_VOLUME
        for item in (volume.get("configMap") or {}).get("items") or ()
    ]
    return launching.AGENT in items
