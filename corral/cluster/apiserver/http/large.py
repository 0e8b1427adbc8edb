"""Large writes: the computation in another process, admission and storing here.

The event loop never decodes such an object. Where admission wants to look at one, or the kind
needs the server's own state, the ordinary way is taken.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import NamedTuple
from weakref import WeakKeyDictionary

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.crud.core import AdmissionRequest, Registry
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.crud.write import MAX_TRIES, exists
from corral.cluster.apiserver.fairness.dispatch import elsewhere
from corral.cluster.apiserver.heavy import HEAVY_BYTES
from corral.cluster.apiserver.http import jobs
from corral.cluster.apiserver.http.jobs import Job, Outcome
from corral.cluster.apiserver.requests import Context, RequestInfo
from corral.cluster.apiserver.store import Entry, Stale
from corral.kube import errors
from corral.kube.types import Obj


class Body(NamedTuple):
    """What was sent, and in which form."""

    data: bytes
    form: str
    patch: bool = False


class Written(NamedTuple):
    """An object as the client sees it."""

    value: bytes
    created: bool


class LargeWrites:
    """Writes of large bodies and objects. The methods answer None where they do not apply."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._store = registry.store
        self._recipes: WeakKeyDictionary[Kind, tuple[object, bytes]] = WeakKeyDictionary()

    async def create(
        self, kind: Kind, info: RequestInfo, body: Body, context: Context, options: Obj
    ) -> Written | None:
        if kind.costs(len(body.data)) < HEAVY_BYTES:
            return None
        request = self._request("CREATE", kind, info, None, context, options)
        recipe = self._recipe(kind, request)
        if recipe is None:
            return None
        job = self._job(recipe, info, None, body, context)
        outcome = await self._apart(context, jobs.create, job)
        return await self._created(request, outcome)

    async def update(
        self,
        kind: Kind,
        info: RequestInfo,
        body: Body,
        context: Context,
        options: Obj,
        *,
        create: bool,
    ) -> Written | None:
        key = self._registry.key(kind, info.namespace, info.name)
        for _ in range(MAX_TRIES):
            entry = self._store.head(kind.info.table, key)
            size = len(body.data) + (len(entry.value) if entry is not None else 0)
            if kind.costs(size) < HEAVY_BYTES or (entry is None and not create):
                return None
            operation = "CREATE" if entry is None else "UPDATE"
            request = self._request(operation, kind, info, entry, context, options)
            recipe = self._recipe(kind, request)
            if recipe is None:
                return None
            job = self._job(recipe, info, entry, body, context)
            outcome = await self._apart(context, jobs.update, job)
            try:
                if entry is None:
                    return await self._created(request, outcome)
                return await self._replaced(request, entry, outcome)
            except Stale:
                continue
        raise say.conflict(kind.info.group, kind.info.plural, info.name)

    async def _apart(self, context: Context, work: Callable[[Job], Outcome], job: Job) -> Outcome:
        return await elsewhere(self._registry.heavy.apart(context.user, work, job))

    # -- the parts -------------------------------------------------------------------------

    def _request(
        self,
        operation: str,
        kind: Kind,
        info: RequestInfo,
        entry: Entry | None,
        context: Context,
        options: Obj,
    ) -> AdmissionRequest:
        """The request as admission sees it that does not look at objects."""
        old = None
        if entry is not None:
            old = {"metadata": {"name": entry.name, "resourceVersion": str(entry.rv)}}
        return AdmissionRequest(
            operation, kind, info.namespace, info.name, {"metadata": {}}, old, context,
            info.subresource, options,
        )  # fmt: skip

    def _recipe(self, kind: Kind, request: AdmissionRequest) -> bytes | None:
        recipe = kind.recipe
        hooked = kind.info.table in self._registry.hooks
        if recipe is None or hooked or self._registry.admission.looks(request):
            return None
        known = self._recipes.get(kind)
        if known is None or known[0] != recipe[2:]:
            known = self._recipes[kind] = recipe[2:], pickle.dumps(recipe)
        return known[1]

    def _job(
        self, recipe: bytes, info: RequestInfo, entry: Entry | None, body: Body, context: Context
    ) -> Job:
        registry = self._registry
        return Job(
            recipe,
            namespace=info.namespace,
            name=info.name,
            subresource=info.subresource,
            value=entry.value if entry is not None else None,
            rv=entry.rv if entry is not None else 0,
            body=body.data,
            form=body.form,
            patch=body.patch,
            context=context,
            now=registry.timestamp(),
            uid=registry.new_uid(),
            suffix=registry.generate_name(""),
        )

    async def _admitted(self, request: AdmissionRequest, outcome: Outcome) -> None:
        """Pass admission. Raises what it or validation refuses."""
        for text in outcome.warnings:
            request.context.warn(text)
        request.name = outcome.meta.get("name", "")
        request.object = {"metadata": outcome.meta}
        await self._registry.admission.mutate(request)
        if outcome.refusal is not None:
            raise outcome.refusal
        await self._registry.admission.validate(request)

    async def _created(self, request: AdmissionRequest, outcome: Outcome) -> Written:
        await self._admitted(request, outcome)
        kind, table = request.kind, request.kind.info.table
        if outcome.versioned:
            raise errors.ApiError("resourceVersion should not be set on objects to be created")
        key = self._registry.key(kind, request.namespace, request.name)
        there = self._store.head(table, key)
        if there is not None:
            raise exists(kind, request.name, there)
        if request.context.dry_run:
            return Written(outcome.served_as(0), True)
        writing = self._store.write_encoded(
            table, key, outcome.stored_as, outcome.meta,
            expect=None, fields=(kind.fields, outcome.fields),
        )  # fmt: skip
        entry = await elsewhere(writing)
        return Written(self._served(outcome, entry), True)

    async def _replaced(self, request: AdmissionRequest, entry: Entry, outcome: Outcome) -> Written:
        await self._admitted(request, outcome)
        if request.context.dry_run or outcome.same:
            return Written(outcome.served_as(entry.rv), False)
        kind = request.kind
        writing = self._store.write_encoded(
            kind.info.table, entry.key, outcome.stored_as, outcome.meta,
            expect=entry, delete=outcome.gone, fields=(kind.fields, outcome.fields),
        )  # fmt: skip
        written = await elsewhere(writing)
        if outcome.gone:  # what was not written but is gone keeps its version
            return Written(outcome.served_as(entry.rv), False)
        return Written(self._served(outcome, written), False)

    @staticmethod
    def _served(outcome: Outcome, entry: Entry) -> bytes:
        """What the client gets of what was stored: mostly the very bytes."""
        return entry.value if outcome.served is None else outcome.served_as(entry.rv)
