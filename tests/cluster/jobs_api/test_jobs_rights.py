"""Callers with tokens: what they may do is what the API server lets them do, and nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from corral.client import errors
from corral.gateway.auth import Caller
from corral.gateway.clients import Upstream
from corral.gateway.etags import etag_of, read_etags
from corral.gateway.service import Gateway
from corral.kube import KubeClient
from corral.kube.resources import NAMESPACES, ROLEBINDINGS, ROLES, SERVICEACCOUNTS
from tests.cluster.jobs_api.manifests_of_jobs import mpi

KIND = "mpijobs"


async def account(client: KubeClient, namespace: str, name: str, verbs: tuple[str, ...]) -> Caller:
    """A service account with these rights to MPIJobs of its namespace."""
    await client.create(SERVICEACCOUNTS, {"metadata": {"name": name}}, namespace=namespace)
    if verbs:
        groups = {"apiGroups": ["kubeflow.org"], "resources": [KIND], "verbs": list(verbs)}
        role = {"metadata": {"name": name}, "rules": [groups]}
        await client.create(ROLES, role, namespace=namespace)
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": namespace}],
        }
        await client.create(ROLEBINDINGS, binding, namespace=namespace)
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    made = await client.create_subresource(
        SERVICEACCOUNTS, name, subresource="token", body=asked, namespace=namespace
    )
    return Caller(made["status"]["token"])


@pytest.fixture
async def gateway(client: KubeClient) -> AsyncIterator[Gateway]:
    """It knows where the cluster is, and has no credentials."""
    gateway = Gateway(Upstream.of(client.config))
    yield gateway
    await gateway.close()


@pytest.fixture
async def editor(client: KubeClient, namespace: str) -> Caller:
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
    caller = await account(client, namespace, "editor", verbs)
    return caller


async def allowed(gateway: Gateway, caller: Caller, namespace: str) -> None:
    """Rights take a moment until every cache of the server has them."""
    async with asyncio.timeout(30):
        while True:
            try:
                await gateway.list(caller, KIND, namespace=namespace)
                return
            except errors.Forbidden:
                await asyncio.sleep(0.05)


async def test_without_rights(gateway: Gateway, client: KubeClient, namespace: str) -> None:
    nobody = await account(client, namespace, "nobody", ())
    with pytest.raises(errors.Forbidden) as caught:
        await gateway.create(nobody, KIND, namespace=namespace, obj=mpi("pi"))
    user = f"system:serviceaccount:{namespace}:nobody"
    assert caught.value.message == (
        f"{user} may not create mpijobs.kubeflow.org in namespace '{namespace}'"
    )
    assert (caught.value.user, caught.value.verb) == (user, "create")
    assert "kubectl get rolebindings,clusterrolebindings" in caught.value.hint
    with pytest.raises(errors.Forbidden, match=r"may not list mpijobs\.kubeflow\.org in the whole"):
        await gateway.list(nobody, KIND, namespace=None)
    with pytest.raises(errors.Unauthorized):
        await gateway.list(Caller("no-token-of-anybody"), KIND, namespace=namespace)
    assert await gateway.who(nobody) == user


async def test_a_token_of_one_namespace_sees_nothing_of_another(
    gateway: Gateway, client: KubeClient, namespace: str, editor: Caller, unique: str
) -> None:
    other = f"other-{unique}"
    await client.create(NAMESPACES, {"metadata": {"name": other}})
    try:
        await client.create(
            (await client.resource_for("kubeflow.org/v2beta1", "MPIJob")),
            mpi("secret"),
            namespace=other,
        )
        await allowed(gateway, editor, namespace)
        await gateway.create(editor, KIND, namespace=namespace, obj=mpi("mine"))
        found = await gateway.list(editor, KIND, namespace=namespace)
        assert [item["metadata"]["name"] for item in found.items] == ["mine"]
        where = {"namespace": other, "name": "secret"}
        for asked in (
            gateway.get(editor, KIND, **where),
            gateway.status(editor, KIND, **where),
            gateway.events(editor, KIND, **where),
            gateway.explain(editor, KIND, **where),
            gateway.delete(editor, KIND, **where),
            gateway.restart(editor, KIND, **where),
            gateway.suspend(editor, KIND, **where),
            gateway.scale(editor, KIND, replicas=2, **where),
            gateway.replace(editor, KIND, obj=mpi("secret"), **where),
            gateway.list(editor, KIND, namespace=other),
            gateway.list(editor, KIND, namespace=None),
            anext(gateway.watch(editor, KIND, namespace=other)),
            anext(gateway.watch(editor, KIND, **where)),
            anext(gateway.logs(editor, KIND, **where)),
        ):
            with pytest.raises(errors.Forbidden):
                await asked
    finally:
        await client.delete(NAMESPACES, other)


async def test_an_explanation_is_given_with_what_can_be_seen(
    gateway: Gateway, namespace: str, editor: Caller
) -> None:
    await allowed(gateway, editor, namespace)
    await gateway.create(editor, KIND, namespace=namespace, obj=mpi("pi"))
    found = await gateway.explain(editor, KIND, namespace=namespace, name="pi")
    assert any("may not list pods" in reason for reason in found.reasons), found
    assert any("may not list events" in reason for reason in found.reasons), found


async def test_creates_can_be_repeated(gateway: Gateway, namespace: str, editor: Caller) -> None:
    await allowed(gateway, editor, namespace)

    async def create(key: str | None, **labels: str) -> tuple[str, bool]:
        made = await gateway.create(
            editor, KIND, namespace=namespace, obj=mpi("pi", **labels), idempotency_key=key
        )
        return made.object["metadata"]["uid"], made.repeated

    first, *others = await asyncio.gather(*(create("one") for _ in range(5)))
    uids = {uid for uid, _ in (first, *others)}
    assert len(uids) == 1
    assert [repeated for _, repeated in (first, *others)].count(False) == 1
    with pytest.raises(errors.Invalid, match="another body"):
        await create("one", changed="yes")
    with pytest.raises(errors.AlreadyExists):
        await create("two")
    with pytest.raises(errors.AlreadyExists):
        await create(None)
    generated = mpi("")
    generated["metadata"] = {"generateName": "run-"}
    names = set()
    for _ in range(2):
        made = await gateway.create(
            editor, KIND, namespace=namespace, obj=generated, idempotency_key="three"
        )
        names.add(made.object["metadata"]["name"])
    assert len(names) == 1 and names.pop().startswith("run-")


async def test_changes_happen_to_the_version_that_was_seen(
    gateway: Gateway, namespace: str, editor: Caller
) -> None:
    await allowed(gateway, editor, namespace)
    where = {"namespace": namespace, "name": "pi"}
    made = await gateway.create(editor, KIND, namespace=namespace, obj=mpi("pi"))
    old = read_etags(made.etag)
    changed = await gateway.suspend(editor, KIND, if_match=old, **where)
    assert changed["spec"]["runPolicy"]["suspend"] is True
    assert etag_of(changed) != made.etag
    for asked in (
        gateway.resume(editor, KIND, if_match=old, **where),
        gateway.scale(editor, KIND, replicas=3, if_match=old, **where),
        gateway.delete(editor, KIND, if_match=old, **where),
        gateway.restart(editor, KIND, if_match=old, force=True, **where),
        gateway.replace(editor, KIND, obj=mpi("pi"), if_match=old, **where),
    ):
        with pytest.raises(errors.PreconditionFailed):
            await asked
    again = await gateway.restart(
        editor, KIND, if_match=read_etags(etag_of(changed)), force=True, **where
    )
    assert again["metadata"]["uid"] != changed["metadata"]["uid"]
    await gateway.delete(editor, KIND, if_match=read_etags("*"), **where)


async def test_many_watch_one_job(gateway: Gateway, namespace: str, editor: Caller) -> None:
    await allowed(gateway, editor, namespace)
    await gateway.create(editor, KIND, namespace=namespace, obj=mpi("pi"))
    watching = asyncio.Semaphore(0)

    async def labels() -> list[str]:
        seen: list[str] = []
        changes = gateway.watch(editor, KIND, namespace=namespace, name="pi")
        async for change in changes:
            if change.type == "ADDED":
                watching.release()
            seen.append((change.object["metadata"].get("labels") or {}).get("step", ""))
            if seen[-1] == "4":
                break
        await changes.aclose()
        return seen

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        tasks = [group.create_task(labels()) for _ in range(40)]
        for _ in tasks:
            await watching.acquire()
        for step in range(5):
            await gateway.replace(
                editor, KIND, namespace=namespace, name="pi", obj=mpi("pi", step=str(step))
            )
    assert {tuple(task.result()) for task in tasks} == {("", "0", "1", "2", "3", "4")}
