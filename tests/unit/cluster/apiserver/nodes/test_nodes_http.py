"""Logs, proxies and metrics through the API server."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from nodes_fakes import ALICE, POD_IP, Cluster, node, pod, running_cluster

from corral.cluster.apiserver import requests
from corral.cluster.apiserver.auth.attributes import Attributes
from corral.cluster.apiserver.nodes import NodeAccess
from corral.kube import errors

PODS = "/api/v1/namespaces/default/pods"
METRICS = "/apis/metrics.k8s.io/v1beta1"
INSECURE = ssl._create_unverified_context()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path) as made:
        objects = made.objects
        objects.put("/pods", pod("two", "n1", containers=("a", "b")))
        objects.put("/pods", pod("free"))
        objects.put("/pods", pod("broken", "n1", containers=("400", "404", "500", "503")))
        objects.put("/pods", pod("dead", "dead"))
        objects.put("/nodes", node("dead", 1))
        yield made


async def ask(
    cluster: Cluster, path: str, method: str = "GET", **extra: Any
) -> tuple[int, dict[str, str], bytes]:
    timeout = aiohttp.ClientTimeout(total=20)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.request(
            method, cluster.url + path, ssl=INSECURE, allow_redirects=False, **extra
        ) as response,
    ):
        return response.status, dict(response.headers), await response.read()


# -- logs ----------------------------------------------------------------------------------


async def test_log(cluster: Cluster) -> None:
    query = (
        "tailLines=5&timestamps=true&follow=false&previous&sinceTime=2020-01-01T02:00:00%2B02:00"
    )
    status, headers, body = await ask(cluster, f"{PODS}/one/log?{query}")
    assert (status, body) == (200, b"one\ntwo\n")
    assert headers["Content-Type"] == "text/plain"
    assert cluster.kubelet.seen[-1][1] == (
        "/containerLogs/default/one/a?previous=true&sinceTime=2020-01-01T00%3A00%3A00Z"
        "&tailLines=5&timestamps=true"
    )


async def test_log_of_a_pod_without_a_node_is_empty(cluster: Cluster) -> None:
    status, _, body = await ask(cluster, f"{PODS}/free/log")
    assert (status, body) == (204, b"")


@pytest.mark.parametrize(
    "path",
    [
        f"{PODS}/one/log?follow=true",
        "/api/v1/nodes/n1/proxy/containerLogs/default/one/a?follow=true",
    ],
    ids=["log", "proxy"],
)
async def test_log_follow_streams_and_ends_with_its_reader(cluster: Cluster, path: str) -> None:
    async with asyncio.timeout(20), aiohttp.ClientSession() as session:
        async with session.get(cluster.url + path, ssl=INSECURE) as response:
            assert await response.content.readline() == b"first\n"
            cluster.kubelet.more_logs.put_nowait(b"second\n")
            assert await response.content.readline() == b"second\n"
            assert not cluster.kubelet.ended.is_set()
            response.close()
        # the log stays quiet: only the lost connection can tell, all the way to the kubelet
        await cluster.kubelet.ended.wait()


UNREACHED = f"dial tcp {POD_IP}:1: connect: connection refused"
REFUSED = "dial tcp 127.0.0.1:1: connect: connection refused"
LOG_ERRORS = {
    "kubelet 400": ("broken/log?container=400", 400, "container is waiting to start"),
    "kubelet 404": (
        "broken/log?container=404",
        404,
        "the server could not find the requested resource ( pods/log broken)",
    ),
    "kubelet 500": (
        "broken/log?container=500",
        500,
        "Internal error occurred: container is waiting to start",
    ),
    "kubelet 503": (
        "broken/log?container=503",
        503,
        "the server is currently unable to handle the request ( pods/log broken)",
    ),
    "kubelet dead": (
        "dead/log?follow=maybe",
        500,
        f'Get "https://127.0.0.1:1/containerLogs/default/dead/a?follow=true": {REFUSED}',
    ),
    "no container": (
        "two/log",
        400,
        "a container name must be specified for pod two, choose one of: [a b]",
    ),
    "unknown container": ("two/log?container=zz", 400, "container zz is not valid for pod two"),
    "no pod": ("nope/log", 404, 'pods "nope" not found'),
    "negative": (
        "one/log?tailLines=-1&limitBytes=0&sinceSeconds=0",
        422,
        'PodLogOptions "one" is invalid: [tailLines: Invalid value: -1: must be greater than or '
        "equal to 0, limitBytes: Invalid value: 0: must be greater than 0, sinceSeconds: Invalid "
        "value: 0: must be greater than 0]",
    ),
    "no number": ("one/log?tailLines=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
    "two sinces": (
        "one/log?sinceSeconds=1&sinceTime=2020-01-01T00:00:00Z",
        422,
        'PodLogOptions "one" is invalid: []: Forbidden: at most one of `sinceTime` or '
        "`sinceSeconds` may be specified",
    ),
    "no time": (
        "one/log?sinceTime=abc",
        400,
        'parsing time "abc" as "2006-01-02T15:04:05Z07:00": cannot parse "abc" as "2006"',
    ),
    "stream": (
        "one/log?stream=Stdout",
        422,
        'PodLogOptions "one" is invalid: stream: Forbidden: may not be specified',
    ),
}


@pytest.mark.parametrize("name", LOG_ERRORS)
async def test_log_errors(cluster: Cluster, name: str) -> None:
    path, code, message = LOG_ERRORS[name]
    status, _, body = await ask(cluster, f"{PODS}/{path}")
    answer = json.loads(body)
    assert (status, answer["code"], answer["message"]) == (code, code, message)


async def test_log_is_only_read(cluster: Cluster) -> None:
    status, _, _ = await ask(cluster, f"{PODS}/one/log", "PUT")
    assert status == 405


# -- proxies -------------------------------------------------------------------------------


async def test_node_proxy(cluster: Cluster) -> None:
    headers = {"Authorization": "Bearer secret", "X-Mine": "1", "Impersonate-User": "bob"}
    path = "/api/v1/nodes/n1/proxy/echo/a%2Fb/?q=1&q=%20"
    status, answer, body = await ask(cluster, path, "POST", data=b"x" * 100_000, headers=headers)
    assert (status, body) == (200, b"x" * 100_000)
    assert answer["X-Path"] == "/echo/a%2Fb/?q=1&q=%20"
    method, _, seen = cluster.kubelet.seen[-1]
    assert method == "POST" and seen["X-Mine"] == "1"
    assert seen["X-Forwarded-For"] == "127.0.0.1"
    assert not {"Authorization", "Impersonate-User"} & seen.keys()


async def test_pod_proxy_with_scheme_and_port(cluster: Cluster) -> None:
    path = f"{PODS}/https:one:{cluster.kubelet.port}/proxy/moved"
    status, headers, _ = await ask(cluster, path)
    assert status == 302
    assert headers["Location"] == f"{PODS}/https:one:{cluster.kubelet.port}/proxy/echo"


async def test_proxy_without_a_path_is_sent_to_its_root(cluster: Cluster) -> None:
    status, headers, _ = await ask(cluster, "/api/v1/nodes/n1/proxy?a=b")
    assert (status, headers["Location"]) == (301, "/api/v1/nodes/n1/proxy/?a=b")


async def test_service_proxy(cluster: Cluster) -> None:
    where = {"namespace": "default", "name": "svc"}
    port = {"port": 80, "name": "web"}
    cluster.objects.put("/services", {"metadata": where, "spec": {"ports": [port]}})
    one = {
        "addresses": [POD_IP],
        "conditions": {"ready": True},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": "one"},
    }
    cluster.objects.put(
        "discovery.k8s.io/endpointslices",
        {
            "metadata": where | {"labels": {"kubernetes.io/service-name": "svc"}},
            "ports": [{"name": "web", "port": cluster.kubelet.port}],
            "endpoints": [{"addresses": ["127.0.0.2"], "conditions": {"ready": False}}, one],
        },
    )
    for name in ("https:svc:80", "https:svc:web"):
        path = f"/api/v1/namespaces/default/services/{name}/proxy/echo"
        status, _, body = await ask(cluster, path, "PUT", data=b"hi")
        assert (status, body) == (200, b"hi")


async def test_proxy_passes_websockets(cluster: Cluster) -> None:
    path = "/api/v1/nodes/n1/proxy/exec/default/one/a?command=echo&command=hi&output=1"
    async with asyncio.timeout(20), aiohttp.ClientSession() as session:
        async with session.ws_connect(
            cluster.url + path, ssl=INSECURE, protocols=["v4.channel.k8s.io"]
        ) as ws:
            found = [message.data async for message in ws]
    assert b"\x01hi\n" in found


PROXY_ERRORS = {
    "pod": (f"{PODS}/nope/proxy/", 404, 'pods "nope" not found'),
    "too many colons": (f"{PODS}/a:b:c:d/proxy/", 400, 'invalid pod request "a:b:c:d"'),
    "scheme": (f"{PODS}/ftp:one:1/proxy/", 400, 'invalid pod request "ftp:one:1"'),
    "node": ("/api/v1/nodes/zip/proxy/x", 404, 'nodes "zip" not found'),
    "service": (
        "/api/v1/namespaces/default/services/nope/proxy/",
        503,
        'no endpoints available for service "nope"',
    ),
    "service by port": (
        "/api/v1/namespaces/default/services/nope:80/proxy/",
        404,
        'services "nope" not found',
    ),
    "refused": (f"{PODS}/one:1/proxy/", 503, f"error trying to reach service: {UNREACHED}"),
}


@pytest.mark.parametrize("name", PROXY_ERRORS)
async def test_proxy_errors(cluster: Cluster, name: str) -> None:
    path, code, message = PROXY_ERRORS[name]
    status, _, body = await ask(cluster, path)
    assert (status, json.loads(body)["message"]) == (code, message)


@pytest.mark.parametrize(
    "address",
    ["169.254.169.254", "224.0.0.1", "0.0.0.0", "", "127.0.0.1", "::1", "::ffff:127.0.0.1"],
)
async def test_addresses_that_no_pod_has(cluster: Cluster, address: str) -> None:
    strange = pod("strange", "n1")
    strange["status"] = {"podIP": address}
    cluster.objects.put("/pods", strange)
    status, _, body = await ask(cluster, f"{PODS}/strange/proxy/")
    assert (status, json.loads(body)["message"]) == (400, "address not allowed")


async def test_loopback_can_be_forbidden(cluster: Cluster) -> None:
    cluster.access = NodeAccess(cluster.objects, allow_loopback=False)
    for path in (f"{PODS}/one/proxy/", "/api/v1/nodes/n1/proxy/healthz"):
        status, _, body = await ask(cluster, path)
        assert (status, json.loads(body)["message"]) == (400, "address not allowed")


# -- metrics -------------------------------------------------------------------------------


async def test_node_metrics(cluster: Cluster) -> None:
    cluster.objects.put("/nodes", node("off", cluster.kubelet.port, ready=False))
    status, _, body = await ask(cluster, f"{METRICS}/nodes")
    answer = json.loads(body)
    assert status == 200
    assert (answer["kind"], answer["apiVersion"]) == ("NodeMetricsList", "metrics.k8s.io/v1beta1")
    (item,) = answer["items"]  # the dead one and the one that is not ready are left out
    assert item["metadata"]["name"] == "n1"
    assert item["metadata"]["labels"] == {"zone": "n1"}
    assert item["usage"] == {"cpu": "500m", "memory": "2Mi"}
    assert item["window"] == "1s"
    assert item["timestamp"] == "1970-01-01T00:16:41Z"
    readings = len(cluster.kubelet.seen)
    await ask(cluster, f"{METRICS}/nodes/n1")
    assert len(cluster.kubelet.seen) == readings  # still fresh


async def test_pod_metrics(cluster: Cluster) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    path = f"{METRICS}/namespaces/default/pods"
    status, headers, body = await ask(cluster, path, headers=accept)
    answer = json.loads(body)
    assert (status, headers["Content-Type"]) == (200, "application/json")
    assert answer["kind"] == "PodMetricsList"
    assert [item["metadata"]["name"] for item in answer["items"]] == ["one"]
    status, _, body = await ask(cluster, f"{path}/one")
    item = json.loads(body)
    assert item["kind"] == "PodMetrics"
    assert item["metadata"]["namespace"] == "default"
    assert item["containers"] == [{"name": "a", "usage": {"cpu": "500m", "memory": "1000"}}]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("labelSelector=app%3Done", ["one"]),
        ("labelSelector=app%21%3Done", []),
        ("fieldSelector=metadata.name%3Dtwo", []),
        ("fieldSelector=metadata.namespace%3Ddefault", ["one"]),
    ],
)
async def test_pod_metrics_selected(cluster: Cluster, query: str, names: list[str]) -> None:
    _, _, body = await ask(cluster, f"{METRICS}/pods?{query}")
    assert [item["metadata"]["name"] for item in json.loads(body)["items"]] == names


async def test_no_metrics_of_pods_on_nodes_that_are_not_ready(cluster: Cluster) -> None:
    path = f"{METRICS}/namespaces/default/pods/one"
    assert (await ask(cluster, path))[0] == 200
    cluster.objects.put("/nodes", node("n1", cluster.kubelet.port, ready=False))
    assert (await ask(cluster, path))[0] == 404


METRICS_ERRORS = {
    "no pod": ("namespaces/default/pods/nope", 404, 'pods "nope" not found'),
    "no reading": (
        "namespaces/default/pods/dead",
        404,
        'podmetrics.metrics.k8s.io "default/dead" not found',
    ),
    "no node": ("nodes/nope", 404, 'nodemetrics.metrics.k8s.io "nope" not found'),
}


@pytest.mark.parametrize("name", METRICS_ERRORS)
async def test_metrics_errors(cluster: Cluster, name: str) -> None:
    path, code, message = METRICS_ERRORS[name]
    status, _, body = await ask(cluster, f"{METRICS}/{path}")
    assert (status, json.loads(body)["message"]) == (code, message)


# -- finding handlers ----------------------------------------------------------------------

FOUND = {
    f"{PODS}/x/log": True,
    f"{PODS}/x/exec": True,
    f"{PODS}/x/attach": True,
    f"{PODS}/x/portforward": True,
    f"{PODS}/x/proxy": True,
    f"{PODS}/x/proxy/a/b": True,
    "/api/v1/namespaces/default/services/x:80/proxy/a": True,
    "/api/v1/nodes/x/proxy/a": True,
    f"{METRICS}/nodes": True,
    f"{PODS}/x/status": False,
    f"{PODS}/x/ephemeralcontainers": False,
    "/apis/apps/v1/namespaces/default/deployments/x/scale": False,
    f"{PODS}/x": False,
}


@pytest.mark.parametrize("path", FOUND)
async def test_find(cluster: Cluster, path: str) -> None:
    info = requests.parse("GET", path)
    found = cluster.catalog.find(info.group, info.version, info.resource)
    assert found is not None
    assert (cluster.access.find(found, info) is not None) is FOUND[path]


async def test_exec_takes_the_right_to_create(cluster: Cluster) -> None:
    asked: list[Attributes] = []

    def require(attributes: Attributes) -> None:
        asked.append(attributes)
        raise errors.Forbidden("no")

    cluster.access = NodeAccess(cluster.objects, require=require)
    status, _, _ = await ask(cluster, f"{PODS}/one/exec?command=ls")
    assert status == 403
    assert (asked[0].user, asked[0].verb, asked[0].subresource) == (ALICE, "create", "exec")
    status, _, _ = await ask(cluster, f"{PODS}/one/exec?command=ls", "POST")
    assert (status, len(asked)) == (400, 1)
