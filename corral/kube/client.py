"""`KubeClient`: everything one can ask of a Kubernetes API server, as async methods on plain dicts.

Errors are the typed ones of `corral.kube.errors`; `KubeConnectionError` when there was no answer,
`ConfigError` when a credential or certificate of the configuration cannot be had.
For a namespaced kind, methods that name an object use the namespace given, else that of the object,
else the one of the configuration; methods that list or watch take ``None`` for all namespaces.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self

import orjson

from corral.kube.connection.config import ClusterConfig
from corral.kube.connection.kubeconfig import load_config
from corral.kube.connection.transport import ClientSettings, KubeConnectionError, Query, Transport
from corral.kube.discovery import Discovery, UnknownKind, fetch_discovery
from corral.kube.listing import ListRequest, iterate, list_all
from corral.kube.podstreams.operations import PodMethods
from corral.kube.resources import BUILTIN, Resource
from corral.kube.types import Obj
from corral.kube.watch import ResumingWatch, WatchEvent, WatchRequest, watch_events

__all__ = ["KubeClient", "KubeConnectionError", "PatchKind", "Propagation"]

PatchKind = Literal["json", "merge", "strategic", "apply"]
Propagation = Literal["Background", "Foreground", "Orphan"]

_PATCH_TYPES: dict[str, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_BUILTIN_KINDS = {(r.api_version, r.kind): r for r in BUILTIN.values()}


class KubeClient(PodMethods):
    """A client of one API server; use as an async context manager."""

    def __init__(
        self,
        config: ClusterConfig,
        *,
        settings: ClientSettings | None = None,
        on_warning: Callable[[str], None] | None = None,
        on_answer: Callable[[str, str], None] | None = None,
    ) -> None:
        """Make a client; ``on_answer`` is described at `Transport`."""
        self.transport = Transport(
            config, settings=settings, on_warning=on_warning, on_answer=on_answer
        )
        self._discovery: Discovery | None = None
        self._discovering = asyncio.Lock()

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | None = None,
        context: str | None = None,
        *,
        settings: ClientSettings | None = None,
        on_warning: Callable[[str], None] | None = None,
    ) -> KubeClient:
        """A client for the cluster that `load_config` finds."""
        return cls(load_config(path, context), settings=settings, on_warning=on_warning)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections; watches in progress end with `KubeConnectionError`."""
        await self.transport.close()

    @property
    def config(self) -> ClusterConfig:
        return self.transport.config

    # --- reading -------------------------------------------------------------------------------

    async def get(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        subresource: str = "",
        resource_version: str | None = None,
    ) -> Obj:
        """One object, or a subresource of it (``status``, ``scale``)."""
        path = self._path(resource, name, namespace=namespace, subresource=subresource)
        query = [] if resource_version is None else [("resourceVersion", resource_version)]
        return _object(await self.transport.request("GET", path, query=query))

    def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        page_size: int = 500,
    ) -> AsyncGenerator[Obj, None]:
        """Iterate over objects, fetched page by page; see `corral.kube.listing.iterate`."""
        request = ListRequest(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            page_size=page_size,
        )
        return iterate(self.transport, request)

    async def list_all(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        resource_version: str | None = None,
        resource_version_match: str = "",
        page_size: int = 500,
    ) -> Obj:
        """The whole list of one version; ``metadata.resourceVersion`` is where a watch begins."""
        request = ListRequest(
            resource,
            namespace,
            label_selector=label_selector,
            field_selector=field_selector,
            resource_version=resource_version,
            resource_version_match=resource_version_match,
            page_size=page_size,
        )
        return await list_all(self.transport, request)

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = True,
        timeout_seconds: int | None = None,
        send_initial_events: bool = False,
        idle_timeout: float | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """The events of one watch request; see `corral.kube.watch.watch_events`.

        Leave it early only through ``contextlib.aclosing``, which closes the connection at once.
        """
        request = WatchRequest(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            bookmarks=bookmarks,
            timeout_seconds=timeout_seconds,
            send_initial_events=send_initial_events,
            idle_timeout=idle_timeout,
        )
        return watch_events(self.transport, request)

    def resuming_watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
        send_initial_events: bool = False,
        idle_timeout: float | None = None,
    ) -> ResumingWatch:
        """A watch that reconnects where it was; see `corral.kube.watch.ResumingWatch`."""
        request = WatchRequest(
            resource,
            namespace,
            resource_version=resource_version,
            label_selector=label_selector,
            field_selector=field_selector,
            timeout_seconds=timeout_seconds,
            send_initial_events=send_initial_events,
            idle_timeout=idle_timeout,
        )
        return ResumingWatch(self.transport, request)

    # --- writing -------------------------------------------------------------------------------

    async def create(
        self,
        resource: Resource,
        obj: Obj,
        *,
        namespace: str | None = None,
        field_manager: str = "",
        field_validation: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Create an object; ``metadata.generateName`` works too."""
        path = resource.path(self._namespace_of(resource, obj, namespace))
        query = _write_query(field_manager, field_validation, dry_run=dry_run)
        body = orjson.dumps(resource.stamp(obj))
        return _object(await self.transport.request("POST", path, query=query, body=body))

    async def create_subresource(
        self,
        resource: Resource,
        name: str,
        *,
        subresource: str,
        body: Obj,
        namespace: str | None = None,
        field_manager: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """POST to ``token``, ``eviction``, ``binding``, …; the answer may be a ``Status``."""
        path = self._path(resource, name, namespace=namespace, subresource=subresource)
        query = _write_query(field_manager, "", dry_run=dry_run)
        content = await self.transport.request("POST", path, query=query, body=orjson.dumps(body))
        return _object(content)

    async def replace(
        self,
        resource: Resource,
        obj: Obj,
        *,
        namespace: str | None = None,
        subresource: str = "",
        field_manager: str = "",
        field_validation: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Write a whole object (or its ``status`` or ``scale``).

        Raises:
            Conflict: ``metadata.resourceVersion`` is set and not the latest.
        """
        path = self._path(
            resource,
            _name_of(obj),
            namespace=self._namespace_of(resource, obj, namespace),
            subresource=subresource,
        )
        query = _write_query(field_manager, field_validation, dry_run=dry_run)
        # A Scale has a type of its own, which the subresource knows best.
        body = orjson.dumps(obj if subresource else resource.stamp(obj))
        return _object(await self.transport.request("PUT", path, query=query, body=body))

    async def patch(
        self,
        resource: Resource,
        name: str,
        *,
        patch: Obj | Sequence[Mapping[str, Any]],
        kind: PatchKind = "merge",
        namespace: str | None = None,
        subresource: str = "",
        field_manager: str = "",
        field_validation: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> Obj:
        """Change an object: ``patch`` is a list of operations for ``json``, else a partial object.

        ``kind="apply"`` needs ``field_manager``; ``force`` is for it alone and takes fields over
        from other managers.
        """
        path = self._path(resource, name, namespace=namespace, subresource=subresource)
        query = _write_query(field_manager, field_validation, dry_run=dry_run)
        if force:
            query.append(("force", "true"))
        content = await self.transport.request(
            "PATCH", path, query=query, body=orjson.dumps(patch), content_type=_PATCH_TYPES[kind]
        )
        return _object(content)

    async def apply(
        self,
        resource: Resource,
        obj: Obj,
        *,
        field_manager: str,
        force: bool = True,
        namespace: str | None = None,
        subresource: str = "",
        field_validation: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Server-side apply: create the object or make it have exactly these fields of ours.

        Raises:
            Conflict: another manager owns a field with another value and ``force`` is off.
        """
        return await self.patch(
            resource,
            _name_of(obj),
            patch=resource.stamp(obj),
            kind="apply",
            namespace=self._namespace_of(resource, obj, namespace),
            subresource=subresource,
            field_manager=field_manager,
            field_validation=field_validation,
            force=force,
            dry_run=dry_run,
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str | None = None,
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        uid: str = "",
        resource_version: str = "",
        dry_run: bool = False,
    ) -> Obj:
        """Delete an object; gives a ``Status``, or the object where it still has to finish.

        Raises:
            Conflict: the object is another one than ``uid`` and ``resource_version`` say.
        """
        options = _delete_options(
            propagation, grace_seconds, uid=uid, resource_version=resource_version, dry_run=dry_run
        )
        path = self._path(resource, name, namespace=namespace)
        return _object(await self.transport.request("DELETE", path, body=options))

    async def delete_collection(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        propagation: Propagation | None = None,
        grace_seconds: int | None = None,
        dry_run: bool = False,
    ) -> Obj:
        """Delete all objects of a namespace (or all cluster-scoped ones) that the selectors match.

        Raises:
            ValueError: the kind is namespaced and no namespace was given.
        """
        if resource.namespaced and not namespace:
            raise ValueError(f"deleting a collection of {resource.qualified} needs a namespace")
        options = _delete_options(propagation, grace_seconds, dry_run=dry_run)
        selectors = (("labelSelector", label_selector), ("fieldSelector", field_selector))
        content = await self.transport.request(
            "DELETE",
            resource.path(namespace),
            query=[(key, value) for key, value in selectors if value],
            body=options,
        )
        return _object(content)

    # --- the server itself ---------------------------------------------------------------------

    async def discover(self, *, refresh: bool = False) -> Discovery:
        """What the server serves; asked once, then remembered."""
        if self._discovery is not None and not refresh:
            return self._discovery
        async with self._discovering:
            if self._discovery is None or refresh:
                self._discovery = await fetch_discovery(self.transport)
            return self._discovery

    async def resource_for(self, api_version: str, kind: str) -> Resource:
        """The resource of objects of this type; asks the server again before it gives up.

        Raises:
            UnknownKind: the server has no such kind.
        """
        builtin = _BUILTIN_KINDS.get((api_version, kind))
        if builtin is not None:
            return builtin
        had = self._discovery is not None
        try:
            return (await self.discover()).for_kind(api_version, kind)
        except UnknownKind:
            if not had:
                raise
            return (await self.discover(refresh=True)).for_kind(api_version, kind)

    async def version(self) -> Obj:
        return _object(await self.transport.request("GET", "/version"))

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Query = (),
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> bytes:
        """Any request, its answer as bytes; ``body`` is sent as JSON unless it is bytes too."""
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        return await self.transport.request(
            method, path, query=query, body=data, content_type=content_type, accept=accept
        )

    def _path(
        self, resource: Resource, name: str, *, namespace: str | None, subresource: str = ""
    ) -> str:
        where = namespace or self.namespace if resource.namespaced else None
        return resource.path(where, name=name, subresource=subresource)

    def _namespace_of(self, resource: Resource, obj: Obj, namespace: str | None) -> str | None:
        if not resource.namespaced:
            return None
        own: str | None = obj.get("metadata", {}).get("namespace")
        return namespace or own or self.namespace


def _object(content: bytes) -> Obj:
    try:
        value = orjson.loads(content)
    except orjson.JSONDecodeError as e:
        raise KubeConnectionError(f"the server answered with no JSON: {content[:200]!r}") from e
    if not isinstance(value, dict):
        raise KubeConnectionError(f"the server answered with no object: {content[:200]!r}")
    return value


def _name_of(obj: Obj) -> str:
    name = obj.get("metadata", {}).get("name")
    if not name:
        raise ValueError("the object has no metadata.name")
    return str(name)


def _write_query(
    field_manager: str, field_validation: str, *, dry_run: bool
) -> list[tuple[str, str]]:
    query = []
    if field_manager:
        query.append(("fieldManager", field_manager))
    if field_validation:
        query.append(("fieldValidation", field_validation))
    if dry_run:
        query.append(("dryRun", "All"))
    return query


def _delete_options(
    propagation: str | None,
    grace_seconds: int | None,
    *,
    uid: str = "",
    resource_version: str = "",
    dry_run: bool,
) -> bytes | None:
    options: Obj = {}
    if propagation:
        options["propagationPolicy"] = propagation
    if grace_seconds is not None:
        options["gracePeriodSeconds"] = grace_seconds
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    preconditions = {key: value for key, value in preconditions.items() if value}
    if preconditions:
        options["preconditions"] = preconditions
    if dry_run:
        options["dryRun"] = ["All"]
    if not options:
        return None
    return orjson.dumps({"kind": "DeleteOptions", "apiVersion": "v1", **options})
