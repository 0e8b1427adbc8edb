"""What our webhooks do: handlers by resource, and the paths they are asked at.

A *mutator* gets a copy of the object and changes it in place; a *validator* gives a `Verdict`; a
*converter* gives the object in another version. Each may be a plain function or a coroutine, and
each may give warnings. An `ApiError` that is raised refuses the request with that very Status;
anything else is a failure of ours, and the API server's failure policy decides.

`Hooks.kind` registers what a `Kind` knows about itself.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from corral.api.kind import Kind
from corral.kube.errors import ApiError
from corral.kube.problems import invalid
from corral.kube.resources import Resource
from corral.kube.types import Obj
from corral.runtime.webhooks.jsonpatch import json_patch, same
from corral.runtime.webhooks.review import AdmissionRequest, Verdict, allowed, patched, refused

__all__ = ["Converter", "FailurePolicy", "Hook", "Hooks", "Mutator", "Remarks", "Validator"]

Warnings: TypeAlias = Sequence[str] | None
Mutator: TypeAlias = Callable[[AdmissionRequest, Obj], Warnings | Awaitable[Warnings]]
Validator: TypeAlias = Callable[[AdmissionRequest], Verdict | Awaitable[Verdict]]
Converter: TypeAlias = Callable[[Obj, str], Obj | Awaitable[Obj]]
"""(object, wanted apiVersion) → the object in that version; metadata stays as it is."""
Remarks: TypeAlias = Callable[[Obj, Obj], Iterable[str]]
"""(new object, old object) → what is allowed but should be known."""
FailurePolicy: TypeAlias = Literal["Fail", "Ignore"]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hook:
    """One path that an API server asks about one resource."""

    path: str
    resource: Resource
    mutating: bool
    operations: tuple[str, ...]
    subresources: tuple[str, ...]
    answer: Callable[[AdmissionRequest], Awaitable[Obj]]

    @property
    def name(self) -> str:
        """The name in a configuration: three words at least, with dots."""
        verb = "mutate" if self.mutating else "validate"
        return f"{verb}.{self.resource.plural}.{self.resource.group or 'core'}"


class Hooks:
    """All handlers of one process."""

    def __init__(self) -> None:
        self.admission: dict[str, Hook] = {}
        """By path."""
        self.conversion: dict[str, Converter] = {}
        """By path."""

    def kind(
        self, kind: type[Kind], *, remarks: Remarks | None = None, early: bool = False
    ) -> None:
        """Default and validate objects of a kind by what the kind says.

        ``remarks`` are further warnings about a change. ``early`` refuses where defaults are set
        already: later, the API server has checked the schema, and whoever made a mistake there is
        told of that one alone.
        """
        resource = kind.resource()

        def mutate(request: AdmissionRequest, obj: Obj) -> None:
            kind.default(obj)
            if early and not (request.old is not None and _is_settled(obj, request.old)):
                problems = kind.validate(obj, request.old)
                if problems:
                    name = str((obj.get("metadata") or {}).get("name") or "")
                    raise invalid(kind.names.group, kind.names.kind, name, problems)

        def validate(request: AdmissionRequest) -> Verdict:
            new, old = request.object or {}, request.old
            if old is not None and _is_settled(new, old):
                return Verdict()
            warnings = kind.warnings(new, old)
            if remarks is not None and old is not None:
                warnings = [*warnings, *remarks(new, old)]
            return Verdict(kind.validate(new, old), warnings)

        self.mutating(resource, mutate)
        self.validating(resource, validate)

    def mutating(
        self,
        resource: Resource,
        mutator: Mutator,
        *,
        operations: tuple[str, ...] = ("CREATE", "UPDATE"),
        subresources: tuple[str, ...] = (),
    ) -> None:
        """Ask ``mutator`` before an object is written."""

        async def answer(request: AdmissionRequest) -> Obj:
            if request.object is None:
                return allowed(request)
            changed = deepcopy(request.object)
            try:
                warnings = await _awaited(mutator(request, changed))
            except ApiError as error:
                return refused(request, error)
            return patched(request, json_patch(request.object, changed), warnings or ())

        path = f"/mutate/{resource.qualified}"
        self._add(Hook(path, resource, True, operations, subresources, answer))

    def validating(
        self,
        resource: Resource,
        validator: Validator,
        *,
        operations: tuple[str, ...] = ("CREATE", "UPDATE"),
        subresources: tuple[str, ...] = (),
    ) -> None:
        """Ask ``validator`` before an object is written (or deleted, where asked for)."""

        async def answer(request: AdmissionRequest) -> Obj:
            try:
                verdict = await _awaited(validator(request))
            except ApiError as error:
                return refused(request, error)
            if verdict.errors:
                return refused(request, verdict.errors, verdict.warnings)
            return allowed(request, verdict.warnings)

        path = f"/validate/{resource.qualified}"
        self._add(Hook(path, resource, False, operations, subresources, answer))

    def converting(self, resource: Resource, converter: Converter) -> None:
        """Convert objects between the versions of a definition."""
        self.conversion[f"/convert/{resource.qualified}"] = converter

    def _add(self, hook: Hook) -> None:
        if hook.path in self.admission:
            raise ValueError(f"{hook.name} is registered already")
        self.admission[hook.path] = hook


def _is_settled(new: Obj, old: Obj) -> bool:
    """Whether a change is none of a validator's business.

    An object that became invalid under newer rules must still lose its finalizers and be given
    labels.
    """
    if (new.get("metadata") or {}).get("deletionTimestamp"):
        return True
    return same(new.get("spec"), old.get("spec"))


async def _awaited(value: T | Awaitable[T]) -> T:
    if inspect.isawaitable(value):
        return await value
    return value
