from __future__ import annotations

import pytest
from runtime_fakes import obj

from corral.kube.selectors import parse_labels
from corral.kube.types import Obj
from corral.runtime import Store


def by_app(value: Obj) -> list[str]:
    return value["metadata"].get("labels", {}).get("app", "").split()


def labelled(name: str, apps: str, namespace: str = "ns") -> Obj:
    return obj(name, namespace=namespace, metadata={"labels": {"app": apps}})


def names(found: list[Obj]) -> list[str]:
    return [value["metadata"]["name"] for value in found]


def test_put_gives_what_was_there() -> None:
    store = Store()
    first, second = obj("a"), obj("a", data={})
    assert store.put(first) is None
    assert store.put(second) is first
    assert store.get("ns/a") is second and len(store) == 1 and "ns/a" in store
    assert store.remove("ns/a") is second
    assert store.remove("ns/a") is None and store.get("ns/a") is None


def test_index_follows_changes_and_leaves_nothing_behind() -> None:
    store = Store(app=by_app)
    store.put(labelled("a", "x y"))
    store.put(labelled("b", "y"))
    assert names(store.by_index("app", "y")) == ["a", "b"]
    store.put(labelled("a", "x z"))
    assert names(store.by_index("app", "y")) == ["b"]
    assert store.keys_by_index("app", "z") == ["ns/a"]
    store.remove("ns/b")
    store.remove("ns/a")
    assert store.index_values("app") == []
    assert store.by_index("app", "x") == []


def test_index_added_later_covers_what_is_there() -> None:
    store = Store()
    store.put(labelled("a", "x"))
    store.add_index("app", by_app)
    store.add_index("app", by_app)
    assert names(store.by_index("app", "x")) == ["a"]
    with pytest.raises(ValueError, match="another index named 'app'"):
        store.add_index("app", lambda value: [])


def test_objects_of_a_namespace_and_a_selector() -> None:
    store = Store()
    for name, app, namespace in (("a", "x", "n1"), ("b", "y", "n1"), ("c", "x", "n2")):
        store.put(labelled(name, app, namespace))
    assert names(store.objects()) == ["a", "b", "c"]
    assert names(store.objects("n1")) == ["a", "b"]
    assert names(store.objects(selector=parse_labels("app=x"))) == ["a", "c"]
    assert names(store.objects("n1", selector=parse_labels("app=x"))) == ["a"]
    assert store.objects("n3") == []


def test_iteration_bears_changes() -> None:
    store = Store()
    for name in "abc":
        store.put(obj(name))
    for value in store:
        store.remove(f"ns/{value['metadata']['name']}")
    assert len(store) == 0
