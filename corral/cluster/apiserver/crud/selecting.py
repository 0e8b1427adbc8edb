"""Selectors made ready: a test costs what an object has labels, however long the selector is.

All requirements about one key become one condition, whose values are sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from corral.kube.selectors import Requirement, Selector

__all__ = ["field_test", "label_test"]

Test = Callable[[Mapping[str, str]], bool]


class _Condition:
    """What a selector wants of one key."""

    __slots__ = ("allowed", "compared", "forbidden", "gone", "needed")

    def __init__(self) -> None:
        self.needed = self.gone = False
        self.allowed: set[str] | None = None
        """None: any value."""
        self.forbidden: set[str] = set()
        self.compared: dict[str, Requirement] = {}

    def add(self, one: Requirement) -> None:
        match one.op:
            case "=" | "in":
                self.needed = True
                values = set(one.values)
                self.allowed = values if self.allowed is None else self.allowed & values
            case "!=" | "notin":
                self.forbidden.update(one.values)
            case "exists":
                self.needed = True
            case "!exists":
                self.gone = True
            case _:
                self.needed = True
                self.compared[one.op] = _stricter(self.compared.get(one.op), one)

    def holds(self, value: str, labels: Mapping[str, str]) -> bool:
        """For an object that has the key."""
        if self.gone or value in self.forbidden:
            return False
        if self.allowed is not None and value not in self.allowed:
            return False
        return all(one.matches(labels) for one in self.compared.values())


def _stricter(known: Requirement | None, one: Requirement) -> Requirement:
    if known is None:
        return one
    least, most = sorted((known, one), key=lambda found: int(found.values[0]))
    return most if one.op == "gt" else least


def label_test(selector: Selector) -> Test:
    """Whether labels are as a selector wants."""
    if selector.nothing:
        return lambda labels: False
    conditions = _conditions(selector.requirements)
    needed = [key for key, one in conditions.items() if one.needed]

    def test(labels: Mapping[str, str]) -> bool:
        if len(needed) > len(labels) or not all(key in labels for key in needed):
            return False
        if len(conditions) <= len(labels):
            both = ((key, one) for key, one in conditions.items() if key in labels)
        else:
            both = ((key, conditions[key]) for key in labels if key in conditions)
        return all(one.holds(labels[key], labels) for key, one in both)

    return test


def field_test(selector: Selector) -> Test:
    """The same for fields: one that is absent is the empty string."""
    conditions = _conditions(selector.requirements)

    def test(fields: Mapping[str, str]) -> bool:
        return all(one.holds(fields.get(key, ""), fields) for key, one in conditions.items())

    return test


def _conditions(requirements: Iterable[Requirement]) -> dict[str, _Condition]:
    found: dict[str, _Condition] = {}
    for one in requirements:
        found.setdefault(one.key, _Condition()).add(one)
    return found
