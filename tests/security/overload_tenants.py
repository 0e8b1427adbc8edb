"""Two tenants of one server, with all rights in a namespace each and none elsewhere."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from tests.backends import Backend

Obj = dict[str, Any]
APPLY = "application/apply-patch+yaml"
STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Tenant:
    """A service account, its namespace, its connections."""

    def __init__(self, backend: Backend, namespace: str, session: aiohttp.ClientSession) -> None:
        self.backend = backend
        self.namespace = namespace
        self.user = f"system:serviceaccount:{namespace}:tenant"
        self._session = session

    def path(self, plural: str, name: str = "") -> str:
        base = f"/api/v1/namespaces/{self.namespace}/{plural}"
        return f"{base}/{name}" if name else base

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        form: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any, Any]:
        """Code, headers and parsed body of an answer."""
        data = {"data": body} if isinstance(body, bytes) else {"json": body}
        async with self._session.request(
            method,
            self.backend.server + path,
            headers={"Content-Type": form, **(headers or {})},
            **({} if body is None else data),
        ) as answer:
            raw = await answer.read()
            try:
                return answer.status, answer.headers, await answer.json(content_type=None)
            except ValueError:
                return answer.status, answer.headers, raw

    async def code(self, method: str, path: str, body: Any = None, **options: Any) -> int:
        return (await self.send(method, path, body, **options))[0]

    def stream(self, path: str) -> Any:
        return self._session.get(self.backend.server + path)


@asynccontextmanager
async def tenants(backend: Backend, unique: str) -> AsyncIterator[tuple[Tenant, Tenant]]:
    """The loud one and the quiet one, who has an object called ``small``."""
    names = (f"loud-{unique}", f"quiet-{unique}")
    tokens = [_tenant(backend, name) for name in names]
    async with sessions(backend, tokens) as made:
        loud, quiet = (
            Tenant(backend, name, session) for name, session in zip(names, made, strict=True)
        )
        small = {"metadata": {"name": "small"}, "data": {"a": "b"}}
        assert await quiet.code("POST", quiet.path("configmaps"), small) == 201
        yield loud, quiet
    for name in names:
        backend.request("DELETE", f"/api/v1/namespaces/{name}")


@asynccontextmanager
async def sessions(
    backend: Backend, tokens: list[str]
) -> AsyncIterator[list[aiohttp.ClientSession]]:
    made = []
    for token in tokens:
        tls = ssl.create_default_context(cafile=backend.ca_file)
        made.append(
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=tls, limit=0),
                headers={"Authorization": f"Bearer {token}"},
                timeout=aiohttp.ClientTimeout(total=120),
            )
        )
    try:
        yield made
    finally:
        for session in made:
            await session.close()


def _tenant(backend: Backend, name: str) -> str:
    """Make a namespace and who may do everything in it; the token."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}
    inside = f"/api/v1/namespaces/{name}"
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"}
    subject = {"kind": "ServiceAccount", "name": "tenant", "namespace": name}
    meta = {"metadata": {"name": "tenant"}}
    for path, body in (
        ("/api/v1/namespaces", {"metadata": {"name": name}}),
        (f"{inside}/serviceaccounts", meta),
        (f"{rbac}/namespaces/{name}/roles", {**meta, "rules": [rule]}),
        (
            f"{rbac}/namespaces/{name}/rolebindings",
            {**meta, "roleRef": role, "subjects": [subject]},
        ),
    ):
        reply = backend.request("POST", path, body)
        assert reply.code == 201, reply.body
    reply = backend.request("POST", f"{inside}/serviceaccounts/tenant/token", {"spec": {}})
    token: str = reply.json()["status"]["token"]
    return token


async def served_meanwhile(
    attack: list[Awaitable[Any]], quiet: Tenant, *, reads: int = 10
) -> tuple[int, list[Any]]:
    """How much of an attack was over when the quiet tenant had its answers; and its outcome."""
    tasks = [asyncio.ensure_future(work) for work in attack]
    await asyncio.sleep(0.05)  # they are sent
    for _ in range(reads):
        assert await quiet.code("GET", quiet.path("configmaps", "small")) == 200
    over = sum(task.done() for task in tasks)
    return over, list(await asyncio.gather(*tasks))


async def until(check: Callable[[], bool], *, seconds: float = 30) -> None:
    """Return when a check holds; bounded."""
    async with asyncio.timeout(seconds):
        while not check():  # noqa: ASYNC110 -- many things may make it hold
            await asyncio.sleep(0.01)
