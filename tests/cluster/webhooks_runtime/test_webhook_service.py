"""Webhooks of ours in front of a kind of ours, on every backend."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest

from corral.api.kind import Kind, Names
from corral.api.training.kinds import TrainingJob
from corral.kube import KubeClient
from corral.kube.errors import InternalError, Invalid, NotFound
from corral.kube.resources import (
    CUSTOMRESOURCEDEFINITIONS,
    MUTATINGWEBHOOKCONFIGURATIONS,
    SERVICES,
    VALIDATINGWEBHOOKCONFIGURATIONS,
    Resource,
)
from corral.runtime.webhooks import (
    INJECT_LABEL,
    AdmissionRequest,
    CertificateSettings,
    Hooks,
    ServerSettings,
    WebhookService,
    WebhookSettings,
    by_service,
    webhook_configurations,
)
from tests.cluster.objects import Objects, eventually
from tests.cluster.webhooks_runtime.training_cases import job

Obj = dict[str, Any]
CONFIGURATIONS = (MUTATINGWEBHOOKCONFIGURATIONS, VALIDATINGWEBHOOKCONFIGURATIONS)


@pytest.fixture
def kind(cluster: Objects, unique: str) -> Iterator[type[Kind]]:
    """TrainingJobs in a group of their own, served."""

    class TrainingJobHere(TrainingJob):
        names: ClassVar[Names] = replace(TrainingJob.names, group=f"t{unique}.test.dev", short=())

    cluster.create("customresourcedefinitions", TrainingJobHere.crd())
    path = f"/apis/t{unique}.test.dev/v1alpha1/trainingjobs"
    eventually(lambda: cluster.backend.request("GET", path).code == 200)
    yield TrainingJobHere
    name = TrainingJobHere.resource().qualified
    cluster.delete("apiextensions.k8s.io/v1", "customresourcedefinitions", name)


@pytest.fixture
async def warned() -> list[str]:
    return []


@pytest.fixture
async def client(kubeconfig: str, warned: list[str]) -> AsyncIterator[KubeClient]:
    async with KubeClient.from_kubeconfig(kubeconfig, on_warning=warned.append) as client:
        yield client


def mark(request: AdmissionRequest, obj: Obj) -> None:
    """So that it shows whether the webhook was asked."""
    obj["metadata"].setdefault("labels", {})["asked"] = "yes"
    TrainingJob.default(obj)


def hooks_for(kind: type[Kind]) -> Hooks:
    hooks = Hooks()
    hooks.kind(kind)
    path = f"/mutate/{kind.resource().qualified}"
    del hooks.admission[path]
    hooks.mutating(kind.resource(), mark)
    return hooks


def settings(namespace: str, **more: Any) -> WebhookSettings:
    return WebhookSettings(
        namespace,
        name=f"hooks-{namespace}",
        secret=f"certificate-{namespace}",
        url_host=more.pop("url_host", "127.0.0.1"),
        failure_policy="Fail",
        server=ServerSettings(host="127.0.0.1", port=0, grace=0.1),
        **more,
    )


@asynccontextmanager
async def served(
    client: KubeClient,
    hooks: Hooks,
    chosen: WebhookSettings,
    *,
    now: Callable[[], datetime] | None = None,
) -> AsyncIterator[WebhookService]:
    service = WebhookService(client, hooks, chosen, now=now)
    try:
        async with service.running():
            assert service.unready() == ""
            yield service
            assert service.problems() == []
    finally:
        for resource in CONFIGURATIONS:
            await client.delete_collection(
                resource, label_selector=f"{INJECT_LABEL}={chosen.secret}"
            )


def here(kind: type[Kind], namespace: str, name: str = "mnist", **spec: Any) -> Obj:
    resource = kind.resource()
    return {
        **job(**spec),
        "apiVersion": resource.api_version,
        "metadata": {"name": name, "namespace": namespace},
    }


async def asked(client: KubeClient, kind: type[Kind], namespace: str) -> Obj:
    """The object as it would be, once the API server asks our webhook."""
    obj = here(kind, namespace, "probe")
    async with asyncio.timeout(30):
        while True:
            made = await client.create(kind.resource(), obj, dry_run=True)
            if made["metadata"].get("labels", {}).get("asked"):
                return made
            await asyncio.sleep(0.05)


async def test_defaults_errors_and_warnings(
    client: KubeClient, kind: type[Kind], namespace: str, warned: list[str]
) -> None:
    resource = kind.resource()
    async with served(client, hooks_for(kind), settings(namespace)):
        await asked(client, kind, namespace)
        made = await client.create(resource, here(kind, namespace, elastic={"maxReplicas": 2}))
        assert made["metadata"]["labels"]["asked"] == "yes"
        assert made["spec"]["runPolicy"]["cleanPodPolicy"] == "Running"
        assert any("spec.elastic: without spec.checkpoint" in text for text in warned)

        wrong = here(
            kind,
            namespace,
            "wrong",
            image=None,
            template={"spec": {"restartPolicy": "Always", "containers": [{"name": "A_"}]}},
        )
        with pytest.raises(Invalid) as caught:
            await client.create(resource, wrong)
        assert f'"validate.{resource.qualified}" denied the request: ' in caught.value.message
        assert [cause["field"] for cause in caught.value.details["causes"]] == [
            "spec.template.spec.restartPolicy",
            "spec.template.spec.containers[0].name",
            "spec.template.spec.containers[0].image",
        ]

        changed = {**made, "spec": {**made["spec"], "image": "other", "command": ["x"]}}
        with pytest.raises(Invalid) as caught:
            await client.replace(resource, changed)
        fields = [cause["field"] for cause in caught.value.details["causes"]]
        assert fields == ["spec.image", "spec.command"]


async def test_what_is_overwritten_is_injected_again(
    client: KubeClient, kind: type[Kind], namespace: str
) -> None:
    chosen = settings(namespace)
    async with served(client, hooks_for(kind), chosen) as service:
        await asked(client, kind, namespace)
        nothing = [{"op": "remove", "path": "/webhooks/0/clientConfig/caBundle"}]
        for resource in CONFIGURATIONS:
            await client.patch(resource, chosen.name, patch=nothing, kind="json")
        async with asyncio.timeout(30):
            for resource in CONFIGURATIONS:
                while True:
                    found = await client.get(resource, chosen.name)
                    text = found["webhooks"][0]["clientConfig"].get("caBundle", "")
                    if base64.b64decode(text) == service.keeper.bundle:
                        break
                    await asyncio.sleep(0.02)
        await asked(client, kind, namespace)


async def test_replicas_share_one_authority(
    client: KubeClient, kind: type[Kind], namespace: str
) -> None:
    chosen = settings(namespace)
    hooks = hooks_for(kind)
    async with served(client, hooks, chosen) as one, served(client, hooks, chosen) as other:
        assert one.keeper.current == other.keeper.current
        assert one.server.port != other.server.port
        await asked(client, kind, namespace)


async def test_behind_a_service(client: KubeClient, kind: type[Kind], namespace: str) -> None:
    """The certificate is for the name of the Service, wherever it leads to."""
    chosen = settings(namespace, url_host="", service="hooks")
    hooks = hooks_for(kind)
    async with served(client, hooks, chosen) as service:
        port = service.server.port
        outside = {"type": "ExternalName", "externalName": "localhost"}
        await client.create(
            SERVICES, {"metadata": {"name": "hooks", "namespace": namespace}, "spec": outside}
        )
        for config in webhook_configurations(
            hooks,
            by_service("hooks", namespace, port),
            name=chosen.name,
            inject=chosen.secret,
            failure_policy="Ignore",
        ):
            found = {r.kind: r for r in CONFIGURATIONS}[config["kind"]]
            await client.create(found, config)
        await asked(client, kind, namespace)


async def test_authorities_are_replaced_without_a_refusal(
    client: KubeClient, kind: type[Kind], namespace: str
) -> None:
    lives = CertificateSettings(
        authority_life=timedelta(hours=3),
        serving_life=timedelta(hours=30),
        settle=timedelta(seconds=2),
    )
    chosen = settings(namespace, certificates=lives)
    offset = timedelta(hours=-2)
    ended = asyncio.Event()

    async def write() -> None:
        """Ask all the time; a refusal fails the test."""
        while not ended.is_set():
            made = await client.create(kind.resource(), here(kind, namespace), dry_run=True)
            assert made["metadata"]["labels"]["asked"] == "yes"

    async with served(
        client, hooks_for(kind), chosen, now=lambda: datetime.now(UTC) + offset
    ) as service:
        keeper = service.keeper
        await asked(client, kind, namespace)
        first = keeper.current
        assert first is not None and first.following is None
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            group.create_task(write())
            offset = timedelta(0)
            second = await keeper.refresh()
            assert second.authority == first.authority and second.following is not None
            third = await keeper.refresh()
            while third.following is not None:
                await asyncio.sleep(0.05)
                third = await keeper.refresh()
            assert third.authority == second.following
            assert first.authority.cert in third.bundle
            while keeper.known != third.bundle:  # noqa: ASYNC110 - a server makes it true
                await asyncio.sleep(0.02)
            await asked(client, kind, namespace)
            ended.set()


def to_version(obj: Obj, wanted: str) -> Obj:
    spec = dict(obj["spec"])
    if wanted.endswith("/v2"):
        width, height = spec.pop("size").split("x")
        spec |= {"width": int(width), "height": int(height)}
    else:
        spec["size"] = f"{spec.pop('width')}x{spec.pop('height')}"
    return {**obj, "spec": spec}


def box_definition(group: str, url: str, label: str) -> Obj:
    def version(name: str, **fields: str) -> Obj:
        spec = {"type": "object", "properties": {k: {"type": t} for k, t in fields.items()}}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
        return {"name": name, "served": True, "storage": name == "v1", "schema": schema}

    return {
        "metadata": {"name": f"boxes.{group}", "labels": {INJECT_LABEL: label}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box"},
            "versions": [
                version("v1", size="string"),
                version("v2", width="integer", height="integer"),
            ],
            "conversion": {
                "strategy": "Webhook",
                "webhook": {"clientConfig": {"url": url}, "conversionReviewVersions": ["v1"]},
            },
        },
    }


async def test_definitions_with_conversion_are_injected(
    client: KubeClient, namespace: str, unique: str
) -> None:
    group = f"b{unique}.test.dev"
    old = Resource(group, "v1", "boxes", True, "Box")
    new = Resource(group, "v2", "boxes", True, "Box")
    chosen, hooks = settings(namespace), Hooks()
    hooks.converting(old, to_version)
    async with served(client, hooks, chosen) as service:
        url = f"https://127.0.0.1:{service.server.port}/convert/boxes.{group}"
        definition = box_definition(group, url, chosen.secret)
        await client.create(CUSTOMRESOURCEDEFINITIONS, definition)
        try:
            box = {"metadata": {"name": "b", "namespace": namespace}, "spec": {"size": "3x4"}}
            read = await _converted(client, old, new, box)
            assert read["spec"] == {"width": 3, "height": 4}
        finally:
            await client.delete(CUSTOMRESOURCEDEFINITIONS, f"boxes.{group}")


async def _converted(client: KubeClient, old: Resource, new: Resource, box: Obj) -> Obj:
    """The box in its new version, once definition and authority are in force."""
    async with asyncio.timeout(30):
        while True:
            try:
                await client.apply(old, box, field_manager="test")
                return await client.get(new, "b", namespace=box["metadata"]["namespace"])
            except (NotFound, InternalError):
                await asyncio.sleep(0.05)
