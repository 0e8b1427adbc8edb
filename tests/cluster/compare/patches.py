"""Strategies for patches: each is drawn from two objects of one kind, an old and a new one."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

from tests.cluster.compare.pair import NULL
from tests.cluster.compare.values import Value, rarely

MERGE_KEYS = ("name", "containerPort", "mountPath", "port", "ip", "topologyKey", "type", "key")
IDENTITY = ("apiVersion", "kind")


@st.composite
def pruned(draw: st.DrawFn, obj: Any, depth: int = 0) -> Any:
    """The same with some of its parts left out: what a manager has an opinion on."""
    if isinstance(obj, dict):
        return {
            key: draw(pruned(value, depth + 1))
            for key, value in obj.items()
            if key in ("name", "apiVersion", "kind", "metadata", "image")
            or (depth == 0)
            or draw(st.integers(0, 3))
        }
    if isinstance(obj, list):
        return [draw(pruned(value, depth + 1)) for value in obj if draw(st.integers(0, 4))]
    return obj


def without_empties(value: Any) -> Any:
    """The same without empty lists and maps inside; the pod selector must be there."""
    if isinstance(value, dict):
        inner = {k: without_empties(v) for k, v in value.items()}
        return {k: v for k, v in inner.items() if v not in ([], {}) or k in ("spec", "podSelector")}
    if isinstance(value, list):
        return [v for v in map(without_empties, value) if v not in ([], {})]
    return value


def _merge_difference(old: Any, new: Any) -> Any:
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif old[key] != value:
            patch[key] = _merge_difference(old[key], value)
    return patch


def merge_patches(old: Any, new: Any) -> Value:
    """RFC 7386, from the old to (part of) the new."""
    whole = _merge_difference(old, new)
    return rarely(
        pruned(whole),
        st.sampled_from([{}, [], NULL, "text", {"spec": None}, {"metadata": None}, {"kind": "X"},
                         {"metadata": {"name": "other"}}, {"metadata": {"labels": {"a": 5}}},
                         {"metadata": {"resourceVersion": "1"}}, {"metadata": {"uid": "x"}},
                         {"metadata": {"namespace": "other"}},
                         {"metadata": {"resourceVersion": "$RV"}},
                         {"apiVersion": "x/v1"}, {"nosuch": 1}]),
        12,
    )  # fmt: skip


def pointers(value: Any, path: str = "") -> list[str]:
    """Every JSON pointer into a value."""
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += pointers(inner, f"{path}/{key.replace('~', '~0').replace('/', '~1')}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += pointers(inner, f"{path}/{index}")
    return found


@st.composite
def json_patches(draw: st.DrawFn, old: Any, new: Any) -> Any:
    """RFC 6902: mostly at places that are there, sometimes not."""
    keep = ("/apiVersion", "/kind", "/metadata/name")
    there = [p for p in pointers(old) if p and p not in keep and p != "/metadata"] or [
        "/metadata/labels"
    ]
    coming = [p for p in pointers(new) if p and p not in keep and p != "/metadata"] or [
        "/metadata/labels"
    ]
    odd = st.sampled_from(
        ["/spec/none/deeper", "/metadata/labels/-", "/spec/-", "nope", "", "/spec/containers/7",
         "/spec/containers/-1", "/metadata/name", "/kind", "/spec/containers/01"]
    )  # fmt: skip
    operations = []
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(rarely(
            st.sampled_from(["add", "add", "replace", "remove", "test", "copy", "move"]),
            st.sampled_from(["nop", ""]),
            40,
        ))  # fmt: skip
        target = draw(rarely(st.sampled_from(there if kind != "add" else coming), odd, 8))
        operation: dict[str, Any] = {"op": kind, "path": target}
        if kind in ("copy", "move"):
            operation["from"] = draw(rarely(st.sampled_from(there), odd, 15))
        if kind in ("add", "replace", "test"):
            source = old if kind == "test" else new
            found = _resolve(source, target)
            operation["value"] = draw(rarely(st.just(found), st.sampled_from([1, "x", None, {}])))
        operations.append(operation)
    return draw(rarely(st.just(operations), st.sampled_from([[], {}, operations[0], [1]]), 25))


def _resolve(value: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        part = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and part in value:
            value = value[part]
        elif isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        else:
            return "made up"
    return copy.deepcopy(value)


@st.composite
def strategic_patches(draw: st.DrawFn, old: Any, new: Any) -> Any:
    """Strategic merge patches with every directive."""
    patch = draw(pruned(_merge_difference_lists(old, new)))
    for key in IDENTITY:
        patch.pop(key, None)
    _direct(draw, patch, old)
    gone = {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}
    odd = st.sampled_from([{}, [], NULL, {"$patch": "replace"}, {"$patch": "explode"},
                           {"spec": {"$patch": "delete"}}, {"metadata": {"labels": None}},
                           {"spec": {"$retainKeys": ["none"], "x": 1}}, {"spec": None},
                           {"metadata": gone},
                           {"metadata": {"$setElementOrder/finalizers": ["x.com/b"]}}])  # fmt: skip
    return draw(rarely(st.just(patch), odd, 12))


def _merge_difference_lists(old: Any, new: Any) -> Any:
    """Like a merge patch, but lists stay whole (they are merged by key or replaced)."""
    patch: dict[str, Any] = {key: None for key in old if key not in new and key != "metadata"}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            patch[key] = _merge_difference_lists(old[key], value)
        elif old.get(key) != value:
            patch[key] = value
    return patch


def _direct(draw: st.DrawFn, patch: Any, old: Any) -> None:
    """Put directives into a patch, in place."""
    for key in list(patch):
        value, before = patch[key], old.get(key) if isinstance(old, dict) else None
        if isinstance(value, dict):
            _direct(draw, value, before or {})
            chosen = draw(st.integers(0, 19))
            if chosen == 0:
                value["$patch"] = draw(st.sampled_from(["replace", "merge", "delete"]))
            elif chosen == 1:
                value["$retainKeys"] = [k for k in value if not k.startswith("$")]
        elif isinstance(value, list):
            _direct_list(draw, patch, key, value, before if isinstance(before, list) else [])


def _direct_list(
    draw: st.DrawFn, patch: Any, key: str, value: list[Any], before: list[Any]
) -> None:
    chosen = draw(st.integers(0, 9))
    maps = [v for v in value if isinstance(v, dict)]
    if maps and len(maps) == len(value):
        merge_key = next((k for k in MERGE_KEYS if k in maps[0]), "name")
        for item in maps:
            _direct(draw, item, {})
        gone = [b for b in before if isinstance(b, dict) and merge_key in b]
        if chosen == 0 and gone:
            value.append({"$patch": "delete", merge_key: gone[0][merge_key]})
        elif chosen == 1:
            value.append({"$patch": "replace"})
        elif chosen in (2, 3):
            names = [{merge_key: v[merge_key]} for v in maps if merge_key in v]
            extra = [
                {merge_key: b[merge_key]} for b in gone if {merge_key: b[merge_key]} not in names
            ]
            patch[f"$setElementOrder/{key}"] = draw(st.permutations(names + extra))
        elif chosen == 4 and gone:
            value[:] = [{"$patch": "delete", merge_key: gone[0][merge_key]}]
    elif value and not maps:
        gone = [v for v in before if v not in value]
        # Adding and deleting the same value in one patch depends on the order of Go's maps.
        if chosen == 0 and gone:
            patch[f"$deleteFromPrimitiveList/{key}"] = gone[:1]
        elif chosen == 1:
            both = list(dict.fromkeys([*map(str, value), *map(str, before)]))
            if all(isinstance(v, str) for v in [*value, *before]):
                patch[f"$setElementOrder/{key}"] = draw(st.permutations(both))
