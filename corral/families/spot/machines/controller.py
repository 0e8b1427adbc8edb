"""The controller of SpotInstanceVMs: makes the machines that jobs wish for, and ends the others.

The wish is what jobs' statuses say (`machines_wishes`), the fact is what is written here. A request
id is written down before a cloud is asked, requests go on beside the reconciles (`machines_work`),
and everything may be done twice: whoever is killed between any two writes leaves nothing behind
that the next one does not find.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from typing import Final

from pydantic import ValidationError

from corral.api.spot.kinds import (
    INSTANCE_LABEL,
    SPOTINSTANCEJOBS,
    SPOTINSTANCEVMS,
    VM_FINALIZER,
    SpotInstanceVM,
)
from corral.clouds.base import Notice, NoticeKind
from corral.families.spot.machines import entries
from corral.families.spot.machines.accounts import NamedAccounts
from corral.families.spot.machines.clouds import Asked, MachineClouds
from corral.families.spot.machines.joining import Joiner
from corral.families.spot.machines.nodes import MachineNodes
from corral.families.spot.machines.notices import Listeners
from corral.families.spot.machines.providers import Providers
from corral.families.spot.machines.reporting import MachineMetrics, Teller, within_limits
from corral.families.spot.machines.requested import Wish, machines_named, wishes_for
from corral.families.spot.machines.settings import MachineSettings
from corral.families.spot.machines.sweeping import Sweeping
from corral.families.spot.machines.work import Works
from corral.kube.errors import NotFound
from corral.kube.resources import NODES
from corral.kube.types import Obj
from corral.runtime import (
    ConsistencyStore,
    Manager,
    Result,
    TerminalError,
    add_finalizer,
    has_finalizer,
    is_being_deleted,
    join_key,
    mapped,
    remove_finalizer,
    split_key,
)
from corral.runtime.family.statuses import StatusController
from corral.runtime.sightings import Sightings

__all__ = ["MachineReconciler", "register"]

logger = logging.getLogger(__name__)

COMPONENT: Final = "corral-spot-machines"
INSTANCE_INDEX: Final = "instance"
JOB_INDEX: Final = "machines"
_SOONEST: Final = 0.1
"""Seconds between two looks at a machine, at least."""
_OFFERS: Final = ""
"""In the place of a machine's name: work that is for all of them."""
_JOIN: Final = "/join"
"""After a machine's name: work beside its own."""


def _instances(vm: Obj) -> list[str]:
    found = (vm.get("status") or {}).get("provisionedInstances") or ()
    return [entry["name"] for entry in found if not entries.is_over(entry)]


def _machines_of(job: Obj) -> list[str]:
    """The keys of the SpotInstanceVMs that a job names."""
    namespace = job["metadata"]["namespace"]
    return [join_key(namespace, name) for name in machines_named(job)]


def _references(users: Sequence[Obj], vm: Obj) -> list[Obj | None]:
    """The Secrets that a SpotInstanceVM's jobs and machines name."""
    specs = [job.get("spec") or {} for job in users]
    found = [s.get("credentialsSecretRef") or s.get("gcpCredentialsSecretRef") for s in specs]
    left = (vm.get("status") or {}).get("provisionedInstances") or ()
    return found + [e.get("credentialsSecretRef") for e in left if not entries.is_over(e)]


