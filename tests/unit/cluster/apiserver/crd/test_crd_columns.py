"""Table cells, JSONPath, formats and patterns of custom resources."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from corral.cluster.apiserver.crd.columns import (
    age,
    column_definitions,
    compile_row,
    human_duration,
)
from corral.cluster.apiserver.crd.formats import duration_nanoseconds, is_format
from corral.cluster.apiserver.crd.jsonpath import compile_path
from corral.cluster.apiserver.crd.problems import go_number
from corral.cluster.apiserver.patterns import compile_pattern, pattern_problem

NOW = datetime(2026, 11, 15, 8, 2, 44, tzinfo=UTC)
OBJ: dict[str, Any] = {
    "metadata": {"name": "t1", "labels": {"a.b/c": "x"}},
    "spec": {
        "replicas": 3,
        "ratio": 2.0,
        "flag": True,
        "when": "2020-01-01T00:00:00Z",
        "items": [{"name": "x", "n": 1}, {"name": "y", "n": 2}],
        "labels": {"c": "d", "a": "b"},
    },
    "status": {"conditions": [{"type": "A", "status": "no"}, {"type": "Ready", "status": "True"}]},
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".spec.replicas", [3]),
        (".spec.nope.deeper", []),
        (".spec.items[*].name", ["x", "y"]),
        (".spec.items[0].name", ["x"]),
        (".spec.items[-1].name", ["y"]),
        (".spec.items[0:1].name", ["x"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Ready')].status", ["True"]),
        (".spec.items[?(@.n>1)].name", ["y"]),
        (".metadata.labels.a\\.b/c", ["x"]),
        (".metadata.labels['a.b/c']", ["x"]),
        ("..name", ["t1", "x", "y"]),
    ],
)
def test_paths(path: str, expected: list[Any]) -> None:
    assert compile_path(path)(OBJ) == expected


def test_a_path_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="unrecognized"):
        compile_path(".spec[")


def test_row_as_the_real_server_prints_it() -> None:
    columns = [
        {"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"},
        {"name": "Ratio", "type": "number", "jsonPath": ".spec.ratio"},
        {"name": "Names", "type": "string", "jsonPath": ".spec.items[*].name"},
        {"name": "Map", "type": "string", "jsonPath": ".spec.labels"},
        {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
        {"name": "When", "type": "date", "jsonPath": ".spec.when"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.missing"},
        {"name": "Wrong", "type": "integer", "jsonPath": ".spec.when"},
    ]
    row = compile_row({"additionalPrinterColumns": columns})
    cells = row(OBJ, lambda: NOW)
    assert cells == ["t1", 3, 2, "x", '{"a":"b","c":"d"}', True, "6y320d", None, None]


def test_columns_default_to_age() -> None:
    names = [(c["name"], c["type"], c["priority"]) for c in column_definitions({})]
    assert names == [("Name", "string", 0), ("Age", "date", 0)]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (600, "10m"),
        (10_799, "179m"),
        (10_800, "3h"),
        (11_460, "3h11m"),
        (28_800, "8h"),
        (172_800, "2d"),
        (176_400, "2d1h"),
        (691_200, "8d"),
        (63_072_000, "2y"),
        (63_158_400, "2y1d"),
        (252_288_000, "8y"),
    ],
)
def test_durations(seconds: int, expected: str) -> None:
    assert human_duration(seconds) == expected


def test_ages() -> None:
    assert age("2026-11-15T08:02:40Z", NOW) == "4s"
    assert age("soon", NOW) == "<invalid>"


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("date-time", "2020-01-01T00:00:00.5+01:00", "2020-01-01 00:00:00"),
        ("date", "2020-02-29", "2021-02-29"),
        ("duration", "1h30m", "soon"),
        ("duration", "3 days", ""),
        ("ipv4", "10.0.0.1", "10.0.0"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "01:23:45:67:89:ab", "01:23"),
        ("uuid", "123E4567-e89b-12d3-a456-426614174000", "123"),
        ("hostname", "a.example.com", "-a"),
        ("email", "a@b.example", "a b@c"),
        ("uri", "https://example.com", "example"),
        ("byte", "YQ==", "?"),
        ("hexcolor", "#fff", "#ff"),
        ("isbn10", "0321751043", "0321751044"),
        ("isbn13", "978-0321751041", "978-0321751042"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("k8s-short-name", "a-b", "A"),
        ("k8s-long-name", "a.b", "a..b"),
    ],
)
def test_formats(name: str, good: str, bad: str) -> None:
    assert is_format(name, good)
    assert not is_format(name, bad)


def test_unknown_formats_hold() -> None:
    assert is_format("whatever", "x")


def test_duration_values() -> None:
    assert duration_nanoseconds("-1.5s") == -1_500_000_000
    assert duration_nanoseconds("2 weeks") == 14 * 86_400 * 10**9


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^a+$", "aa", True),
        ("^a+$", "aa\n", False),
        ("b", "abc", True),
        ("^[[:alpha:]]+$", "abc", True),
        (r"^a\$", "a$", True),
        ("^[$]$", "$", True),
        (r"\d", "٣", False),
    ],
)
def test_patterns(pattern: str, text: str, expected: bool) -> None:
    assert (compile_pattern(pattern)(text) is not None) is expected


def test_malformed_patterns() -> None:
    assert pattern_problem("(") == "error parsing regexp: missing closing ): `(`"
    said = "error parsing regexp: invalid or unsupported Perl syntax: `(?=`"
    assert pattern_problem("a(?=b)") == said
    assert pattern_problem("^[a-z]{1,3}$") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, "0"),
        (5, "5"),
        (2.0, "2"),
        (1.5, "1.5"),
        (1e6, "1e+06"),
        (1e-7, "1e-07"),
        (-0.25, "-0.25"),
    ],
)
def test_numbers_as_go_prints_them(value: float, expected: str) -> None:
    assert go_number(value) == expected
