"""allOf, anyOf, oneOf and not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from corral.cluster.apiserver.crd.problems import whole
from corral.cluster.apiserver.crd.types import Errors, Validator
from corral.kube.types import Obj

__all__ = ["compile_junctors"]


def compile_junctors(schema: Obj, compile_: Callable[[Obj], Validator]) -> Validator | None:
    """One validator for the node's junctors; None where it has none."""
    parts: list[Validator] = []
    for name, build in (("anyOf", _any_of), ("oneOf", _one_of), ("allOf", _all_of)):
        if schema.get(name):
            parts.append(build([compile_(sub) for sub in schema[name]]))
    if schema.get("not"):
        parts.append(_not(compile_(schema["not"])))
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]

    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        for part in parts:
            part(value, path, out, old)

    return validate


def _run(validator: Validator, value: Any, path: str, old: Any) -> Errors:
    found: Errors = []
    validator(value, path, found, old)
    return found


def _any_of(options: Sequence[Validator]) -> Validator:
    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        first: Errors | None = None
        for option in options:
            found = _run(option, value, path, old)
            if not found:
                return
            first = first or found
        out.append(whole(f'"{path}" must validate at least one schema (anyOf)'))
        out.extend(first or ())

    return validate


def _one_of(options: Sequence[Validator]) -> Validator:
    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        results = [_run(option, value, path, old) for option in options]
        fitting = sum(not found for found in results)
        if fitting == 1:
            return
        tally = f"Found {fitting} valid alternatives" if fitting else "Found none valid"
        out.append(whole(f'"{path}" must validate one and only one schema (oneOf). {tally}'))
        if not fitting:
            out.extend(results[0])

    return validate


def _all_of(options: Sequence[Validator]) -> Validator:
    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        results = [_run(option, value, path, old) for option in options]
        failed = sum(bool(found) for found in results)
        if not failed:
            return
        for found in results:
            out.extend(found)
        tally = ". None validated" if failed == len(options) else ""
        out.append(whole(f'"{path}" must validate all the schemas (allOf){tally}'))

    return validate


def _not(option: Validator) -> Validator:
    def validate(value: Any, path: str, out: Errors, old: Any) -> None:
        if not _run(option, value, path, old):
            out.append(whole(f'"{path}" must not validate the schema (not)'))

    return validate
