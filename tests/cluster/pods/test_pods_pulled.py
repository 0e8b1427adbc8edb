"""Modules from a registry: pulled by the node, run, and refused as a kubelet refuses images."""

from __future__ import annotations

import asyncio
import base64
import gzip
import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import wasmtime

from corral.cluster.node.wasm import runtime_class
from corral.cluster.registry.access import Action
from corral.cluster.registry.errors import Refused
from corral.oci import Artifacts, Endpoint, Layer, Reference, Registries
from tests.backends import Backend, add_node, own_scope
from tests.cluster.objects import Objects
from tests.cluster.pods.pods import Obj, Pods, container, terminated
from tests.cluster.pods.test_pods_wasm import HELLO
from tests.registries import RunningRegistry, running_registry

OPEN = "modules.example.com"
TAR = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
LOGIN = base64.b64encode(b"joe:secret").decode()


class PrivateFolders:
    """Repositories below ``private`` are for one user; everybody may push."""

    async def check(
        self, authorization: str, *, peer: str, action: Action, repository: str
    ) -> None:
        private = repository.startswith("private/") and action is Action.read
        if private and authorization != f"Basic {LOGIN}":
            raise Refused(401, "UNAUTHORIZED", "no", {"WWW-Authenticate": 'Basic realm="x"'})

    async def close(self) -> None:
        return None


@pytest.fixture(scope=own_scope)
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningRegistry]:
    with running_registry(tmp_path_factory.mktemp("registry"), access=PrivateFolders) as one:
        yield one


@pytest.fixture(scope=own_scope)
def puller(backend: Backend, registry: RunningRegistry) -> Iterator[object]:
    mode = "root" if os.geteuid() == 0 else "user"
    options = ("--registry-map", f"{OPEN}={registry.url}")
    node = add_node(backend, "one", isolation=mode, options=options)
    yield node
    node.stop()


@pytest.fixture
def modules(objects: Objects, puller: object) -> Pods:
    reply = objects.backend.request("POST", "/apis/node.k8s.io/v1/runtimeclasses", runtime_class())
    assert reply.code in (201, 409), reply.body
    return Pods(objects, puller)  # type: ignore[arg-type]


def push(registry: RunningRegistry, image: str, *layers: Layer, config: Obj | None = None) -> str:
    async def work() -> str:
        endpoint = Endpoint(registry.url, username="joe", password="secret")
        async with Artifacts(Registries({OPEN: endpoint})) as artifacts:
            pushed = await artifacts.push(
                Reference.parse(image),
                layers,
                artifact_type="application/vnd.wasm.config.v1+json",
                config=json.dumps(config or {}).encode(),
                config_media_type=CONFIG if config else "",
            )
            return pushed.digest

    return asyncio.run(work())


def hello() -> bytes:
    return bytes(wasmtime.wat2wasm(HELLO))


def run(pods: Pods, name: str, image: str, **spec: object) -> None:
    more = {"imagePullPolicy": spec.pop("policy")} if "policy" in spec else {}
    pods.run(name, {"name": "main", "image": image, **more}, runtimeClassName="wasm", **spec)


def waiting(pod: Obj) -> Obj:
    return dict((container(pod).get("state") or {}).get("waiting") or {})


def test_a_module_layer(modules: Pods, registry: RunningRegistry) -> None:
    image = f"{OPEN}/team/hello:v1"
    layer = Layer("application/vnd.wasm.content.layer.v1+wasm", hello())
    digest = push(registry, image, layer)
    run(modules, "layer", image)
    pod = modules.phase("layer", "Failed")
    assert terminated(pod)["exitCode"] == 5
    assert modules.log("layer") == "hello from wasm\n"
    assert container(pod)["imageID"] == f"{OPEN}/team/hello@{digest}"
    events = dict(modules.events("layer"))
    assert events["Pulling"] == f'Pulling image "{image}"'
    assert events["Pulled"].startswith(f'Successfully pulled image "{image}" in ')
    run(modules, "again", image)
    modules.phase("again", "Failed")
    said = dict(modules.events("again"))
    assert "Pulling" not in said and "already present on machine" in said["Pulled"]


def test_an_image_with_the_module_in_it(modules: Pods, registry: RunningRegistry) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo("app/hello.wasm")
        info.size = len(hello())
        tar.addfile(info, io.BytesIO(hello()))
    image = f"{OPEN}/team/packed:v1"
    layer = Layer(TAR, gzip.compress(out.getvalue(), mtime=0))
    push(registry, image, layer, config={"config": {"Entrypoint": ["/app/hello.wasm"]}})
    run(modules, "packed", f"oci://{image}")
    assert terminated(modules.phase("packed", "Failed"))["exitCode"] == 5
    assert modules.log("packed") == "hello from wasm\n"


def test_an_image_that_is_not_there_is_waited_for(modules: Pods, registry: RunningRegistry) -> None:
    image = f"{OPEN}/team/late:v1"
    run(modules, "late", image)
    modules.wait("late", lambda pod: waiting(pod).get("reason") == "ErrImagePull")
    pod = modules.wait("late", lambda pod: waiting(pod).get("reason") == "ImagePullBackOff")
    assert "is not in the registry" in waiting(pod)["message"]
    assert pod["status"]["phase"] == "Pending"
    reasons = {reason for reason, _ in modules.events("late")}
    assert {"Pulling", "Failed", "BackOff"} <= reasons
    push(registry, image, Layer("application/wasm", hello()))
    assert terminated(modules.phase("late", "Failed"))["exitCode"] == 5


def test_private_images_need_the_secret(modules: Pods, registry: RunningRegistry) -> None:
    image = f"{OPEN}/private/hello:v1"
    push(registry, image, Layer("application/wasm", hello()))
    run(modules, "stranger", image)
    pod = modules.wait("stranger", lambda pod: waiting(pod).get("reason") == "ErrImagePull")
    assert "check the credentials" in waiting(pod)["message"]
    config = json.dumps({"auths": {OPEN: {"auth": LOGIN}}})
    modules.objects.create(
        "secrets",
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "login"},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": config},
        },
    )
    run(modules, "friend", image, imagePullSecrets=[{"name": "login"}])
    assert terminated(modules.phase("friend", "Failed"))["exitCode"] == 5
    modules.delete("stranger")
    modules.gone("stranger")


def test_never_pulled(modules: Pods, registry: RunningRegistry) -> None:
    image = f"{OPEN}/team/absent:v1"
    run(modules, "never", image, policy="Never")
    modules.wait("never", lambda pod: waiting(pod).get("reason") == "ErrImageNeverPull")


def test_a_pod_that_waits_for_a_silent_registry_can_be_deleted(
    modules: Pods, tmp_path: Path
) -> None:
    from corral.runtime.serving.listening import Listen, bind

    with bind(Listen()) as silent:
        run(modules, "stuck", f"127.0.0.1:{silent.getsockname()[1]}/a/b:v1")
        modules.wait("stuck", lambda pod: "Pulling" in dict(modules.events("stuck")))
        modules.delete("stuck")
        modules.gone("stuck", seconds=20)
