"""Strategies for the parts that objects are made of.

Pools are small on purpose: patches and managers must meet at the same keys.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Value = st.SearchStrategy[Any]


def fields(required: dict[str, Value] | None = None, **optional: Value) -> Value:
    """An object with fields that are always there and fields that may be."""
    return st.fixed_dictionaries(required or {}, optional=optional)


def rarely(usual: Value, odd: Value, one_in: int = 25) -> Value:
    """Mostly the usual, once in a while the odd (an invalid value, a wrong type)."""
    # Not at an end of the range: hypothesis likes the ends.
    chosen = one_in // 2 + 1
    return st.integers(0, one_in - 1).flatmap(lambda n: odd if n == chosen else usual)


def keyed(key: str, keys: list[Any], rest: Value, *, low: int = 0, high: int = 3) -> Value:
    """A list of maps whose key is unique."""
    names = st.lists(st.sampled_from(keys), min_size=low, max_size=high, unique=True)
    return names.flatmap(
        lambda chosen: st.tuples(*[rest.map(lambda r, n=n: {key: n, **r}) for n in chosen])
    ).map(list)


def subset(values: list[Any], *, low: int = 0, high: int = 4) -> Value:
    return st.lists(st.sampled_from(values), min_size=low, max_size=high, unique=True)


words = st.sampled_from(["alpha", "beta", "gamma", "delta"])
texts = st.sampled_from(["", "x", "plain text", "ünï ☃", "a\nb", "{}", "true", "1"])
flags = st.booleans()
small = st.integers(0, 5)
seconds = st.integers(1, 90)
ports = rarely(st.sampled_from([80, 443, 8080]), st.sampled_from([0, -1, 70000, "80", 80.0]))
int_or_percent = rarely(
    st.one_of(small, st.sampled_from(["10%", "25%", "100%"])),
    st.sampled_from(["ten", -1, "-5%", 1.5, None]),
)
quantities = rarely(
    st.sampled_from(["1", "100m", "0.5", "1Gi", "1024Mi", "1.5G", "2e3", "0", 2, "1500m", "0.1Ki"]),
    st.sampled_from(["", "1x", "-1", True, "1 Gi", {}]),
)
label_values = rarely(words, st.sampled_from(["no spaces", "-x", "", 1, "x" * 64, None]), 40)
labels = st.dictionaries(
    rarely(
        st.sampled_from(["app", "tier", "example.com/role", "track"]),
        st.sampled_from(["bad key", "/x", "x" * 64, "Example.com/x"]),
        60,
    ),
    label_values,
    max_size=3,
)
annotations = st.dictionaries(
    st.sampled_from(["note", "example.com/Note", "other"]), texts, max_size=2
)
references = fields({"name": words})
resources = fields(
    limits=st.dictionaries(st.sampled_from(["cpu", "memory"]), quantities, max_size=2),
    requests=st.dictionaries(
        rarely(
            st.sampled_from(["cpu", "memory", "example.com/gpu"]), st.sampled_from(["gpu", "a b"])
        ),
        quantities,
        max_size=2,
    ),
)
selector_terms = keyed(
    "key",
    ["app", "tier", "track"],
    st.one_of(
        fields({"operator": st.sampled_from(["In", "NotIn"]), "values": subset(["a", "b"], low=1)}),
        fields({"operator": rarely(st.sampled_from(["Exists", "DoesNotExist"]), st.just("Has"))}),
    ),
    high=2,
)
selectors = fields(
    matchLabels=st.dictionaries(st.sampled_from(["app", "tier"]), words, max_size=2),
    matchExpressions=selector_terms,
)
object_references = fields(
    {
        "kind": st.sampled_from(["Deployment", "StatefulSet"]),
        "name": words,
        "apiVersion": rarely(st.just("apps/v1"), st.sampled_from(["v1", "a/b/c", ""]), 10),
    }
)


def metadata(name: str) -> Value:
    return fields(
        {"name": st.just(name)},
        labels=labels,
        annotations=annotations,
        finalizers=rarely(
            subset(["example.com/a", "example.com/b"], high=1), st.just(["nope"]), 20
        ),
    )
