"""Sequences of applies and updates by several managers: the object and who owns what at the end."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.apiserver.apply import apply, crd_schema, track_update
from corral.cluster.apiserver.apply.fields import paths, show_path
from corral.kube.errors import ApiError, Conflict
from corral.kube.types import Obj

_STRINGS: Obj = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}
_ITEM: Obj = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "value": {"type": "integer"}, "tags": _STRINGS},
}
_SPEC: Obj = {
    "type": "object",
    "properties": {
        "number": {"type": "integer"},
        "text": {"type": "string"},
        "flag": {"type": "boolean"},
        "set": _STRINGS,
        "atomic": {"type": "array", "items": {"type": "string"}},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": _ITEM,
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port", "protocol"],
            "items": {
                "type": "object",
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "title": {"type": "string"},
                },
            },
        },
        "map": {"type": "object", "additionalProperties": {"type": "string"}},
        "maps": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "additionalProperties": {"type": "string"},
            },
        },
        "sealed": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "additionalProperties": {"type": "string"},
        },
        "inner": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    },
}
TYPED = crd_schema({"type": "object", "properties": {"spec": _SPEC}}, preserve_unknown=False)
DEDUCED = crd_schema(None, preserve_unknown=False)


def thing(spec: Obj | None) -> Obj:
    obj: Obj = {"apiVersion": "ex.io/v1", "kind": "Thing", "metadata": {"name": "t"}}
    if spec is not None:
        obj["spec"] = spec
    return obj


class World:
    """One object and the writes to it."""

    def __init__(self, schema: Any = TYPED) -> None:
        self.schema = schema
        self.live: Obj | None = None
        self.now = 0

    def _asked(self, manager: str) -> dict[str, Any]:
        self.now += 1
        time = f"2026-01-01T00:00:{self.now:02}Z"
        return {"manager": manager, "api_version": "ex.io/v1", "now": time, "live": self.live}

    def apply(self, manager: str, spec: Obj | None, *, force: bool = False) -> None:
        asked = self._asked(manager)
        self.live = apply(self.schema, config=thing(spec), force=force, **asked)
        self.live["metadata"]["uid"] = "u"

    def update(self, manager: str, spec: Obj | None) -> None:
        new = thing(spec)
        new["metadata"]["uid"] = "u"
        track_update(self.schema, new=new, **self._asked(manager))
        self.live = new

    @property
    def spec(self) -> Any:
        assert self.live is not None
        return self.live.get("spec")

    @property
    def owners(self) -> dict[str, list[str]]:
        assert self.live is not None
        entries = self.live["metadata"].get("managedFields", ())
        return {
            e["manager"]: [show_path(p).removeprefix(".spec") for p in paths(e["fieldsV1"])]
            for e in entries
        }


A, U, F = "apply", "update", "force"

# name, steps, spec, owners
SEQUENCES: list[tuple[str, list[tuple[str, str, Any]], Any, dict[str, list[str]]]] = [
    (
        "two appliers of different leaves",
        [(A, "a", {"number": 1}), (A, "b", {"text": "x"})],
        {"number": 1, "text": "x"},
        {"a": [".number"], "b": [".text"]},
    ),
    (
        "two appliers agree on a leaf",
        [(A, "a", {"number": 1}), (A, "b", {"number": 1})],
        {"number": 1},
        {"a": [".number"], "b": [".number"]},
    ),
    (
        "force takes a leaf from every other owner",
        [(A, "a", {"number": 1}), (A, "b", {"number": 1}), (F, "c", {"number": 2})],
        {"number": 2},
        {"c": [".number"]},
    ),
    (
        "leaf dropped by its only applier is removed",
        [(A, "a", {"number": 1, "text": "x"}), (A, "a", {"text": "x"})],
        {"text": "x"},
        {"a": [".text"]},
    ),
    (
        "leaf dropped by one of two appliers stays",
        [(A, "a", {"number": 1, "text": "x"}), (A, "b", {"number": 1}), (A, "a", {"text": "x"})],
        {"text": "x", "number": 1},
        {"a": [".text"], "b": [".number"]},
    ),
    (
        "leaf dropped by its applier stays if an updater owns it too",
        [
            (A, "a", {"number": 1, "text": "x"}),
            (U, "u", {"number": 2, "text": "x"}),
            (A, "a", {"text": "x"}),
        ],
        {"text": "x", "number": 2},
        {"a": [".text"], "u": [".number"]},
    ),
    (
        "an update takes a leaf from its applier",
        [(A, "a", {"number": 1, "text": "x"}), (U, "u", {"number": 2, "text": "x"})],
        {"number": 2, "text": "x"},
        {"a": [".text"], "u": [".number"]},
    ),
    (
        "an update that removes a leaf leaves it to nobody",
        [(A, "a", {"number": 1, "text": "x"}), (U, "u", {"text": "x"})],
        {"text": "x"},
        {"a": [".text"]},
    ),
    (
        "an applier nothing is left of is dropped",
        [(A, "a", {"number": 1}), (U, "u", {"number": 2})],
        {"number": 2},
        {"u": [".number"]},
    ),
    (
        "set items have their own owners",
        [(A, "a", {"set": ["x", "y"]}), (A, "b", {"set": ["y", "z"]}), (A, "a", {"set": ["x"]})],
        {"set": ["x", "y", "z"]},
        {"a": ['.set[="x"]'], "b": ['.set[="y"]', '.set[="z"]']},
    ),
    (
        "set order follows the last applier",
        [(A, "a", {"set": ["a", "b", "c"]}), (A, "a", {"set": ["c", "a", "b"]})],
        {"set": ["c", "a", "b"]},
        {"a": ['.set[="a"]', '.set[="b"]', '.set[="c"]']},
    ),
    (
        "set keeps what others put between",
        [
            (A, "a", {"set": ["a", "c"]}),
            (U, "u", {"set": ["a", "b", "c"]}),
            (A, "a", {"set": ["c", "d", "a"]}),
        ],
        {"set": ["b", "c", "d", "a"]},
        {"a": ['.set[="a"]', '.set[="c"]', '.set[="d"]'], "u": ['.set[="b"]']},
    ),
    (
        "list items are merged by key",
        [
            (A, "a", {"items": [{"name": "x", "value": 1}]}),
            (A, "b", {"items": [{"name": "y"}, {"name": "x", "tags": ["t"]}]}),
        ],
        {"items": [{"name": "y"}, {"name": "x", "value": 1, "tags": ["t"]}]},
        {
            "a": ['.items[name="x"]', '.items[name="x"].name', '.items[name="x"].value'],
            "b": [
                '.items[name="x"]',
                '.items[name="y"]',
                '.items[name="x"].name',
                '.items[name="x"].tags[="t"]',
                '.items[name="y"].name',
            ],
        },
    ),
    (
        "list item dropped by its applier is removed whole",
        [
            (A, "a", {"items": [{"name": "x", "value": 1}, {"name": "y"}]}),
            (A, "a", {"items": [{"name": "y"}]}),
        ],
        {"items": [{"name": "y"}]},
        {"a": ['.items[name="y"]', '.items[name="y"].name']},
    ),
    (
        "list item dropped by one of two appliers keeps the other's fields",
        [
            (A, "a", {"items": [{"name": "x", "value": 1}]}),
            (A, "b", {"items": [{"name": "x", "tags": ["t"]}]}),
            (A, "a", {"text": "only"}),
        ],
        {"items": [{"name": "x", "tags": ["t"]}], "text": "only"},
        {
            "b": ['.items[name="x"]', '.items[name="x"].name', '.items[name="x"].tags[="t"]'],
            "a": [".text"],
        },
    ),
    (
        "left out key counts as its default",
        [
            (A, "a", {"ports": [{"port": 80, "title": "t"}]}),
            (A, "b", {"ports": [{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP"}]}),
        ],
        {
            "ports": [
                {"port": 80, "title": "t", "protocol": "TCP"},
                {"port": 80, "protocol": "UDP"},
            ]
        },
        {
            "a": [
                '.ports[port=80,protocol="TCP"]',
                '.ports[port=80,protocol="TCP"].port',
                '.ports[port=80,protocol="TCP"].title',
            ],
            "b": [
                '.ports[port=80,protocol="TCP"]',
                '.ports[port=80,protocol="UDP"]',
                '.ports[port=80,protocol="TCP"].port',
                '.ports[port=80,protocol="TCP"].protocol',
                '.ports[port=80,protocol="UDP"].port',
                '.ports[port=80,protocol="UDP"].protocol',
            ],
        },
    ),
    (
        "map keys have their own owners",
        [(A, "a", {"map": {"x": "1"}}), (A, "b", {"map": {"y": "1"}}), (A, "a", {"map": {}})],
        {"map": {"y": "1"}},
        {"b": [".map.y"], "a": [".map"]},
    ),
    (
        "maps of maps",
        [
            (A, "a", {"maps": {"x": {"k": "1"}}}),
            (A, "b", {"maps": {"x": {"l": "1"}}}),
            (A, "a", {"maps": {"z": {"k": "1"}}}),
        ],
        {"maps": {"x": {"l": "1"}, "z": {"k": "1"}}},
        {"b": [".maps.x", ".maps.x.l"], "a": [".maps.z", ".maps.z.k"]},
    ),
    (
        "atomic list belongs to one at a time",
        [(A, "a", {"atomic": ["x"]}), (F, "b", {"atomic": ["y"]})],
        {"atomic": ["y"]},
        {"b": [".atomic"]},
    ),
    (
        "atomic map is replaced, not merged",
        [(A, "a", {"sealed": {"x": "1"}}), (F, "b", {"sealed": {"y": "1"}})],
        {"sealed": {"y": "1"}},
        {"b": [".sealed"]},
    ),
    (
        "nested struct is removed when nobody has anything in it",
        [(A, "a", {"inner": {"a": 1, "b": 2}, "number": 1}), (A, "a", {"number": 1})],
        {"number": 1},
        {"a": [".number"]},
    ),
    (
        "nested struct keeps what others own",
        [
            (A, "a", {"inner": {"a": 1}, "number": 1}),
            (A, "b", {"inner": {"b": 2}}),
            (A, "a", {"number": 1}),
        ],
        {"inner": {"b": 2}, "number": 1},
        {"b": [".inner.b"], "a": [".number"]},
    ),
    (
        "create by update owns every level",
        [(U, "u", {"inner": {"a": 1}, "set": ["x"], "map": {"k": "v"}})],
        {"inner": {"a": 1}, "set": ["x"], "map": {"k": "v"}},
        {
            "u": [
                "",
                ".inner",
                ".map",
                ".set",
                ".inner.a",
                ".map.k",
                '.set[="x"]',
            ]
        },
    ),
    (
        "an applier that applies nothing gives up everything",
        [(A, "a", {"number": 1}), (A, "b", {"text": "x"}), (A, "a", {})],
        {"text": "x"},
        {"b": [".text"], "a": [""]},
    ),
    (
        "an update of duplicates owns them as one",
        [(U, "u", {"set": ["x"]}), (U, "v", {"set": ["x", "x", "y"]})],
        {"set": ["x", "x", "y"]},
        {"u": ["", ".set"], "v": ['.set[="x"]', '.set[="y"]']},
    ),
]


@pytest.mark.parametrize(
    ("name", "steps", "spec", "owners"), SEQUENCES, ids=[s[0] for s in SEQUENCES]
)
def test_sequence(
    name: str, steps: list[tuple[str, str, Any]], spec: Any, owners: dict[str, list[str]]
) -> None:
    world = World()
    for how, manager, given in steps:
        if how == U:
            world.update(manager, given)
        else:
            world.apply(manager, given, force=how == F)
    assert world.spec == spec
    assert world.owners == owners


CONFLICTS: list[tuple[str, list[tuple[str, str, Any]], Any, list[str]]] = [
    ("leaf of an updater", [(U, "u", {"number": 1})], {"number": 2}, [".spec.number"]),
    ("leaf of an applier", [(A, "a", {"number": 1})], {"number": 2}, [".spec.number"]),
    ("atomic list", [(A, "a", {"atomic": ["x"]})], {"atomic": ["x", "y"]}, [".spec.atomic"]),
    ("atomic map", [(A, "a", {"sealed": {"x": "1"}})], {"sealed": {}}, [".spec.sealed"]),
    (
        "field of a list item",
        [(A, "a", {"items": [{"name": "x", "value": 1}]})],
        {"items": [{"name": "x", "value": 2}]},
        ['.spec.items[name="x"].value'],
    ),
    (
        "several, level by level",
        [(A, "a", {"text": "x", "number": 1, "inner": {"a": 1}})],
        {"number": 2, "inner": {"a": 2}, "text": "y"},
        [".spec.number", ".spec.text", ".spec.inner.a"],
    ),
]


@pytest.mark.parametrize(
    ("name", "steps", "config", "fields"), CONFLICTS, ids=[c[0] for c in CONFLICTS]
)
def test_conflict(
    name: str, steps: list[tuple[str, str, Any]], config: Any, fields: list[str]
) -> None:
    world = World()
    for how, manager, given in steps:
        world.update(manager, given) if how == U else world.apply(manager, given)
    before = world.live
    with pytest.raises(Conflict) as refused:
        world.apply("late", config)
    assert [c["field"] for c in refused.value.details["causes"]] == fields
    assert {c["reason"] for c in refused.value.details["causes"]} == {"FieldManagerConflict"}
    assert world.live is before


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("new set item", {"set": ["z"]}),
        ("new list item", {"items": [{"name": "new"}]}),
        ("new map key", {"map": {"new": "1"}}),
        ("same value", {"number": 1}),
    ],
)
def test_no_conflict_with_what_others_own_beside(name: str, config: Obj) -> None:
    world = World()
    world.apply("a", {"number": 1, "set": ["x"], "items": [{"name": "x"}], "map": {"k": "v"}})
    world.apply("late", config)
    assert set(world.owners) == {"a", "late"}


def test_messages_group_conflicts_by_owner() -> None:
    world = World()
    world.apply("a", {"number": 1})
    world.update("u", {"number": 1, "text": "x", "flag": True})
    with pytest.raises(Conflict) as refused:
        world.apply("late", {"number": 2, "text": "y", "flag": False})
    assert refused.value.message == (
        'Apply failed with 3 conflicts: conflicts with "a":\n'
        "- .spec.number\n"
        'conflicts with "u" using ex.io/v1:\n'
        "- .spec.flag\n"
        "- .spec.text"
    )


SHAPES: list[tuple[str, Any, str]] = [
    ("duplicate in a set", {"set": ["x", "x"]}, '.spec.set: duplicate entries for key [="x"]'),
    (
        "null in a set",
        {"set": [None]},
        ".spec.set: element 0: associative list without keys has an element "
        "that's an explicit null",
    ),
    (
        "object in a set",
        {"set": [{}]},
        ".spec.set: element 0: associative list without keys has an element that's a map type",
    ),
    (
        "item without its key",
        {"items": [{"value": 1}]},
        ".spec.items: element 0: associative list with keys has an element that omits all key "
        'fields ["name"] (and doesn\'t have default values for any key fields)',
    ),
    (
        "item that is no object",
        {"items": ["x"]},
        ".spec.items: element 0: associative list with keys may not have non-map elements",
    ),
    ("list expected", {"set": "x"}, ".spec.set: expected list, got &{x}"),
    ("map expected", {"map": 5}, ".spec.map: expected map, got &{5}"),
    ("boolean expected", {"flag": "yes"}, ".spec.flag: expected boolean, got &{yes}"),
    (
        "number expected",
        {"number": {"a": 1}},
        ".spec.number: expected numeric (int or float), got map[string]interface {}",
    ),
    (
        "string expected",
        {"text": True},
        ".spec.text: expected string, got &value.valueUnstructured{Value:true}",
    ),
    ("undeclared field", {"nope": 1}, ".spec.nope: field not declared in schema"),
]


@pytest.mark.parametrize(("name", "spec", "problem"), SHAPES, ids=[s[0] for s in SHAPES])
def test_configuration_must_have_the_shape_of_its_type(name: str, spec: Obj, problem: str) -> None:
    with pytest.raises(ApiError) as refused:
        World().apply("a", spec)
    assert refused.value.status_code == 500
    assert refused.value.message == (
        f"failed to create typed patch object (/t; ex.io/v1, Kind=Thing): {problem}"
    )


class TestWithoutSchema:
    def test_objects_are_merged_and_lists_are_leaves(self) -> None:
        world = World(DEDUCED)
        world.apply("a", {"deep": {"x": 1}, "list": [1]})
        world.apply("b", {"deep": {"y": 1}})
        assert world.spec == {"deep": {"x": 1, "y": 1}, "list": [1]}
        assert world.owners == {
            "a": ["", ".deep", ".list", ".deep.x"],
            "b": ["", ".deep", ".deep.y"],
        }

    def test_changing_a_list_of_somebody_else_conflicts(self) -> None:
        world = World(DEDUCED)
        world.apply("a", {"list": [1]})
        with pytest.raises(Conflict):
            world.apply("b", {"list": [1, 2]})

    def test_a_scalar_may_become_an_object(self) -> None:
        world = World(DEDUCED)
        world.apply("a", {"x": 1})
        world.apply("a", {"x": {"y": 1}})
        assert world.spec == {"x": {"y": 1}}


def test_ownership_follows_a_list_that_became_atomic() -> None:
    world = World()
    world.apply("a", {"set": ["x", "y"]})
    sealed = {**_SPEC["properties"]["set"], "x-kubernetes-list-type": "atomic"}
    spec = {**_SPEC, "properties": {**_SPEC["properties"], "set": sealed}}
    world.schema = crd_schema(
        {"type": "object", "properties": {"spec": spec}}, preserve_unknown=False
    )
    world.apply("b", {"number": 1})
    assert world.owners == {"a": [".set"], "b": [".number"]}


def test_applying_the_same_again_changes_nothing_at_all() -> None:
    world = World()
    world.apply("a", {"number": 1, "items": [{"name": "x"}]})
    before = world.live
    world.apply("a", {"number": 1, "items": [{"name": "x"}]})
    assert world.live == before


def test_inputs_of_an_apply_are_not_changed() -> None:
    world = World()
    world.apply("a", {"number": 1, "items": [{"name": "x", "value": 1}]})
    live = world.live
    assert live is not None
    before = repr(live)
    world.apply("b", {"items": [{"name": "x", "tags": ["t"]}]})
    assert repr(live) == before
