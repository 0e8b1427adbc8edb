"""Jobs through a gateway: what the SDK asks of one, and what commands need beside it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from urllib.parse import quote

from corral.cli.errors import FORBIDDEN, Trouble
from corral.cli.session import Session, Target, kubeconfig_of
from corral.client import errors
from corral.client.kinds import JobKind, kind_of_object
from corral.client.queries import ListQuery
from corral.client.summary import Summary
from corral.client.watching import Change
from corral.kube.connection.config import ClusterConfig, ConfigError
from corral.kube.connection.kubeconfig import load_config
from corral.kube.types import Obj
from corral.sdk.gateway import GatewayAccess

__all__ = ["GatewayJobs", "gateway_session"]

_AGAIN = 1.0
"""Seconds between two looks at a collection."""


@asynccontextmanager
async def gateway_session(target: Target) -> AsyncIterator[Session]:
    """A session with the gateway of the target, as whoever the token says."""
    config = _config(target)
    jobs = GatewayJobs(
        target.gateway or "", token=_token(config), ca_file=os.environ.get("CORRAL_CA") or None
    )
    namespace = target.namespace or (config.namespace if config else "default")
    try:
        yield Session(target, jobs, namespace, None)
    finally:
        await jobs.close()


def _config(target: Target) -> ClusterConfig | None:
    path = kubeconfig_of(target)
    try:
        return load_config(path, target.context)
    except ConfigError:
        if target.kubeconfig is not None or target.context is not None:
            raise
        return None  # a gateway and a token are enough


def _token(config: ClusterConfig | None) -> str:
    token = os.environ.get("CORRAL_TOKEN", "")
    if not token and config is not None:
        token = config.token
        if not token and config.token_file:
            token = Path(config.token_file).read_text().strip()
    if token:
        return token
    raise Trouble(
        "the gateway needs a token, but none is set",
        code=FORBIDDEN,
        hint="set CORRAL_TOKEN, for example to the output of `kubectl create token NAME`",
    )


class GatewayJobs(GatewayAccess):
    """One gateway, with one bearer token."""

    async def summary(self, kind: JobKind, namespace: str, name: str) -> Summary:
        return Summary.read(await self._ask("GET", _path(kind, namespace, name, "status")))

    async def apply(
        self, obj: Obj, *, field_manager: str, namespace: str, dry_run: bool = False
    ) -> Obj:
        """Create it, or replace what is there."""
        kind = kind_of_object(obj)
        if kind is None:
            raise errors.NotSupported(
                f"a gateway does not take {obj.get('kind')}s",
                hint="apply other objects to the cluster itself, without --gateway",
            )
        try:
            return await self.create(kind, namespace, obj, dry_run=dry_run)
        except errors.AlreadyExists:
            if dry_run:
                return obj
        name = obj["metadata"]["name"]
        version = (await self.get(kind, namespace, name))["metadata"]["resourceVersion"]
        meta = {**obj["metadata"], "resourceVersion": version, "namespace": namespace}
        path = _path(kind, namespace, name, "")
        return await self._ask("PUT", path, body={**obj, "metadata": meta})

    async def delete(
        self, kind: JobKind, namespace: str, name: str, *, uid: str | None = None
    ) -> None:
        await super().delete(kind, namespace, name)

    async def watch(
        self,
        kind: JobKind,
        namespace: str | None,
        name: str | None = None,
        *,
        query: ListQuery | None = None,
    ) -> AsyncGenerator[Change, None]:
        """Of one object every change; of a collection what differs from one look to the next."""
        source = (
            super().watch(kind, namespace, name)
            if namespace and name
            else self._looks(kind, namespace, query or ListQuery())
        )
        async with aclosing(source) as changes:
            async for change in changes:
                yield change

    async def _looks(
        self, kind: JobKind, namespace: str | None, query: ListQuery
    ) -> AsyncGenerator[Change, None]:
        seen: dict[str, Obj] = {}
        while True:
            page = await self.list(kind, namespace, query)
            now = {obj["metadata"]["uid"]: obj for obj in page.items}
            for uid in seen.keys() - now.keys():
                yield Change("DELETED", seen[uid], kind.phase(seen[uid]))
            for uid, obj in now.items():
                if uid not in seen:
                    yield Change("ADDED", obj, kind.phase(obj))
                elif _version(seen[uid]) != _version(obj):
                    yield Change("MODIFIED", obj, kind.phase(obj))
            seen = now
            await asyncio.sleep(_AGAIN)

    async def wait(
        self,
        kind: JobKind,
        namespace: str,
        name: str,
        until: Callable[[Obj], bool] | str | Iterable[str],
        *,
        timeout: float,  # noqa: ASYNC109  # as Jobs.wait has it
    ) -> Obj:
        """The object when it is as wanted."""
        words = () if callable(until) else (until,) if isinstance(until, str) else tuple(until)
        wanted = {word.lower() for word in words}
        last: Obj | None = None
        try:
            async with (
                asyncio.timeout(timeout),
                aclosing(self.watch(kind, namespace, name)) as changes,
            ):
                async for change in changes:
                    last = change.object
                    if change.type == "DELETED":
                        break
                    if until(last) if callable(until) else change.phase.lower() in wanted:
                        return last
                    if wanted and "deleted" not in wanted and kind.finished(last):
                        raise errors.NeverHappens(
                            f"{kind.kind} {name!r} is {change.phase} and will not be "
                            f"{' or '.join(words)} any more",
                            obj=last,
                        )
        except errors.NotFound:
            if "deleted" not in wanted:
                raise
        except TimeoutError as err:
            goal = " or ".join(words) or "over"
            now = f"it is {kind.phase(last)}" if last else "it was never seen"
            text = f"{kind.kind} {name!r} was not {goal} within {timeout:g} s: {now}"
            raise errors.WaitTimeout(text, obj=last) from err
        if "deleted" in wanted:
            return last or {}
        raise errors.NotFound(f"{kind.kind} {name!r} was deleted")


def _path(kind: JobKind, namespace: str, name: str, verb: str) -> str:
    parts = ("/api/v1/namespaces", quote(namespace, safe=""), kind.plural, quote(name, safe=""))
    return "/".join((*parts, verb) if verb else parts)


def _version(obj: Obj) -> str:
    return str(obj["metadata"].get("resourceVersion"))