class MachineReconciler:
    """Looks at one SpotInstanceVM after another."""

    def __init__(
        self,
        manager: Manager,
        settings: MachineSettings,
        *,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self._wall = wall
        self._sightings = Sightings()
        self._client = manager.client
        self.vms = manager.informer(SPOTINSTANCEVMS)
        self.vms.add_index(INSTANCE_INDEX, _instances)
        self.jobs = manager.informer(SPOTINSTANCEJOBS)
        self.jobs.add_index(JOB_INDEX, _machines_of)
        self.nodes = manager.informer(NODES)
        self._written = ConsistencyStore({SPOTINSTANCEVMS: self.vms})
        self._statuses = StatusController(
            manager.client, SPOTINSTANCEVMS, self._written, field_manager=settings.field_manager
        )
        self.metrics: MachineMetrics | None = None
        if manager.metrics:
            self.metrics = MachineMetrics(manager.metrics.registry, self.vms)
        self._teller = Teller(manager.recorder(COMPONENT), self.metrics)
        self.marks = MachineNodes(
            manager.client, self.nodes, field_manager=settings.field_manager, wall=wall
        )
        self._listeners = Listeners(self._hear)
        self.providers = Providers(manager.client, settings, closing=self._listeners.stop)
        self._clouds = MachineClouds(
            self.providers,
            self.marks,
            Joiner(manager.client, namespaces=settings.join_namespaces, egress=settings.egress),
            self._listeners,
            wall=wall,
        )
        self._accounts = NamedAccounts(self.providers)
        self._asked: dict[str, list[Obj | None]] = {}
        """By SpotInstanceVM: the Secrets that prices were last asked for with."""
        self._notices: dict[str, Notice] = {}
        """By machine: what its cloud has announced."""
        self._taken: set[str] = set()
        """Machines that are gone, and that their clouds say they took."""
        self._works = Works(
            self._wake,
            limit=settings.work_s,
            retry=settings.retry,
            retry_cap=settings.retry_cap,
        )
        self.wake: Callable[[str], None] = lambda key: None
        """Has an object looked at; set by `register`."""

    def _wake(self, key: str) -> None:
        self.wake(key)

    # --- one look --------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> Result | None:
        """One look at one SpotInstanceVM."""
        self._written.ensure_ready(key)
        found = self.vms.store.get(key)
        if found is None or (is_being_deleted(found) and not has_finalizer(found, VM_FINALIZER)):
            self._written.clear(key)
            self._works.forget(key)
            self._asked.pop(key, None)
            await self._accounts.named(key, ())
            return None
        try:
            return await self._sync(key, SPOTINSTANCEVMS.stamp(found))
        except NotFound:
            return None

    async def _sync(self, key: str, vm: Obj) -> Result | None:
        try:
            spec = SpotInstanceVM.read(vm).spec
        except ValidationError as error:
            raise TerminalError("the SpotInstanceVM cannot be read") from error
        namespace, name = split_key(key)
        deleting = is_being_deleted(vm)
        users = self.jobs.store.by_index(JOB_INDEX, key)
        wishes = [] if deleting else wishes_for(name, users)
        if wishes and not has_finalizer(vm, VM_FINALIZER):
            # before the first side effect: nothing may be left when the object goes
            manager = self._settings.field_manager
            vm = await add_finalizer(
                self._client,
                SPOTINSTANCEVMS,
                vm,
                finalizer=VM_FINALIZER,
                field_manager=manager,
            )
        asked = Asked(namespace, spec, vm["metadata"].get("generation") or 0)
        await self._accounts.named(key, _references(users, vm), namespace, spec)
        vm = await self._write(key, vm, wishes, deleting=deleting)
        known = (vm.get("status") or {}).get("provisionedInstances") or []
        waits = [await self._go_on(key, asked, entry) for entry in known]
        if not deleting and (users or spec.local is not None):
            waits.append(self._price(key, asked, users, vm))
        over = {entry["name"] for entry in known if entries.is_over(entry)}
        self._works.forget(key, over | {name + _JOIN for name in over})
        self._taken -= over
        for gone in over:
            self._notices.pop(gone, None)
        if deleting and len(over) == len(known):
            await self._let_go(vm)
            return None
        return Result(max(_SOONEST, min([*filter(None, waits), self._settings.resync])))

    async def _write(self, key: str, vm: Obj, wishes: Sequence[Wish], *, deleting: bool) -> Obj:
        """Bring the status up to date; the object as it is then. Raises Conflict, NotFound."""
        now = self._wall()
        status = deepcopy(vm.get("status") or {})
        old = status.get("provisionedInstances") or []
        new = entries.settled(old, wishes, now)
        changes = self._works.done(key)
        for entry in new:
            for name in (entry["name"], entry["name"] + _JOIN):
                if name in changes:
                    changes[name](entry)
            self._update(entry, now)
        wished = [wish.instance for wish in wishes]
        status["provisionedInstances"] = entries.kept(new, wished, self._settings.kept)
        if _OFFERS in changes:
            changes[_OFFERS](status)
        within_limits(status, old, new, now=now, generation=vm["metadata"].get("generation"))
        status["phase"] = entries.phase_of(new, deleting=deleting)
        status["observedGeneration"] = vm["metadata"].get("generation")
        written = await self._statuses.write(vm, status)
        self._works.written(key, changes)
        self._teller.changed(written, old, new, now=now)
        return written

    def _update(self, entry: Obj, now: float) -> None:
        """What clouds and nodes say about one machine."""
        notice = self._notices.get(entry["name"])
        if notice is not None:
            entries.told_by(entry, notice)
        if entry["name"] in self._taken and entry.get("reason") == "Lost":
            entry["reason"] = "Preempted"  # seen from outside it only was not there
        node = self.marks.of(entry)
        if node is not None:
            limit = self._settings.silent
            entries.told_by_node(entry, node)
            entries.silent(entry, node, now=now, limit=limit, sightings=self._sightings)
        if self._left_to_join(entry, now) < 0:
            entries.not_joined(entry, f"it was no node after {self._settings.join:g} s")

    def _left_to_join(self, entry: Obj, now: float) -> float:
        limit = self._settings.join
        return entries.left_to_join(entry, now=now, limit=limit, sightings=self._sightings)

    # --- what follows ----------------------------------------------------------------------------

    async def _go_on(self, key: str, asked: Asked, entry: Obj) -> float:
        """Begin what the machine needs now; seconds until it should be looked at again."""
        if entries.is_over(entry):
            if self.marks.of(entry) is not None:  # it became one while it was taken
                await self.marks.remove(entry["name"])
            return 0.0
        name, state = entry["name"], entry.get("state")
        clouds = self._clouds
        if state in (entries.STOPPING, entries.TERMINATED):
            self._works.cancel(key, name + _JOIN)
            return self._works.begin(key, name, "remove", partial(clouds.remove, asked, entry))
        if state == entries.PENDING:
            return self._works.begin(key, name, "create", partial(clouds.create, asked, entry))
        await self.marks.mark(entry)
        settings, waits = self._settings, [self._left_to_join(entry, self._wall()) + 1]
        by_ssh = asked.spec.ssh is not None and entry["cloud"] != "local"
        if by_ssh and state == entries.RUNNING and not entry.get("joinedCluster"):
            # beside the looks: a machine may be lost while it joins
            work = partial(clouds.join, asked, entry)
            waits.append(self._works.begin(key, name + _JOIN, "join", work, every=settings.join))
        work = partial(clouds.look, asked, entry)
        every = settings.look if state == entries.RUNNING else min(settings.boot, settings.look)
        waits.append(self._works.begin(key, name, "look", work, every=every) or every)
        return min(filter(None, waits))

    def _price(self, key: str, asked: Asked, users: Sequence[Obj], vm: Obj) -> float:
        """Have prices asked for; of clouds whose credentials nobody has named yet, later."""
        specs = [job.get("spec") or {} for job in users]
        named = [
            spec.get("credentialsSecretRef") or spec.get("gcpCredentialsSecretRef")
            for spec in specs
        ]
        references = [each for each in named if each] or [None]
        if self._asked.setdefault(key, references) != references:
            # what is under way asks with Secrets that nobody names any more
            self._works.cancel(key, _OFFERS)
            self._works.hurry(key, _OFFERS, "offers")
            self._asked[key] = references
        known = (vm.get("status") or {}).get("offers") or []
        work = partial(self._clouds.offers, asked, references, known)
        return self._works.begin(key, _OFFERS, "offers", work, every=self._settings.prices)

    async def _let_go(self, vm: Obj) -> None:
        """Nothing is left: the object may go."""
        await remove_finalizer(
            self._client,
            SPOTINSTANCEVMS,
            vm,
            finalizer=VM_FINALIZER,
            field_manager=self._settings.field_manager,
        )

    # --- what is heard ---------------------------------------------------------------------------

    def _hear(self, notice: Notice) -> None:
        """From a cloud, about one machine."""
        for key in self.vms.store.keys_by_index(INSTANCE_INDEX, notice.vm):
            if notice.kind is NoticeKind.GONE:
                if notice.preempted:
                    self._taken.add(notice.vm)
                self._works.hurry(key, notice.vm, "look")
            elif notice.deadline is not None:
                self._notices[notice.vm] = notice
            self._wake(key)

    def of_node(self, node: Obj) -> list[str]:
        """The SpotInstanceVM that a node is a machine of.

        A machine that nobody knows may be one whose entry was written just now, and is not in the
        cache yet: then all of them are looked at.
        """
        metadata = node["metadata"]
        found = self.vms.store.keys_by_index(INSTANCE_INDEX, metadata["name"])
        if not found and INSTANCE_LABEL in (metadata.get("labels") or {}):
            return self.vms.store.keys()
        return found

    def of_job(self, job: Obj) -> list[str]:
        """Those that a job names; and those that have machines of it."""
        return [key for key in _machines_of(job) if key in self.vms.store]

    async def closing(self) -> None:
        """Until cancelled; then leave everything as it is."""
        try:
            await asyncio.Event().wait()
        finally:
            await self._works.close()
            await self._listeners.close()
            await self.providers.close()


def register(manager: Manager, settings: MachineSettings) -> MachineReconciler:
    """Add the controller of SpotInstanceVMs to a manager."""
    reconciler = MachineReconciler(manager, settings)
    controller = manager.controller(
        "spotinstancevm",
        reconciler.reconcile,
        workers=settings.workers,
        timeout=settings.timeout,
    )
    controller.watch(reconciler.vms)
    controller.watch(reconciler.jobs, mapped(reconciler.of_job))
    controller.watch(reconciler.nodes, mapped(reconciler.of_node))
    reconciler.wake = controller.queue.add
    manager.add_task("machines of spot jobs", reconciler.closing)
    sweeping = Sweeping(
        manager.client,
        settings,
        reconciler.providers,
        nodes=reconciler.marks,
        vms=reconciler.vms,
        jobs=reconciler.jobs,
        job_index=JOB_INDEX,
        metrics=reconciler.metrics,
    )
    manager.add_task("search for lost machines", sweeping.run)
    return reconciler
