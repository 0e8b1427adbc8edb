"""Stories: an object is created, changed in every way a client can, and deleted."""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import urlencode

from hypothesis import strategies as st

from tests.cluster.compare.kinds import Sample
from tests.cluster.compare.pair import Request
from tests.cluster.compare.patches import (
    json_patches,
    merge_patches,
    pruned,
    strategic_patches,
    without_empties,
)
from tests.cluster.compare.values import fields, rarely, small

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
MANAGERS = ("one", "two", "three")


@st.composite
def queries(draw: st.DrawFn, *, apply: bool = False) -> str:
    """Query options of a write."""
    query: dict[str, str] = {}
    if apply or draw(st.booleans()):
        query["fieldManager"] = draw(st.sampled_from(MANAGERS))
    if apply and draw(st.integers(0, 2)) == 0:
        query["force"] = draw(st.sampled_from(["true", "true", "false"]))
    if draw(st.integers(0, 3)) == 0:
        query["fieldValidation"] = draw(st.sampled_from(["Strict", "Warn", "Ignore"]))
    if draw(st.integers(0, 9)) == 0:
        query["dryRun"] = "All"
    return "?" + urlencode(query) if query else ""


@st.composite
def stories(draw: st.DrawFn, sample: Sample, name: str, *, steps: int = 5) -> list[Request]:
    """A sequence of requests about one object."""
    return Story(draw, sample, name).requests(steps)


