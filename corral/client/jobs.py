"""`Jobs`: everything that can be asked about jobs of any kind, with somebody's credentials.

Objects are plain dicts, errors those of `corral.client.errors`. Kinds are given as `JobKind` or by
any name that `kind_of` knows. Nothing is cached: every answer is what the API server says now.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from corral.client import actions, restarts
from corral.client.addresses import check_name, check_namespace
from corral.client.errors import FieldProblem, Invalid, NotInstalled, NotSupported
from corral.client.events import Family, in_order
from corral.client.kinds import JobKind, kind_of, kind_of_object
from corral.client.phases import section, text
from corral.client.queries import ListQuery, Page, check, paged
from corral.client.translate import ApiRequest, translating
from corral.client.watching import Change, Scope, Until, changes, wait_for
from corral.kube import discovery
from corral.kube.client import KubeClient, Propagation
from corral.kube.problems import show
from corral.kube.resources import EVENTS, PODS, Resource
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client.explain.explanation import Explanation
    from corral.client.logs.query import LogChunk, LogQuery
    from corral.client.summary import Summary

__all__ = ["AnyKind", "Jobs"]

AnyKind = JobKind | str
Objs = list[Obj]
"""Inside `Jobs`, ``list`` is a method."""
_REQUIRED: Final = "FieldValueRequired"


def _now() -> datetime:
    return datetime.now(UTC)


class Jobs:
    """Jobs of one cluster, as one user sees them; one `Access`."""

    def __init__(self, client: KubeClient, *, clock: Callable[[], datetime] = _now) -> None:
        self.client = client
        self._clock = clock

    @property
    def namespace(self) -> str:
        """Where jobs are unless it is said."""
        return self.client.namespace

    @property
    def where(self) -> str:
        """The context of the kubeconfig, or the server."""
        return self.client.config.context or self.client.config.server

    async def close(self) -> None:
        """Close the client."""
        await self.client.close()

    # --- reading -------------------------------------------------------------------------------

    async def get(self, kind: AnyKind, namespace: str, name: str) -> Obj:
        kind = _kind(kind, namespace, name)
        with translating(ApiRequest.of("get", kind, namespace, name=name)):
            return await self.client.get(kind.resource, name, namespace=namespace)

    async def list(
        self, kind: AnyKind, namespace: str | None, query: ListQuery | None = None
    ) -> Page:
        """Objects that match, in the order and pages of the query; none lists all namespaces."""
        kind, query = _kind(kind, namespace), query or ListQuery()
        check(kind, query)
        with translating(ApiRequest.of("list", kind, namespace)):
            found = await self.client.list_all(
                kind.resource, namespace, label_selector=query.labels
            )
        version = text(section(found, "metadata").get("resourceVersion"))
        return replace(paged(kind, query, found["items"]), resource_version=version)

    async def pods(self, kind: AnyKind, obj: Obj) -> Objs:
        """The pods of an object, launcher first, then by index."""
        kind = _kind(kind)
        if kind.pod_selector is None:
            return []
        namespace = text(section(obj, "metadata").get("namespace"))
        with translating(ApiRequest("list", PODS, namespace)):
            found = await self.client.list_all(
                PODS, namespace, label_selector=kind.pod_selector(obj)
            )
        return sorted(found["items"], key=lambda pod: (kind.role(pod).order, _name(pod)))

    async def summary(self, kind: AnyKind, namespace: str, name: str) -> Summary:
        """The job and its pods at a glance."""
        from corral.client.summary import summarize

        kind = _kind(kind, namespace, name)
        obj = await self.get(kind, namespace, name)
        return summarize(kind, obj, await self.pods(kind, obj), now=self._clock())

    async def events(self, kind: AnyKind, namespace: str, name: str) -> Objs:
        """Events about the object and what was made for it, oldest first."""
        kind = _kind(kind, namespace, name)
        obj = await self.get(kind, namespace, name)
        return await self.events_of(kind, obj, await self.pods(kind, obj))

    async def events_of(self, kind: JobKind, obj: Obj, pods: Sequence[Obj]) -> Objs:
        """Events about an object and its pods that were read already."""
        family = Family(kind, obj, pods)
        namespace = text(section(obj, "metadata").get("namespace"))
        with translating(ApiRequest("list", EVENTS, namespace)):
            found = self.client.list(EVENTS, namespace)
            return in_order([event async for event in found if family.has(event)])

    async def explain(self, kind: AnyKind, namespace: str, name: str) -> Explanation:
        """Explains what a job waits for or why it failed; see `corral.client.explain`."""
        from corral.client.explain.evidence import gathered
        from corral.client.explain.explanation import explained

        kind = _kind(kind, namespace, name)
        return explained(await gathered(self, kind, namespace, name, now=self._clock()))

    async def metrics(self, kind: AnyKind, namespace: str, name: str) -> Obj:
        """What a federated job has learned, by round and by proplet; see `corral.client.learning`.

        Raises:
            NotSupported: the kind has no rounds.
        """
        from corral.client.learning import JOB_LABEL, learned

        kind = _kind(kind, namespace, name)
        if not kind.learns:
            raise NotSupported(f"{kind.kind}s have no metrics of rounds")
        job = await self.get(kind, namespace, name)
        rounds = kind_of("trainingrounds")
        with translating(ApiRequest.of("list", rounds, namespace)):
            found = await self.client.list_all(
                rounds.resource, namespace, label_selector=f"{JOB_LABEL}={name}"
            )
        return learned(job, found["items"])

    # --- writing -------------------------------------------------------------------------------

    async def create(
        self, kind: AnyKind, namespace: str, obj: Obj, *, dry_run: bool = False
    ) -> Obj:
        """Create an object; its ``apiVersion`` and ``kind`` may be left out.

        Raises:
            Invalid: it is of another kind, of another namespace, or wrong.
        """
        kind = _kind(kind, namespace)
        _check_type(kind, obj, namespace=namespace)
        name = _name(obj)
        with translating(ApiRequest.of("create", kind, namespace, name=name)):
            return await self.client.create(
                kind.resource,
                obj,
                namespace=namespace,
                field_manager=actions.FIELD_MANAGER,
                field_validation="Strict",
                dry_run=dry_run,
            )

    async def apply(
        self,
        obj: Obj,
        *,
        field_manager: str = actions.FIELD_MANAGER,
        namespace: str | None = None,
        force: bool = True,
        dry_run: bool = False,
    ) -> Obj:
        """Server-side apply of an object of any kind, ours or not."""
        resource = await self._resource_of(obj)
        name = _name(obj)
        if not name:
            problem = FieldProblem("metadata.name", "Required value", "FieldValueRequired")
            raise Invalid("an object to apply must have a name", fields=(problem,))
        where = namespace or text(section(obj, "metadata").get("namespace")) or None
        with translating(ApiRequest("patch", resource, where or self.client.namespace, name)):
            return await self.client.apply(
                resource,
                obj,
                field_manager=field_manager,
                namespace=where,
                force=force,
                field_validation="Strict",
                dry_run=dry_run,
            )

    async def replace(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        *,
        obj: Obj,
        resource_version: str | None = None,
    ) -> Obj:
        """Write a whole object, over the version given, that of the object, or whatever is there.

        Raises:
            Changed: it has another version.
        """
        kind = _kind(kind, namespace, name)
        _check_type(kind, obj, namespace=namespace, name=name)
        metadata = section(obj, "metadata")
        version = resource_version or text(metadata.get("resourceVersion"))
        if not version:
            # Custom resources are never overwritten blindly, so the caller's wish needs a version.
            found = await self.get(kind, namespace, name)
            version = text(section(found, "metadata").get("resourceVersion"))
        written = {**obj, "metadata": {**metadata, "name": name, "resourceVersion": version}}
        with translating(ApiRequest.of("update", kind, namespace, name=name)):
            return await self.client.replace(
                kind.resource,
                written,
                namespace=namespace,
                field_manager=actions.FIELD_MANAGER,
                field_validation="Strict",
            )

    async def delete(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        *,
        propagation: Propagation = "Background",
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> Obj:
        """Delete an object; the object itself where it still has to finish, else a ``Status``."""
        kind = _kind(kind, namespace, name)
        with translating(ApiRequest.of("delete", kind, namespace, name=name)):
            return await self.client.delete(
                kind.resource,
                name,
                namespace=namespace,
                propagation=propagation,
                uid=uid or "",
                resource_version=resource_version or "",
            )

    async def restart(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        *,
        force: bool = False,
        resource_version: str | None = None,
    ) -> Obj:
        """Run a job again from its spec; see `corral.client.restarts`."""
        target = actions.JobReference(
            _kind(kind, namespace, name), namespace, name, resource_version
        )
        return await restarts.restart(self.client, target, force=force, clock=self._clock)

    async def suspend(
        self, kind: AnyKind, namespace: str, name: str, *, resource_version: str | None = None
    ) -> Obj:
        """Take its pods away, and keep the job."""
        target = actions.JobReference(
            _kind(kind, namespace, name), namespace, name, resource_version
        )
        return await actions.set_suspended(self.client, target, suspended=True)

    async def resume(
        self, kind: AnyKind, namespace: str, name: str, *, resource_version: str | None = None
    ) -> Obj:
        """Let a suspended job go on."""
        target = actions.JobReference(
            _kind(kind, namespace, name), namespace, name, resource_version
        )
        return await actions.set_suspended(self.client, target, suspended=False)

    async def scale(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        *,
        replicas: int,
        resource_version: str | None = None,
    ) -> Obj:
        """Ask for another number of replicas."""
        target = actions.JobReference(
            _kind(kind, namespace, name), namespace, name, resource_version
        )
        return await actions.scale(self.client, target, replicas=replicas)

    async def _resource_of(self, obj: Obj) -> Resource:
        known = kind_of_object(obj)
        api_version, word = text(obj.get("apiVersion")), text(obj.get("kind"))
        if known is not None and known.api_version == api_version:
            return known.resource
        if not api_version or not word:
            fields = ("apiVersion", api_version), ("kind", word)
            missing = [name for name, value in fields if not value]
            problems = (FieldProblem(name, "Required value", _REQUIRED) for name in missing)
            raise Invalid(f"the object has no {' and no '.join(missing)}", fields=tuple(problems))
        try:
            with translating(ApiRequest("get", Resource("", "", "", False, word))):
                return await self.client.resource_for(api_version, word)
        except discovery.UnknownKind as error:
            raise NotInstalled(
                f"this cluster does not know {word} of {api_version}",
                hint="check apiVersion and kind; `kubectl api-resources` lists what there is",
            ) from error

    # --- following -----------------------------------------------------------------------------

    def watch(
        self,
        kind: AnyKind,
        namespace: str | None,
        name: str | None = None,
        *,
        since: str | None = None,
        query: ListQuery | None = None,
    ) -> AsyncGenerator[Change, None]:
        """What is there, then every change; see `corral.client.watching.changes`."""
        scope = Scope(_kind(kind, namespace, name), namespace, name, query or ListQuery())
        return changes(self.client, scope, since=since)

    async def wait(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        until: Until,
        *,
        timeout: float,  # noqa: ASYNC109 - the error says what was seen until then
    ) -> Obj:
        """The object when it is as wanted; see `corral.client.watching.wait_for`."""
        scope = Scope(_kind(kind, namespace, name), namespace, name)
        return await wait_for(changes(self.client, scope), scope, until, timeout=timeout)

    async def logs(
        self,
        kind: AnyKind,
        namespace: str,
        name: str,
        query: LogQuery | None = None,
        *,
        job: Obj | None = None,
    ) -> AsyncGenerator[LogChunk, None]:
        """What the pods of a job write; see `corral.client.logs.streaming`.

        ``job`` is the job where it was read already.
        """
        from corral.client.logs.query import LogQuery
        from corral.client.logs.streaming import read_logs

        kind, query = _kind(kind, namespace, name), (query or LogQuery()).checked()
        job = job or await self.get(kind, namespace, name)
        async with aclosing(read_logs(self.client, kind, job, query)) as chunks:
            async for chunk in chunks:
                yield chunk


def _kind(kind: AnyKind, namespace: str | None = None, name: str | None = None) -> JobKind:
    """The kind, once it is known that there can be such an object."""
    check_namespace(namespace)
    if name is not None:
        check_name(name)
    return kind if isinstance(kind, JobKind) else kind_of(kind)


def _reference(
    kind: AnyKind, namespace: str, name: str, version: str | None
) -> actions.JobReference:
    return actions.JobReference(_kind(kind, namespace, name), namespace, name, version)


def _name(obj: Obj) -> str:
    return text(section(obj, "metadata").get("name"))


def _check_type(kind: JobKind, obj: Obj, *, namespace: str, name: str = "") -> None:
    """What was asked for and what the object says must agree; absent fields do."""
    metadata = section(obj, "metadata")
    pairs = (
        ("apiVersion", obj.get("apiVersion"), kind.api_version),
        ("kind", obj.get("kind"), kind.kind),
        ("metadata.namespace", metadata.get("namespace"), namespace),
        ("metadata.name", metadata.get("name"), name),
    )
    problems = tuple(
        FieldProblem(
            field, f"Invalid value: {show(detail)}: must be {wanted!r}", "FieldValueInvalid"
        )
        for field, detail, wanted in pairs
        if detail and wanted and detail != wanted
    )
    if "metadata" in obj and not isinstance(obj["metadata"], dict):
        problems = (FieldProblem("metadata", "must be an object", "FieldValueTypeInvalid"),)
    if problems:
        detail = "; ".join(f"{problem.field}: {problem.message}" for problem in problems)
        raise Invalid(
            f"this is no {kind.kind} for namespace {namespace!r}: {detail}", fields=problems
        )
