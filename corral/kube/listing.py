"""Lists in pages, whole or object by object, with the restart that an expired page needs."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass

import orjson

from corral.kube.connection.transport import Transport
from corral.kube.errors import Gone
from corral.kube.resources import Resource
from corral.kube.types import Obj

__all__ = ["ListRequest", "iterate", "list_all"]


@dataclass(frozen=True, slots=True)
class ListRequest:
    """What one list request asks for."""

    resource: Resource
    namespace: str | None = None
    """None lists the objects of all namespaces."""
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str | None = None
    """``None`` = latest, ``"0"`` = whatever the server has at hand, else not older than that."""
    resource_version_match: str = ""
    page_size: int = 500
    """Objects per request; 0 asks for all at once."""
    accept: str = "application/json"

    def query(self, token: str, limit: int) -> list[tuple[str, str]]:
        values = {"labelSelector": self.label_selector, "fieldSelector": self.field_selector}
        if limit:
            values["limit"] = str(limit)
        if token:
            # The token carries the version; naming one beside it is an error.
            values["continue"] = token
        elif self.resource_version is not None:
            values["resourceVersion"] = self.resource_version
            values["resourceVersionMatch"] = self.resource_version_match
        return [(key, value) for key, value in values.items() if value]


async def fetch_page(
    transport: Transport, request: ListRequest, *, token: str = "", limit: int | None = None
) -> Obj:
    """One page, as the ``…List`` object; its items carry ``apiVersion`` and ``kind``."""
    size = request.page_size if limit is None else limit
    content = await transport.request(
        "GET",
        request.resource.path(request.namespace),
        query=request.query(token, size),
        accept=request.accept,
    )
    page: Obj = orjson.loads(content)
    page["items"] = items = page.get("items") or []
    # Servers leave the type out of the items of a built-in list; watch events have it.
    kind, api_version = request.resource.kind, request.resource.api_version
    for item in items:
        if "kind" not in item:
            item["kind"], item["apiVersion"] = kind, api_version
    return page


async def list_all(transport: Transport, request: ListRequest) -> Obj:
    """The whole list at one resource version, fetched in pages.

    When the version expires between two pages, everything is fetched again in one request.
    """
    first = page = await fetch_page(transport, request)
    items = first["items"]
    while token := page.get("metadata", {}).get("continue"):
        try:
            page = await fetch_page(transport, request, token=token)
        except Gone:
            return await fetch_page(transport, request, limit=0)
        items += page["items"]
    metadata = first.setdefault("metadata", {})
    metadata.pop("continue", None)
    metadata.pop("remainingItemCount", None)
    return first


async def iterate(transport: Transport, request: ListRequest) -> AsyncGenerator[Obj, None]:
    """Object by object, holding one page at a time.

    All come from one version unless it expires on the way; then the rest comes from a newer one,
    and no object is yielded twice.
    """
    uids: set[str] = set()
    token = ""
    while True:
        try:
            page = await fetch_page(transport, request, token=token)
        except Gone:
            if not token:
                raise
            page = await fetch_page(transport, request, limit=0)
        token = page.get("metadata", {}).get("continue") or ""
        for item in page["items"]:
            uid = item.get("metadata", {}).get("uid", "")
            if uid and uid in uids:
                continue
            if token or uids:
                uids.add(uid)
            yield item
        if not token:
            return
