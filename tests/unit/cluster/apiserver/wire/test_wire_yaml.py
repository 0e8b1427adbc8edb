"""What sigs.k8s.io/yaml makes of the same texts."""

from typing import Any

import pytest

from corral.cluster.apiserver.codec import parse_yaml
from corral.kube import errors


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", "a"), ("1", 1), ("0x1F", 31), ("010", 8), ("08", 8), ("0b11", 3), ("1_000", 1000),
        ("1.5", 1.5), ("1e3", 1000), (".5", 0.5), ("+3", 3), ("y", True), ("Yes", True),
        ("on", True), ("off", False), ("tRUE", "tRUE"), ("~", None), ("", None),
        ("2020-01-01", "2020-01-01"), ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("60:30", "60:30"), ("'1'", "1"), ('"1"', "1"), ("!!str 1", "1"), ("!!int '5'", 5),
        ("!!binary aGk=", "hi"), ("!foo bar", "bar"), ("<<", "<<"), ("-", ["k"]),
        ("[a, {b: c}]", ["a", {"b": "c"}]), ("{2: a, true: b}", {"2": "a", "true": "b"}),
        ("18446744073709551615", 18446744073709551615), ("1e400", "1e400"),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    body = "k:\n- k\n" if text == "-" else f"k: {text}\n"
    assert parse_yaml(body.encode()) == {"k": value}


def test_anchors_and_merges() -> None:
    body = b"base: &b {a: 1, b: 2}\nx:\n  <<: *b\n  b: own\nz: *b\n"
    assert parse_yaml(body) == {
        "base": {"a": 1, "b": 2},
        "x": {"a": 1, "b": "own"},
        "z": {"a": 1, "b": 2},
    }


def test_a_key_follows_the_same_rules_as_a_value() -> None:
    assert parse_yaml(b"y: 1\n") == {"true": 1}


def test_aliases_are_copies() -> None:
    out = parse_yaml(b"a: &x {k: [1]}\nb: *x\n")
    out["a"]["k"].append(2)
    assert out["b"] == {"k": [1]}


def test_only_the_first_document_counts() -> None:
    assert parse_yaml(b"---\na: 1\n---\nb: 2\n") == {"a": 1}
    assert parse_yaml(b"# nothing\n") == {}


def test_keys_set_twice_are_problems() -> None:
    problems: list[str] = []
    assert parse_yaml(b"a: 1\nb: {}\nb: 2\n", problems=problems) == {"a": 1, "b": 2}
    assert problems == ['yaml: unmarshal errors:\n  line 3: key "b" already set in map']


BOMB = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10)
)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("a: *b", "yaml: unknown anchor 'b' referenced"),
        ("a: &x {b: *x}", "yaml: anchor 'x' value contains itself"),
        (BOMB, "yaml: document contains excessive aliasing"),
        ("[" * 5000, "exceeded max depth"),
        ("a: [", "yaml: "),
        ("a: b: c", "yaml: mapping values are not allowed in this context"),
        ("a: .nan", "json: unsupported value: NaN"),
        ("{<<: 5}", "yaml: map merge requires map or sequence of maps as the value"),
        ("!!int x", "yaml: cannot decode"),
        ("- a", "json: cannot unmarshal array into Go value"),
        ("? {a: b}\n: c", "yaml: invalid map key"),
    ],
)
def test_refuses(body: str, why: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        parse_yaml(body.encode(), "ConfigMap")
    text = caught.value.message
    assert text.startswith("the object provided is unrecognized (must be of type ConfigMap): ")
    assert why in text
