"""Which job is meant by ``NAME``, ``KIND/NAME`` or ``KIND NAME``, and by one that is not there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from corral.cli.errors import NOT_FOUND, USAGE, Trouble
from corral.cli.session import Session
from corral.kube.types import Obj

if TYPE_CHECKING:
    from corral.client.kinds import JobKind

__all__ = ["Found", "find", "job_kinds", "missing", "parse"]


@dataclass(frozen=True, slots=True)
class Found:
    """A job that is there."""

    kind: JobKind
    name: str
    obj: Obj

    @property
    def title(self) -> str:
        """``trainingjob/digits``, as other commands take it."""
        return f"{self.kind.singular}/{self.name}"


def job_kinds() -> list[JobKind]:
    """The kinds with pods: what people mean by a job."""
    from corral.client.kinds import KINDS

    return [kind for kind in KINDS if kind.pod_selector is not None]


def parse(words: Sequence[str]) -> tuple[JobKind | None, str]:
    """The kind, where it was named, and the name.

    Raises:
        Trouble: the words do not name one job.
        UnknownKind: there is no such kind.
    """
    from corral.client.kinds import kind_of

    if len(words) == 1 and "/" not in words[0]:
        return None, words[0]
    parts = words[0].split("/") if len(words) == 1 else list(words)
    if len(parts) != 2 or not all(parts):
        raise Trouble(
            f"{' '.join(words)!r} does not name one job",
            code=USAGE,
            hint="write NAME, KIND/NAME or KIND NAME",
        )
    return kind_of(parts[0]), parts[1]


async def find(session: Session, words: Sequence[str]) -> Found:
    """The job that is meant.

    Raises:
        Trouble: there is none, or several kinds have one of that name.
    """
    from corral.client import errors

    kind, name = parse(words)
    if kind is not None:
        try:
            return Found(kind, name, await session.jobs.get(kind, session.namespace, name))
        except errors.NotInstalled:
            raise
        except errors.NotFound as err:
            raise await missing(session, [kind], name) from err
    found, unknown = await _search(session, name)
    if not found:
        raise await missing(session, unknown or job_kinds(), name)
    if len(found) > 1:
        titles = " or ".join(one.title for one in found)
        raise Trouble(f"{name!r} is ambiguous: {titles}", code=USAGE, hint="give the kind too")
    return found[0]


async def _search(session: Session, name: str) -> tuple[list[Found], list[JobKind]]:
    """Jobs of the name, and the kinds that the cluster knows."""
    import asyncio

    from corral.client import errors

    known: list[JobKind] = []
    refused: list[errors.Forbidden] = []

    async def one(kind: JobKind) -> Found | None:
        try:
            obj = await session.jobs.get(kind, session.namespace, name)
        except errors.NotInstalled:
            return None
        except errors.NotFound:
            known.append(kind)
            return None
        except errors.Forbidden as err:
            refused.append(err)
            return None
        return Found(kind, name, obj)

    answers = await asyncio.gather(*(one(kind) for kind in job_kinds()))
    found = [answer for answer in answers if answer is not None]
    if not found and not known:
        if refused:
            raise refused[0]
        raise Trouble(
            "no job kinds are installed in this cluster",
            code=NOT_FOUND,
            hint="run `corral install`",
        )
    return found, known


async def missing(session: Session, kinds: Sequence[JobKind], name: str) -> Trouble:
    """That there is none, with what may have been meant: a name that looks alike, or elsewhere."""
    what = kinds[0].singular if len(kinds) == 1 else "job"
    here: list[str] = []
    elsewhere: list[str] = []
    for kind in kinds:
        for obj in await _all(session, kind):
            meta = obj["metadata"]
            if meta.get("namespace") == session.namespace:
                here.append(meta["name"])
            elif meta["name"] == name:
                elsewhere.append(meta["namespace"])
    close = get_close_matches(name, here, n=1, cutoff=0.6)
    if elsewhere:
        hint = f"it exists in namespace {elsewhere[0]}: add -n {elsewhere[0]}"
    elif close:
        hint = f"did you mean {close[0]!r}?"
    else:
        hint = "`corral get` lists the jobs; -n chooses the namespace"
    text = f"there is no {what} {name!r} in namespace {session.namespace}"
    return Trouble(text, code=NOT_FOUND, hint=hint)


async def _all(session: Session, kind: JobKind) -> list[Obj]:
    """Everywhere, or here where that is not allowed; nothing where that is not either."""
    from corral.client import ListQuery, errors

    for namespace in (None, session.namespace):
        try:
            return (await session.jobs.list(kind, namespace, ListQuery())).items
        except (errors.Forbidden, errors.NotFound, errors.NotSupported):
            continue
    return []
