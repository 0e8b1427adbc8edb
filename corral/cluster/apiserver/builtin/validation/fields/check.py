"""The vocabulary in which the rules of a struct are written as a table.

A `Check` appends what is wrong with the value at a path. The checks of this module are made of
others: `struct` holds one check per line, and applies them in that order to the same struct. The
checks of a field are named after what happens when the field is absent: `needed` and `given`
report it, `optional` and `pointer` skip it, `always` takes the zero value. Names of several fields
may stand in one text, separated by spaces.

Tables are built once, when their module is loaded. Rules that tie fields together in ways of
their own are functions with the signature of a check, and stand in a table like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from corral.cluster.apiserver.builtin.validation.fields import names
from corral.cluster.apiserver.builtin.validation.fields.errors import NEGATIVE, Errors
from corral.cluster.apiserver.builtin.validation.fields.quantities import canonical, nano
from corral.kube.types import Obj

__all__ = [
    "LABEL", "PATH_SEGMENT", "PORT", "QUALIFIED", "SUBDOMAIN", "Check", "always", "at", "at_least",
    "at_most", "choice", "counts", "each", "fewer", "format_of", "given", "holds", "inside",
    "items", "joined", "needed", "no_repeats", "optional", "pointer", "quantity", "refused",
    "shorter", "struct", "union", "unset", "when", "within",
]  # fmt: skip

Check: TypeAlias = Callable[[Errors, Any, str], object]
"""``check(errs, value, path)``: appends what is wrong with the value."""


def at(path: str, name: str) -> str:
    """The path of a field of the struct at ``path``, which is empty for a whole object."""
    return f"{path}.{name}" if path else name


# -- values ----------------------------------------------------------------------------------------


class Leaf:
    """The check of one plain value, whose path is only made when something is wrong with it."""

    __slots__ = ("problem", "report")

    def __init__(self, problem: Callable[[Any], object], report: Check) -> None:
        """Take what is true of wrong values, and what says so."""
        self.problem = problem
        self.report = report

    def __call__(self, errs: Errors, value: Any, path: str) -> None:
        if self.problem(value):
            self.report(errs, value, path)


def format_of(rule: Callable[[Any], Iterable[str]]) -> Check:
    """The value must be well formed: ``rule`` returns the messages about it."""
    return Leaf(rule, lambda errs, value, path: errs.format(path, value, rule))


SUBDOMAIN = format_of(names.dns_subdomain)
LABEL = format_of(names.dns_label)
QUALIFIED = format_of(names.qualified_name)
PATH_SEGMENT = format_of(names.path_segment)
PORT = format_of(names.port_number)


def joined(rule: Callable[[Any], Sequence[str]]) -> Check:
    """The value must be well formed; all messages about it stand in one error."""
    return Leaf(rule, lambda errs, value, path: errs.invalid(path, value, ",".join(rule(value))))


def choice(*allowed: str) -> Check:
    """The value must be one of these."""
    return Leaf(
        lambda value: value not in allowed,
        lambda errs, value, path: errs.not_supported(path, value, allowed),
    )


def refused(why: str) -> Check:
    """No value is right here."""
    return lambda errs, value, path: errs.invalid(path, value, why)


def holds(test: Callable[[Any], object], why: str) -> Check:
    """``test`` must be true of the value."""
    return Leaf(lambda value: not test(value), refused(why))


def at_least(low: int, why: str) -> Check:
    """A number that is not below ``low``."""
    return Leaf(lambda number: number < low, refused(why))


def at_most(high: int, why: str) -> Check:
    """A number that is not above ``high``."""
    return Leaf(lambda number: number > high, refused(why))


def within(low: int, high: int, why: str) -> Check:
    """A number from ``low`` to ``high``, both included."""
    return Leaf(lambda number: not low <= number <= high, refused(why))


def quantity(low: int, why: str) -> Check:
    """A quantity of at least ``low`` billionths."""
    return Leaf(
        lambda value: nano(value) < low,
        lambda errs, value, path: errs.invalid(path, canonical(value), why),
    )


def shorter(most: int) -> Check:
    """A text of at most so many characters."""
    return Leaf(
        lambda value: len(value) > most, lambda errs, value, path: errs.too_long(path, most)
    )


def fewer(most: int) -> Check:
    """A list or map of at most so many items."""
    return Leaf(
        lambda value: len(value) > most,
        lambda errs, value, path: errs.too_many(path, len(value), most),
    )


def each(check: Check, *, unique: str = "", unique_first: str = "") -> Check:
    """Every element of a list; no two may have the same value of the field ``unique``.

    Args:
        check: the check of one element.
        unique: a field whose repetition is reported after what else is wrong with an element.
        unique_first: a field whose repetition is reported before that.
    """
    key = unique or unique_first

    def check_all(errs: Errors, items: Any, path: str) -> None:
        seen: set[Any] = set()
        for i, item in enumerate(items or ()):
            where = f"{path}[{i}]"
            if not unique_first:
                check(errs, item, where)
            if key:
                value = item.get(key) or ""
                if value in seen:
                    errs.duplicate(f"{where}.{key}", value)
                seen.add(value)
            if unique_first:
                check(errs, item, where)

    return check_all


def items(name: str, check: Check, *, unique: str = "", unique_first: str = "") -> Check:
    """Every element of the list in a field; see `each`."""
    return always(name, each(check, unique=unique, unique_first=unique_first), ())


def no_repeats(errs: Errors, items: Any, path: str) -> None:
    """Check that no element of a list repeats another."""
    seen: set[Any] = set()
    for i, item in enumerate(items or ()):
        if item in seen:
            errs.duplicate(f"{path}[{i}]", item)
        seen.add(item)


def struct(*checks: Check) -> Check:
    """Several checks of one value, in this order."""

    def check_all(errs: Errors, value: Any, path: str) -> None:
        for check in checks:
            check(errs, value, path)

    return check_all


# -- fields of a struct ----------------------------------------------------------------------------


def _anything(value: Any) -> bool:
    return True


def _parts(check: Check) -> tuple[Callable[[Any], object], Check]:
    """When to apply a check, and what."""
    return (check.problem, check.report) if isinstance(check, Leaf) else (_anything, check)


def _nothing(errs: Errors, value: Any, path: str) -> None:
    """Find nothing wrong."""


def _field(fields: str, check: Check | None, why: str | None, *, empty: bool) -> Check:
    """Fields that are missing when null, or ``empty``; skipped then if ``why`` is None."""
    each_name = fields.split()
    problem, report = _parts(check or Leaf(bool, _nothing))

    def check_fields(errs: Errors, holder: Any, path: str) -> None:
        for name in each_name:
            value = holder.get(name)
            if value is None or (empty and not value):
                if why is not None:
                    errs.required(at(path, name), why)
            elif problem(value):
                report(errs, value, f"{path}.{name}" if path else name)

    return check_fields


def needed(fields: str, check: Check | None = None, why: str = "") -> Check:
    """Fields that must not be empty."""
    return _field(fields, check, why, empty=True)


def given(fields: str, check: Check | None = None, why: str = "") -> Check:
    """Fields that must be there, if only with an empty value."""
    return _field(fields, check, why, empty=False)


def optional(fields: str, check: Check) -> Check:
    """Fields that are only looked at when they are not empty."""
    return _field(fields, check, None, empty=True)


def pointer(fields: str, check: Check) -> Check:
    """Fields that are looked at whenever they are there, empty or not."""
    return _field(fields, check, None, empty=False)


def always(fields: str, check: Check, zero: Any = "") -> Check:
    """Fields that count as their zero value when they are absent."""
    each_name = fields.split()
    problem, report = _parts(check)

    def check_fields(errs: Errors, holder: Any, path: str) -> None:
        for name in each_name:
            value = holder.get(name) or zero
            if problem(value):
                report(errs, value, f"{path}.{name}" if path else name)

    return check_fields


def inside(name: str, *checks: Check) -> Check:
    """Checks of the struct in a field; one that is absent counts as empty."""

    def check_all(errs: Errors, holder: Any, path: str) -> None:
        value, where = holder.get(name) or {}, f"{path}.{name}" if path else name
        for check in checks:
            check(errs, value, where)

    return check_all


def unset(fields: str, why: str) -> Check:
    """Fields that may not be there."""
    each_name = fields.split()

    def check(errs: Errors, holder: Any, path: str) -> None:
        for name in each_name:
            if holder.get(name) is not None:
                errs.forbidden(at(path, name), why)

    return check


def counts(fields: str) -> Check:
    """Numbers that must not be below zero."""
    each_name = fields.split()

    def check(errs: Errors, holder: Any, path: str) -> None:
        for name in each_name:
            number = holder.get(name)
            if number is not None and number < 0:
                errs.invalid(at(path, name), number, NEGATIVE)

    return check


# -- structs as a whole ----------------------------------------------------------------------------


def when(test: Callable[[Obj], object], *checks: Check, otherwise: Check | None = None) -> Check:
    """Checks that only apply to structs of which ``test`` is true."""

    def check_all(errs: Errors, holder: Any, path: str) -> None:
        if test(holder):
            for check in checks:
                check(errs, holder, path)
        elif otherwise is not None:
            otherwise(errs, holder, path)

    return check_all


def union(name: str, cases: Mapping[str, Check], otherwise: Check | None = None) -> Check:
    """Checks of the struct that depend on the value of its field ``name``."""

    def check(errs: Errors, holder: Any, path: str) -> None:
        found = cases.get(holder.get(name) or "", otherwise)
        if found is not None:
            found(errs, holder, path)

    return check
