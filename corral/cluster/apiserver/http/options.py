"""The query options of writes: dry run, field manager, field validation, force."""

from __future__ import annotations

import re
from collections.abc import Mapping

from aiohttp import web
from multidict import MultiMapping

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.fairness.dispatch import Seat
from corral.cluster.apiserver.requests import Context
from corral.kube.types import Obj

MAX_MANAGER = 128
APPLY = "application/apply-patch+yaml"
WARNINGS: web.RequestKey[list[str]] = web.RequestKey("warnings", list[str])
"""Where a request keeps its warnings; a refusal carries them as well."""
SEAT: web.RequestKey[Seat] = web.RequestKey("seat", Seat)
"""Where it keeps its place among the others."""


def write_context(
    request: web.BaseRequest,
    user: UserInfo,
    options_kind: str,
    *,
    patch_type: str = "",
    size: int = 0,
) -> Context:
    """Check the query and make the context of a write. Raises Invalid with every problem."""
    query = request.query
    problems = _dry_run(query) + _manager(query) + _validation(query)
    force = query.get("force")
    if options_kind == "PatchOptions":
        if patch_type == APPLY and not query.get("fieldManager"):
            problems.append(say.required("fieldManager", "is required for apply patch"))
        if patch_type != APPLY and force is not None:
            problems.append(
                say.forbidden_field("force", "may not be specified for non-apply patch")
            )
    if problems:
        raise say.invalid("meta.k8s.io", options_kind, "", problems)
    context = Context(
        user,
        manager=query.get("fieldManager") or agent(request.headers),
        dry_run="dryRun" in query and bool(query["dryRun"]),
        field_validation=query.get("fieldValidation") or "Warn",
        force=force is not None and force.lower() not in ("false", "0"),
        size=size,
    )
    request[WARNINGS] = context.warnings  # a refusal carries them as well
    return context


def agent(headers: Mapping[str, str]) -> str:
    """The manager of a client that names none: its program, from the User-Agent."""
    name = headers.get("User-Agent", "").split("/", 1)[0][:MAX_MANAGER]
    return "".join(c for c in name if c.isprintable()) or "unknown"


def _dry_run(query: MultiMapping[str]) -> list[say.FieldError]:
    values = [v for v in query.getall("dryRun", []) if v]
    if all(value == "All" for value in values):
        return []
    return [say.not_supported("dryRun", values, ["All"])]


def _manager(query: MultiMapping[str]) -> list[say.FieldError]:
    manager = query.get("fieldManager", "")
    problems = []
    if len(manager) > MAX_MANAGER:
        problems.append(say.too_long("fieldManager", MAX_MANAGER))
    for index, char in enumerate(manager):
        if not char.isprintable():
            problems.append(
                say.invalid_value(
                    "fieldManager",
                    manager,
                    f"invalid character U+{ord(char):04X} (at position {index})"
                    if ord(char) < 32
                    else "should only contain printable characters",
                )
            )
            break
    return problems


def _validation(query: MultiMapping[str]) -> list[say.FieldError]:
    value = query.get("fieldValidation", "")
    if value in ("", "Ignore", "Warn", "Strict"):
        return []
    return [say.not_supported("fieldValidation", value, ["", "Ignore", "Strict", "Warn"])]


def query_delete_options(query: MultiMapping[str]) -> Obj:
    """DeleteOptions given in the query, as some clients do."""
    options: Obj = {}
    grace = query.get("gracePeriodSeconds")
    if grace is not None and re.fullmatch(r"-?[0-9]{1,19}", grace):
        options["gracePeriodSeconds"] = int(grace)
    if query.get("propagationPolicy"):
        options["propagationPolicy"] = query["propagationPolicy"]
    if query.get("orphanDependents"):
        options["orphanDependents"] = query["orphanDependents"].lower() == "true"
    if query.get("dryRun"):
        options["dryRun"] = [v for v in query.getall("dryRun") if v]
    return options
