"""Sets of fields in their JSON shape, the entries that carry them, and schemas."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson
import pytest

from corral.cluster.apiserver.apply import (
    builtin_schema,
    crd_schema,
    keep_times,
    track_update,
)
from corral.cluster.apiserver.apply.fields import (
    has_path,
    in_order,
    intersect,
    paths,
    show_path,
    subtract,
    union,
    without_path,
)
from corral.cluster.apiserver.apply.managers import capped, decode, is_reset
from corral.cluster.apiserver.schema import definitions
from corral.kube.types import Obj

M: Obj = {}


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("apart", {"f:a": M}, {"f:b": M}, {"f:a": M, "f:b": M}),
        ("member and below", {"f:a": M}, {"f:a": {"f:b": M}}, {"f:a": {".": M, "f:b": M}}),
        ("below and member", {"f:a": {"f:b": M}}, {"f:a": M}, {"f:a": {".": M, "f:b": M}}),
        ("below both", {"f:a": {"f:b": M}}, {"f:a": {"f:c": M}}, {"f:a": {"f:b": M, "f:c": M}}),
        ("with nothing", {"f:a": M}, {}, {"f:a": M}),
    ],
)
def test_union(name: str, a: Obj, b: Obj, expected: Obj) -> None:
    assert union(a, b) == expected


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("member", {"f:a": M, "f:b": M}, {"f:a": M}, {"f:b": M}),
        ("everything", {"f:a": M}, {"f:a": M}, {}),
        ("parent keeps without child", {"f:a": M}, {"f:a": {"f:b": M}}, {"f:a": M}),
        ("child stays without parent", {"f:a": {"f:b": M}}, {"f:a": M}, {"f:a": {"f:b": M}}),
        ("only the parent", {"f:a": {".": M, "f:b": M}}, {"f:a": M}, {"f:a": {"f:b": M}}),
        ("only the child", {"f:a": {".": M, "f:b": M}}, {"f:a": {"f:b": M}}, {"f:a": M}),
        ("both", {"f:a": {".": M, "f:b": M}}, {"f:a": {".": M, "f:b": M}}, {}),
    ],
)
def test_subtract(name: str, a: Obj, b: Obj, expected: Obj) -> None:
    before = orjson.dumps(a)
    assert subtract(a, b) == expected
    assert orjson.dumps(a) == before


def test_subtract_returns_its_input_where_nothing_changes() -> None:
    a = {"f:a": {"f:b": M}}
    assert subtract(a, {"f:x": M}) is a
    assert union(a, {"f:a": {"f:b": M}}) is a


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("member", {"f:a": M, "f:b": M}, {"f:a": M}, {"f:a": M}),
        ("parent and child", {"f:a": M}, {"f:a": {"f:b": M}}, {}),
        ("parent of both", {"f:a": {".": M, "f:b": M}}, {"f:a": {".": M, "f:c": M}}, {"f:a": M}),
        ("child", {"f:a": {".": M, "f:b": M}}, {"f:a": {"f:b": M}}, {"f:a": {"f:b": M}}),
    ],
)
def test_intersect(name: str, a: Obj, b: Obj, expected: Obj) -> None:
    assert intersect(a, b) == expected
    assert intersect(b, a) == expected


def test_without_path_takes_what_is_below() -> None:
    fields = {"f:metadata": {"f:labels": {".": M, "f:a": M}}, "f:status": {"f:x": M}}
    assert without_path(fields, ("status",)) == {"f:metadata": {"f:labels": {".": M, "f:a": M}}}
    assert without_path(fields, ("metadata", "labels")) == {"f:status": {"f:x": M}}
    assert without_path(fields, ("spec",)) is fields


def test_paths_come_level_by_level_and_sorted() -> None:
    fields = {
        "f:b": M,
        "f:a": {'k:{"port":443}': {".": M, "f:x": M}, 'k:{"port":80}': M, 'v:"s"': M},
    }
    assert [show_path(p) for p in paths(fields)] == [
        ".b",
        ".a[port=80]",
        ".a[port=443]",
        '.a[="s"]',
        ".a[port=443].x",
    ]
    assert list(in_order(fields)["f:a"]) == ['k:{"port":80}', 'k:{"port":443}', 'v:"s"']


def test_has_path_needs_the_member_itself() -> None:
    fields = {"f:spec": {"f:replicas": M, "f:template": {"f:x": M}}}
    assert has_path(fields, ("spec", "replicas"))
    assert not has_path(fields, ("spec", "template"))
    assert not has_path(fields, ("spec", "paused"))


def entry(**changes: Any) -> Obj:
    base = {
        "manager": "m",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:a": {}}},
    }
    return {**base, **changes}


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("no list", {"manager": "m"}),
        ("no operation", [entry(operation="")]),
        ("unknown operation", [entry(operation="Create")]),
        ("no version", [entry(apiVersion="")]),
        ("no type", [entry(fieldsType="")]),
        ("other type", [entry(fieldsType="FieldsV2")]),
        ("element without colon", [entry(fieldsV1={"data": {}})]),
        ("element with bad key", [entry(fieldsV1={"k:{": {}})]),
        ("element with bad index", [entry(fieldsV1={"i:x": {}})]),
        ("set that is no object", [entry(fieldsV1={"f:a": 1})]),
        ("time without zone", [entry(time="2026-01-01T00:00:00")]),
        ("no time at all", [entry(time="soon")]),
    ],
)
def test_malformed_entries_are_refused(name: str, sent: Any) -> None:
    assert decode(sent) is None


def test_entries_a_client_sends_are_normalised() -> None:
    sent = [
        entry(),
        entry(time="2026-01-01T02:00:00+02:00", fieldsV1={"f:b": {".": {}}, "z:future": {}}),
    ]
    assert decode(sent) == [entry(time="2026-01-01T00:00:00Z", fieldsV1={"f:b": {}})]


def test_reset_is_an_empty_list_or_one_empty_entry() -> None:
    assert is_reset([])
    assert is_reset([{}])
    assert not is_reset(None)
    assert not is_reset([entry()])


def test_cap_merges_the_oldest_of_each_version() -> None:
    entries = [
        entry(
            manager=f"m{i:02}",
            apiVersion="v1" if i % 2 else "v2",
            time=f"2026-01-01T00:00:{i:02}Z",
            fieldsV1={f"f:{i}": {}},
        )
        for i in range(12)
    ]
    entries.append(entry(manager="applier", operation="Apply"))
    out = {(e["manager"], e["apiVersion"]): e for e in capped(entries)}
    assert len(out) == 11
    assert out["ancient-changes", "v2"]["fieldsV1"] == {"f:0": {}, "f:2": {}}
    assert out["ancient-changes", "v2"]["time"] == "2026-01-01T00:00:02Z"
    assert out["ancient-changes", "v1"]["fieldsV1"] == {"f:1": {}, "f:3": {}}
    assert ("m04", "v2") in out


class TestKeepTimes:
    live: ClassVar[Obj] = {
        "metadata": {"name": "a", "managedFields": [entry(time="1")]},
        "data": {"a": "1"},
    }

    def written(self, **changes: Any) -> Obj:
        metadata = {"name": "a", "managedFields": [entry(time="2")]}
        return {"metadata": metadata, "data": {"a": "1"}, **changes}

    def test_same_object_keeps_its_times(self) -> None:
        new = self.written()
        keep_times(self.live, new)
        assert new == self.live

    def test_another_object_does_not(self) -> None:
        new = self.written(data={"a": "2"})
        keep_times(self.live, new)
        assert new["metadata"]["managedFields"][0]["time"] == "2"

    def test_other_ownership_does_not(self) -> None:
        new = self.written()
        new["metadata"]["managedFields"][0]["fieldsV1"] = {"f:data": {}}
        keep_times(self.live, new)
        assert new["metadata"]["managedFields"][0]["time"] == "2"


def test_unchanged_entries_stay_the_same_objects() -> None:
    schema = builtin_schema("io.k8s.api.core.v1.ConfigMap")
    keep, lose = entry(manager="keep"), entry(manager="lose", fieldsV1={"f:data": {"f:b": {}}})
    live = {"metadata": {"name": "x", "managedFields": [keep, lose]}, "data": {"a": "1", "b": "1"}}
    new = {"metadata": {"name": "x"}, "data": {"a": "1", "b": "2"}}
    asked: Any = {"manager": "m", "api_version": "v1", "now": "2026-01-01T00:00:00Z"}
    track_update(schema, live=live, new=new, **asked)
    after: list[Obj] = new["metadata"]["managedFields"]  # type: ignore[assignment]
    assert [e["manager"] for e in after] == ["keep", "m"]
    assert after[0] is keep


def test_an_untypable_object_keeps_the_ownership_it_had() -> None:
    schema = builtin_schema("io.k8s.api.core.v1.Pod")
    live = {"metadata": {"name": "x", "managedFields": [entry()]}, "spec": {"containers": []}}
    new: Obj = {"metadata": {"name": "x"}, "spec": {"containers": [5]}}
    track_update(schema, live=live, new=new, manager="m", api_version="v1", now="n")
    assert new["metadata"]["managedFields"] == [entry()]


def test_every_builtin_kind_compiles() -> None:
    kinds = [n for n, d in definitions().items() if d.get("x-kubernetes-group-version-kind")]
    assert len(kinds) > 100
    for name in kinds:
        assert builtin_schema(name).root.fields


def test_path_elements_are_escaped_as_go_does() -> None:
    spec = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
    schema = crd_schema({"type": "object", "properties": {"s": spec}}, preserve_unknown=False)
    new: Obj = {"metadata": {"name": "x"}, "s": ["a<b&c>d", "é"]}
    track_update(schema, live=None, new=new, manager="m", api_version="v1", now="n")
    assert set(new["metadata"]["managedFields"][0]["fieldsV1"]["f:s"]) == {
        ".",
        'v:"a\\u003cb\\u0026c\\u003ed"',
        'v:"é"',
    }
