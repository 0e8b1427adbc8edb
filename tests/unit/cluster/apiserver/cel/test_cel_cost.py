"""The estimated cost of expressions."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cluster.apiserver.cel.cost import COST_LIMIT, cost_message, estimated_cost, largest

NUMBER: dict[str, Any] = {"type": "integer"}


def numbers(most: int | None = None) -> dict[str, Any]:
    limit = {} if most is None else {"maxItems": most}
    return {"type": "array", "items": NUMBER, **limit}


@pytest.mark.parametrize(
    ("rule", "schema", "too_much"),
    [
        ("self > 0", NUMBER, False),
        ("self.all(a, a > 0)", numbers(), False),
        ("self.all(a, self.all(b, a != b))", numbers(100), False),
        ("self.all(a, self.all(b, a != b))", numbers(), True),
        ("self.all(a, self.all(b, self.all(c, a + b > c)))", numbers(200), True),
        ("self.map(a, a + 1).all(b, self.exists(c, c == b))", numbers(5000), True),
        ("self.filter(a, a > 1).size() == 2", numbers(1000), False),
        ("not an expression (", NUMBER, False),
    ],
)
def test_loops_are_counted_by_the_sizes_that_are_allowed(
    rule: str, schema: dict[str, Any], too_much: bool
) -> None:
    assert (estimated_cost(rule, schema) > COST_LIMIT) is too_much


def test_members_and_maps_are_followed() -> None:
    inner = {"type": "object", "additionalProperties": numbers(10), "maxProperties": 20}
    schema = {"type": "object", "properties": {"spec": inner}}
    small = estimated_cost("self.spec.all(k, self.spec[k].all(v, v > 0))", schema)
    inner["maxProperties"] = 200
    assert estimated_cost("self.spec.all(k, self.spec[k].all(v, v > 0))", schema) > 8 * small


WHOLE: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "times": {"type": "array", "items": {"type": "string", "format": "date-time"}},
        "count": {"type": "integer"},
        "flags": {"type": "array", "items": {"type": "string"}, "maxItems": 8},
    },
}


@pytest.mark.parametrize(
    ("rule", "cost"),
    [
        ("has(self.name)", 1),
        ("has(self.name) && self.name != ''", 3),
        ("!has(self.name) || has(self.labels)", 3),
        ("has(self.name) ? has(self.labels) : has(self.times)", 2),
        ("'app' in self.labels", 3),
        ("self.labels == {}", 32),
        ("self == oldSelf", 2),
        ("self.count == 1 || oldSelf.count != self.count", 6),
        ("self.flags.exists(f, f == 'x')", 3 + 8 * 6),
        ("optional.of(self.count).hasValue()", 4),
        ("type(self.name) == string", 4),
        ("self.times.all(t, has(self.name))", 3 + 142_987 * 4),
    ],
)
def test_costs_are_at_most_upstreams(rule: str, cost: int) -> None:
    """What kube-apiserver's own estimator says of these."""
    assert estimated_cost(rule, WHOLE) == cost


def test_looking_for_a_key_is_no_search() -> None:
    """As definitions of gateways and queues do, whose labels have no limit."""
    items = {"type": "array", "maxItems": 64, "items": WHOLE}
    assert estimated_cost("self.all(x, has(x.labels) && 'app' in x.labels)", items) < COST_LIMIT
    assert estimated_cost("self.all(x, 'app' in x.times)", items) > 64 * 142_987


def test_sizes_without_a_limit_are_what_fits_into_a_request() -> None:
    assert largest(numbers()) == (3 * 2**20 - 2) // 2
    assert largest(numbers(7)) == 7
    assert largest(NUMBER) == 1


@pytest.mark.parametrize(
    ("cost", "factor"),
    [(12_000_000, "1.200000x"), (25_000_000, "2.5x"), (10**12, "more than 100x")],
)
def test_messages_are_upstreams(cost: int, factor: str) -> None:
    text = cost_message("estimated rule cost", cost, COST_LIMIT)
    assert text.startswith(f"estimated rule cost exceeds budget by factor of {factor} (try ")
