"""What is declared for one kind: how it is named, and the checks of its writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.check import Check, at
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import NameRule, name_is_subdomain
from corral.kube.types import Obj

__all__ = ["Change", "Create", "Kinds", "Rules", "again", "changes", "fixed", "same_again",
           "whole"]  # fmt: skip

Create = Callable[[Errors, Obj], None]
"""``create(errs, obj)``: appends what is wrong with a whole object."""
Change = Callable[[Errors, Obj, Obj], None]
"""``change(errs, new, old)``: appends what is wrong with an update."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What is checked for one kind beyond the common metadata."""

    create: Create | None = None
    update: Change | None = None
    status: Change | None = None
    name: NameRule = name_is_subdomain
    namespaced: bool = True
    meta_last: bool = False
    """The kind checks its metadata only when the rest is sound."""
    kube_finalizers: bool = True
    """Finalizers must be qualified or standard names."""


Kinds = dict[tuple[str, str], Rules]
"""Rules by group and kind."""


def whole(*checks: Check) -> Create:
    """A table of checks of a whole object."""

    def create(errs: Errors, obj: Obj) -> None:
        for check in checks:
            check(errs, obj, "")

    return create


def again(create: Create) -> Change:
    """Check the new object of an update like one that is created."""

    def change(errs: Errors, new: Obj, old: Obj) -> None:
        create(errs, new)

    return change


def fixed(path: str, names: str, *, zero: Any = None, beta: bool = False) -> Change:
    """Fields of the struct at ``path`` that may not change; the whole object has an empty path.

    Args:
        path: the name of the field that holds them.
        names: the fields, separated by spaces.
        zero: what an absent field counts as.
        beta: the API checks them by declaration, and does not print the value.
    """
    fields = names.split()

    def change(errs: Errors, new: Obj, old: Obj) -> None:
        after, before = ((o.get(path) or {}) if path else o for o in (new, old))
        for name in fields:
            report = errs.immutable_beta if beta else errs.immutable
            report(at(path, name), after.get(name, zero), before.get(name, zero))

    return change


def changes(*steps: Change) -> Change:
    """Several checks of an update, in this order."""

    def change(errs: Errors, new: Obj, old: Obj) -> None:
        for step in steps:
            step(errs, new, old)

    return change


def same_again(
    create: Create,
    *,
    name: NameRule = name_is_subdomain,
    namespaced: bool = True,
    kube_finalizers: bool = True,
) -> Rules:
    """Rules of a kind whose updates are checked like creations."""
    return Rules(
        create, again(create), name=name, namespaced=namespaced, kube_finalizers=kube_finalizers
    )
