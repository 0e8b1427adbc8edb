"""Words that a shell completes: kinds, and the names of jobs.

A shell waits for the answer, so the cluster gets two seconds (`CORRAL_COMPLETION_SECONDS` of them);
whatever goes wrong, nothing is completed and nothing is said.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import typer

__all__ = ["complete_jobs", "complete_kinds", "script"]

_PATIENCE: Final = "2"
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
SHELLS: Final = ("bash", "zsh", "fish")


def script(program: str, shell: str) -> str:
    """What a shell has to source so that it completes the words of a program."""
    from typer._completion_shared import get_completion_script

    variable = f"_{program.upper()}_COMPLETE"
    return get_completion_script(prog_name=program, complete_var=variable, shell=shell)


def complete_kinds(ctx: typer.Context, args: list[str], incomplete: str) -> list[str]:
    """Kinds at first, then names of the kind."""
    before = _words(ctx, "what")
    if before:
        return complete_names(ctx, before[0], incomplete)
    if "/" in incomplete:
        kind, _, start = incomplete.partition("/")
        return [f"{kind}/{name}" for name in complete_names(ctx, kind, start)]
    from corral.client.kinds import KINDS

    words = sorted(kind.plural for kind in KINDS)
    return [word for word in words if word.startswith(incomplete)]


def complete_jobs(ctx: typer.Context, args: list[str], incomplete: str) -> list[str]:
    """Names of jobs, or ``KIND/NAME``; after a kind names of that kind."""
    before = _words(ctx, "job")
    if len(before) > 1:
        return []
    if before:
        return complete_names(ctx, before[0], incomplete)
    if "/" in incomplete:
        kind, _, start = incomplete.partition("/")
        return [f"{kind}/{name}" for name in complete_names(ctx, kind, start)]
    return complete_names(ctx, "", incomplete)


def complete_names(ctx: typer.Context, kind: str, incomplete: str) -> list[str]:
    """Names of a kind, or of all jobs; empty when the cluster does not say."""
    import asyncio

    try:
        names = asyncio.run(_names(ctx, kind))
    except Exception:  # a shell that completes has nowhere to show an error
        return []
    # a shell gets names only: what is none could be anything to it
    return sorted(name for name in names if _NAME.fullmatch(name) and name.startswith(incomplete))


def _words(ctx: typer.Context, parameter: str) -> list[str]:
    given: Any = ctx.params.get(parameter) or ()
    return [given] if isinstance(given, str) else list(given)


async def _names(ctx: typer.Context, kind: str) -> set[str]:
    import asyncio

    from corral.cli.references import job_kinds
    from corral.cli.session import ClusterOptions, opened
    from corral.client import ListQuery, errors
    from corral.client.kinds import kind_of

    path = ctx.params.get("kubeconfig")
    target = ClusterOptions(
        namespace=ctx.params.get("namespace"),
        kubeconfig=Path(path) if path else None,
        context=ctx.params.get("context"),
        gateway=ctx.params.get("gateway"),
    )
    names: set[str] = set()
    patience = float(os.environ.get("CORRAL_COMPLETION_SECONDS", _PATIENCE))
    async with asyncio.timeout(patience), opened(target) as session:
        for one in [kind_of(kind)] if kind else job_kinds():
            try:
                page = await session.jobs.list(one, session.namespace, ListQuery())
            except errors.JobError:
                continue
            names.update(str(obj["metadata"]["name"]) for obj in page.items)
    return names
