"""Selectors made ready: a test costs what an object has labels, however long the selector is.

All requirements about one key become one condition, whose values are sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from corral.kube.selectors import Requirement, Selector

__all__ = ["Conditions", "Test", "field_test", "label_test"]

Test = Callable[[Mapping[str, str]], bool]


class _Condition:
    """What a selector wants of one key."""

    __slots__ = ("allowed", "compared", "forbidden", "gone", "needed")

    def __init__(self) -> None:
        self.needed = self.gone = False
        self.allowed: set[str] | None = None
        """None: any value."""
        self.forbidden: set[str] = set()
        self.compared: dict[str, Requirement] | None = None

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
                known = self.compared = self.compared or {}
                known[one.op] = _stricter(known.get(one.op), one)

    def holds(self, value: str, labels: Mapping[str, str]) -> bool:
        """For an object that has the key."""
        if self.gone or value in self.forbidden:
            return False
        if self.allowed is not None and value not in self.allowed:
            return False
        compared = self.compared
        return compared is None or all(one.matches(labels) for one in compared.values())


def _stricter(known: Requirement | None, one: Requirement) -> Requirement:
    if known is None:
        return one
    least, most = sorted((known, one), key=lambda found: int(found.values[0]))
    return most if one.op == "gt" else least


class Conditions:
    """What a selector wants, by key."""

    def __init__(self, requirements: Iterable[Requirement] = ()) -> None:
        self._by_key: dict[str, _Condition] = {}
        self._needed: set[str] = set()
        self.add(requirements)

    def add(self, requirements: Iterable[Requirement]) -> None:
        """These as well."""
        for one in requirements:
            found = self._by_key.get(one.key)
            if found is None:
                found = self._by_key[one.key] = _Condition()
            found.add(one)
            if found.needed:
                self._needed.add(one.key)

    def hold_for_labels(self, labels: Mapping[str, str]) -> bool:
        """Whether labels are as wanted."""
        needed, conditions = self._needed, self._by_key
        if len(needed) > len(labels) or not all(key in labels for key in needed):
            return False
        if len(conditions) <= len(labels):
            both = ((key, one) for key, one in conditions.items() if key in labels)
        else:
            both = ((key, conditions[key]) for key in labels if key in conditions)
        return all(one.holds(labels[key], labels) for key, one in both)

    def hold_for_fields(self, fields: Mapping[str, str]) -> bool:
        """The same for fields: one that is absent is the empty string."""
        return all(one.holds(fields.get(key, ""), fields) for key, one in self._by_key.items())


def label_test(selector: Selector) -> Test:
    """Whether labels are as a selector wants."""
    if selector.nothing:
        return lambda labels: False
    return Conditions(selector.requirements).hold_for_labels


def field_test(selector: Selector) -> Test:
    """The same for fields."""
    return Conditions(selector.requirements).hold_for_fields