class Story:
    """Draws the requests one after the other; ``obj`` is about what the object looks like."""

    def __init__(self, draw: st.DrawFn, sample: Sample, name: str) -> None:
        self._draw = draw
        self._sample = sample
        self._name = name
        self._about = f"{sample.plural}/{name}"
        self._one = f"{sample.collection}/{name}"
        self._obj: Any = self._object()

    def requests(self, steps: int) -> list[Request]:
        sample, draw = self._sample, self._draw
        ways = [self._put, self._json, self._merge, self._apply, self._apply]
        if sample.strategic:
            ways += [self._strategic, self._strategic]
        if sample.status is not None:
            ways += [self._status, self._status]
        if sample.scale:
            ways.append(self._scale)
        made = [draw(st.sampled_from([self._create, self._create, self._apply]))()]
        if sample.alone:
            return made
        # Whatever became of the first, there is an object now (or the same refusal on both sides).
        made.append(self._request("POST", sample.collection, sample.minimal(self._name)))
        made += [draw(st.sampled_from(ways))() for _ in range(steps)]
        made.append(Request("GET", self._one, about=self._about))
        made.append(self._delete())
        return made

    def _object(self) -> Any:
        obj = self._draw(self._sample.objects(self._name))
        return obj if self._sample.empties else without_empties(obj)

    def _next(self) -> tuple[Any, Any]:
        old = self._obj
        self._obj = self._object()
        return old, copy.deepcopy(self._obj)

    def _request(self, method: str, path: str, body: Any, **how: Any) -> Request:
        return Request(method, path, body, about=self._about, **how)

    def _create(self) -> Request:
        query = self._draw(queries()).replace("dryRun=All", "")
        body = copy.deepcopy(self._obj)
        odd = self._draw(st.integers(0, 40))
        if odd == 0:
            body["metadata"]["namespace"] = "other"
        elif odd == 1:
            body["extra"] = {"unknown": 1}
        elif odd == 2:
            body["metadata"]["resourceVersion"] = "5"
        elif odd == 3:
            body["metadata"]["nosuch"] = True
        elif odd == 4:
            body["status"] = {"replicas": 1, "phase": "Odd"}
        return self._request("POST", self._sample.collection + query, body)

    def _put(self) -> Request:
        _, new = self._next()
        meta = new["metadata"]
        version = self._draw(st.sampled_from(["", "$RV", "$RV", "1"]))
        if version:
            meta["resourceVersion"] = version
        if self._draw(st.integers(0, 4)) == 0:
            meta["uid"] = self._draw(st.sampled_from(["$UID", "$UID", "no-such-uid"]))
        return self._request("PUT", self._one + self._draw(queries()), new)

    def _json(self) -> Request:
        return self._patch(json_patches, JSON_PATCH)

    def _merge(self) -> Request:
        return self._patch(merge_patches, MERGE)

    def _strategic(self) -> Request:
        return self._patch(strategic_patches, STRATEGIC)

    def _patch(self, make: Any, content_type: str) -> Request:
        body = self._draw(make(*self._next()))
        if not self._sample.empties:
            body = without_empties(body)
        path = self._one + self._draw(queries())
        return self._request("PATCH", path, body, content_type=content_type)

    def _apply(self) -> Request:
        _, new = self._next()
        body = self._draw(pruned(new))
        if not self._sample.empties:
            body = without_empties(body)
        if isinstance(body.get("spec"), dict):
            # The reference stops at an unknown field, which it meets in the order of Go's maps.
            body["spec"].pop("unknown", None)
        odd = self._draw(st.integers(0, 30))
        if odd == 0:
            del body["apiVersion"]
        elif odd == 1:
            body["metadata"].pop("name")
        elif odd == 2:
            body["metadata"]["managedFields"] = [{"manager": "x", "operation": "Apply"}]
        elif odd == 3:
            body["nosuch"] = {"x": 1}
        elif odd == 4:
            body["metadata"]["resourceVersion"] = "$RV"
        query = self._draw(queries(apply=True))
        return self._request("PATCH", self._one + query, body, content_type=APPLY)

    def _status(self) -> Request:
        assert self._sample.status is not None
        status = self._draw(self._sample.status)
        path = f"{self._one}/status"
        way = self._draw(st.sampled_from(["put", "merge", "apply", "json"]))
        old, _ = self._obj, None
        identity = {k: old[k] for k in ("apiVersion", "kind")}
        if way == "put":
            body = {**copy.deepcopy(old), "status": status}
            return self._request("PUT", path + self._draw(queries()), body)
        if way == "merge":
            body = {"status": status, "metadata": {"labels": {"app": "fromstatus"}}}
            query = self._draw(queries())
            return self._request("PATCH", path + query, body, content_type=MERGE)
        if way == "json":
            operations = [{"op": "add", "path": "/status", "value": status}]
            query = self._draw(queries())
            return self._request("PATCH", path + query, operations, content_type=JSON_PATCH)
        body = {**identity, "metadata": {"name": self._name}, "status": status}
        query = self._draw(queries(apply=True))
        return self._request("PATCH", path + query, body, content_type=APPLY)

    def _scale(self) -> Request:
        path = f"{self._one}/scale"
        # Of custom kinds kube-apiserver refuses other types in the words of its type registry.
        odd = [-1, "3", 1.5, None] if self._sample.strategic else [-1, None]
        replicas = self._draw(rarely(small, st.sampled_from(odd), 6))
        way = self._draw(st.sampled_from(["get", "put", "merge", "json"]))
        if way == "get" and self._sample.strategic:
            # Of custom kinds kube-apiserver cannot apply a Scale (it answers 500).
            way = self._draw(st.sampled_from(["get", "apply"]))
        meta = {"name": self._name, "namespace": self._sample.namespace}
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": meta,
            "spec": {"replicas": replicas},
        }
        if way == "get":
            return Request("GET", path, about=self._about)
        if way == "put":
            if self._draw(st.booleans()):
                meta["resourceVersion"] = self._draw(st.sampled_from(["$RV", "1"]))
            return self._request("PUT", path + self._draw(queries()), body)
        if way == "merge":
            patch = {"spec": {"replicas": replicas}}
            query = self._draw(queries())
            return self._request("PATCH", path + query, patch, content_type=MERGE)
        if way == "json":
            operations = [{"op": "replace", "path": "/spec/replicas", "value": replicas}]
            return self._request("PATCH", path, operations, content_type=JSON_PATCH)
        query = self._draw(queries(apply=True))
        return self._request("PATCH", path + query, body, content_type=APPLY)

    def _delete(self) -> Request:
        """Last: ours has a garbage collector that would act on the finalizers it sets."""
        options = self._draw(
            fields(
                propagationPolicy=rarely(
                    st.sampled_from(["Background", "Foreground", "Orphan"]), st.just("Odd"), 10
                ),
                gracePeriodSeconds=small,
                preconditions=rarely(
                    fields(uid=st.just("$UID"), resourceVersion=st.just("$RV")),
                    st.sampled_from([{"uid": "x"}, {"resourceVersion": "1"}]),
                    6,
                ),
                dryRun=rarely(st.just(["All"]), st.just(["Some"]), 6),
            )
        )
        body = self._draw(st.sampled_from([None, {"kind": "DeleteOptions", "apiVersion": "v1"}]))
        if body is not None:
            body = {**body, **options}
        return self._request("DELETE", self._one, body)
