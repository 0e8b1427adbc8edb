"""Custom kinds whose versions differ: a webhook of the definition converts between them.

Rendering is synchronous, calling a webhook is not: what will be rendered is converted beforehand
(``prefetch``) and found again by key and revision.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Sequence

import orjson

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.webhooks.client import CallError, WebhookClient, endpoint_of
from corral.cluster.apiserver.crd.structural import CompiledVersion
from corral.cluster.apiserver.customs import CustomKind
from corral.cluster.apiserver.resources import ResourceInfo
from corral.cluster.apiserver.store import Entry, Event
from corral.kube import errors
from corral.kube.types import Obj

SECONDS = 30
"""How long a conversion may take."""
BATCH = 500
"""Objects in one review."""
KEPT = 4096
"""Converted objects that are remembered."""


class Converter:
    """Asks the conversion webhook of one definition."""

    def __init__(self, client: WebhookClient, crd: Obj) -> None:
        webhook = crd["spec"]["conversion"]["webhook"]
        self._client = client
        self._endpoint = endpoint_of(webhook["clientConfig"])
        self._kind = crd["spec"]["names"]["kind"]

    async def convert(self, objects: Sequence[Obj], version: str) -> list[Obj]:
        """The objects in another version, in order. Raises InternalError."""
        out: list[Obj] = []
        for start in range(0, len(objects), BATCH):
            out += await self._review(objects[start : start + BATCH], version)
        return out

    async def _review(self, objects: Sequence[Obj], version: str) -> list[Obj]:
        uid = str(uuid.uuid4())
        request = {"uid": uid, "desiredAPIVersion": version, "objects": list(objects)}
        review = {
            "kind": "ConversionReview",
            "apiVersion": "apiextensions.k8s.io/v1",
            "request": request,
        }
        try:
            raw = await self._client.post(self._endpoint, orjson.dumps(review), seconds=SECONDS)
            answer = orjson.loads(raw).get("response") or {}
        except (CallError, orjson.JSONDecodeError) as err:
            raise self._failed(objects[0], str(err)) from err
        if answer.get("uid") != uid:
            raise self._failed(objects[0], f"expected response.uid={uid}, got {answer.get('uid')}")
        result = answer.get("result") or {}
        if result.get("status") != "Success":
            raise self._failed(objects[0], result.get("message") or "the webhook gave no reason")
        converted = answer.get("convertedObjects") or []
        self._check(objects, converted, version)
        return converted

    def _check(self, objects: Sequence[Obj], converted: Sequence[Obj], version: str) -> None:
        if len(converted) != len(objects):
            why = f"returned {len(converted)} objects, expected {len(objects)}"
            raise self._failed(objects[0], why)
        for before, after in zip(objects, converted, strict=True):
            meta, kept = after.get("metadata") or {}, before["metadata"]
            if after.get("apiVersion") != version or after.get("kind") != self._kind:
                raise self._failed(before, f"returned invalid object: not a {version}")
            for field in ("name", "namespace", "uid"):
                if meta.get(field) != kept.get(field):
                    raise self._failed(before, f"must not change metadata.{field}")
            # Only labels and annotations of the metadata are the webhook's to change.
            after["metadata"] = {**kept}
            for field in ("labels", "annotations"):
                if meta.get(field):
                    after["metadata"][field] = meta[field]
                else:
                    after["metadata"].pop(field, None)

    def _failed(self, obj: Obj, why: str) -> errors.InternalError:
        group, _, version = obj["apiVersion"].rpartition("/")
        return say.internal(
            f"conversion webhook for {group}/{version}, Kind={self._kind} failed: {why}"
        )


class ConvertedKind(CustomKind):
    """A custom kind that may be stored in a version of another shape."""

    def __init__(
        self,
        info: ResourceInfo,
        version: CompiledVersion,
        storage_version: str,
        converter: Converter,
    ) -> None:
        super().__init__(info, version, storage_version)
        self._converter = converter
        self._known: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    async def prefetch(self, entries: Sequence[Entry]) -> None:
        wanted = [e for e in entries if (e.key, e.rv) not in self._known]
        objects = [(e, obj) for e in wanted if self._foreign(obj := e.decode())]
        if not objects:
            return
        converted = await self._converter.convert(
            [obj for _, obj in objects], self.info.api_version
        )
        for (entry, _), obj in zip(objects, converted, strict=True):
            self._known[entry.key, entry.rv] = orjson.dumps(obj)
        while len(self._known) > max(KEPT, len(entries)):
            self._known.popitem(last=False)

    async def prefetch_events(self, events: Sequence[Event]) -> None:
        await self.prefetch([event.entry for event in events])

    def from_storage(self, obj: Obj) -> Obj:
        if self._foreign(obj):
            meta = obj["metadata"]
            key = f"{meta['namespace']}/{meta['name']}" if self.info.namespaced else meta["name"]
            known = self._known.get((key, int(meta["resourceVersion"])))
            if known is None:
                raise say.internal(f"{key} was not converted to {self.info.api_version}")
            obj = orjson.loads(known)
        return super().from_storage(obj)

    async def served(self, obj: Obj) -> Obj:
        if self._foreign(obj):
            obj = (await self._converter.convert([obj], self.info.api_version))[0]
        return super().from_storage(obj)

    async def stored(self, obj: Obj) -> Obj:
        if self.storage_version == self.info.api_version:
            return obj
        converted = (await self._converter.convert([obj], self.storage_version))[0]
        # One dict of metadata: the revision that the store writes into it is the answer's too.
        obj["metadata"] |= converted["metadata"]
        return {**converted, "metadata": obj["metadata"]}

    def _foreign(self, obj: Obj) -> bool:
        return bool(obj.get("apiVersion") != self.info.api_version)
