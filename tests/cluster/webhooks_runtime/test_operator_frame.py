"""An operator with webhooks and a controller, from start to end."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

from corral.kube import KubeClient
from corral.kube.resources import CONFIGMAPS, VALIDATINGWEBHOOKCONFIGURATIONS
from corral.runtime import Manager
from corral.runtime.operator import Operator, OperatorSettings
from corral.runtime.webhooks import (
    INJECT_LABEL,
    AdmissionRequest,
    Hooks,
    ServerSettings,
    Verdict,
    WebhookService,
    WebhookSettings,
)


def nothing_wrong(_: AdmissionRequest) -> Verdict:
    return Verdict()


def probe(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def test_from_start_to_end(kubeconfig: str, namespace: str) -> None:
    ready, seen = asyncio.Event(), asyncio.Event()

    async def reconcile(key: str) -> None:
        seen.set()

    async with KubeClient.from_kubeconfig(kubeconfig) as client:
        hooks = Hooks()
        hooks.validating(CONFIGMAPS, nothing_wrong)
        chosen = WebhookSettings(
            namespace,
            name=f"frame-{namespace}",
            secret=f"frame-{namespace}",
            url_host="127.0.0.1",
            server=ServerSettings(host="127.0.0.1", port=0, grace=0.1),
        )
        webhooks = WebhookService(client, hooks, chosen)
        manager = Manager(client)
        manager.controller("maps", reconcile).watch(manager.informer(CONFIGMAPS, namespace))
        operator = Operator(
            manager,
            webhooks=webhooks,
            settings=OperatorSettings("127.0.0.1", 0, handle_signals=False),
            on_ready=ready.set,
        )
        try:
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                group.create_task(operator.run())
                await ready.wait()
                await seen.wait()
                base = f"http://127.0.0.1:{operator.health_port}"
                assert await asyncio.to_thread(probe, f"{base}/healthz") == (200, "ok")
                code, text = await asyncio.to_thread(probe, f"{base}/readyz?verbose")
                assert (code, text) == (200, "[+]caches ok\n[+]stop ok\n[+]webhooks ok")
                found = await client.get(VALIDATINGWEBHOOKCONFIGURATIONS, chosen.name)
                assert found["webhooks"][0]["failurePolicy"] == "Ignore"
                operator.stop()
            assert webhooks.unready() == "the webhook server does not listen"
            assert webhooks.problems() == []
        finally:
            selector = f"{INJECT_LABEL}={chosen.secret}"
            await client.delete_collection(VALIDATINGWEBHOOKCONFIGURATIONS, label_selector=selector)
