"""The FederatedJob of the demo: two sites that keep their data to themselves learn one model.

Each site has hardly any samples of what the other has most of. Where the client of
`examples/federated` was built (`make wasm`), one site runs it as a WebAssembly module that sees
nothing but its data, and the other a Python process; else both run the process.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from corral.api.propeller.kinds import FEDERATEDJOBS, WASMTASKS
from corral.kube import KubeClient
from corral.kube.resources import CONFIGMAPS, ENDPOINTSLICES, PODS
from corral.kube.types import Obj

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

__all__ = ["learn"]

NAME = "together"
SITES = ("hospital", "clinic")
ROUNDS = 3
INPUTS, CLASSES = 8, 4
_SECONDS = 180


async def learn(client: KubeClient, namespace: str, say: Callable[[str], None]) -> str:
    """Run it to its end, pull the model from the registry, and say how good it is."""
    module = _module()
    people = _people()
    for site in SITES:
        await client.create(CONFIGMAPS, _data(namespace, site, people.of(site), module))
        await client.create(PODS, _proplet(namespace, site))
    job = await client.create(FEDERATEDJOBS, _job(namespace, module is not None))
    watch = client.watch(
        FEDERATEDJOBS,
        namespace,
        field_selector=f"metadata.name={NAME}",
        resource_version=job["metadata"]["resourceVersion"],
    )
    status = Obj()
    async with asyncio.timeout(_SECONDS), aclosing(watch) as events:
        async for event in events:
            status = event.object.get("status") or {}
            say(f"federated: round {status.get('currentRound', 1)} of {ROUNDS}")
            assert status.get("phase") != "Failed", status.get("message")
            if status.get("phase") == "Completed":
                break
    found = people.accuracy(await _pull(client, namespace, status["aggregatedModelRef"]))
    alone = [people.accuracy(await _update(client, namespace, site)) for site in SITES]
    assert found > max(*alone, 0.9), f"it learned too little: {found}, alone {alone}"
    who = "a WebAssembly module and a process" if module else "two processes"
    return (
        f"{who}, {ROUNDS} rounds: accuracy {found:.3f} together, "
        f"{alone[0]:.3f} and {alone[1]:.3f} alone"
    )


def _module() -> bytes | None:
    """The client that was built last."""
    cache = Path(os.environ.get("CORRAL_CACHE") or Path.home() / ".cache" / "corral")
    built = sorted((cache / "wasm").glob("client-*.wasm"), key=lambda path: path.stat().st_mtime)
    return built[-1].read_bytes() if built else None


# --- data ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _People:
    """Four kinds of people, by eight figures of each."""

    features: Floats
    labels: NDArray[np.intp]
    owner: NDArray[np.intp]
    """The site of each; the rest, beyond all sites, are to judge by."""

    def of(self, site: str) -> bytes:
        """The samples of a site, as its client reads them."""
        import numpy as np

        mine = self.owner == SITES.index(site)
        head = np.array([mine.sum(), INPUTS, CLASSES], "<u4").tobytes()
        features = self.features[mine].astype("<f4").tobytes()
        labels = self.labels[mine].astype(np.uint8).tobytes()
        return b"".join((b"FLS1", head, features, labels))

    def accuracy(self, model: bytes) -> float:
        """The share of right answers where nobody has trained."""
        import numpy as np

        numbers = np.frombuffer(model, "<f4").astype(np.float64)
        weights = numbers[: INPUTS * CLASSES].reshape(INPUTS, CLASSES)
        test = self.owner == len(SITES)
        answers = (self.features[test] @ weights + numbers[INPUTS * CLASSES :]).argmax(axis=1)
        return float((answers == self.labels[test]).mean())


def _people() -> _People:
    import numpy as np

    chance = np.random.default_rng(4)
    labels = chance.integers(CLASSES, size=1500).astype(np.intp)
    features = chance.normal(size=(CLASSES, INPUTS))[labels]
    features = features + chance.normal(scale=0.7, size=features.shape)
    at_home = chance.random(len(labels)) < 0.95
    owner = np.where(at_home, labels // 2, 1 - labels // 2).astype(np.intp)
    owner[chance.random(len(labels)) < 0.3] = len(SITES)
    return _People(features, labels, owner)


# --- objects -------------------------------------------------------------------------------------


def _data(namespace: str, site: str, samples: bytes, module: bytes | None) -> Obj:
    files = {"train.bin": samples}
    if module is not None and site == SITES[0]:
        files["client.wasm"] = module
    return {
        "metadata": {"name": f"{site}-data", "namespace": namespace},
        "binaryData": {name: base64.b64encode(data).decode() for name, data in files.items()},
    }


def _proplet(namespace: str, site: str) -> Obj:
    container = {"name": "proplet", "image": "busybox", "command": ["sleep", "3600"]}
    return {
        "metadata": {"name": site, "namespace": namespace, "labels": {"proplet-id": site}},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
    }


def _job(namespace: str, has_module: bool) -> Obj:
    return {
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {
            "experimentId": "demo",
            "modelRef": "none",
            "taskWasmImage": "python:3.12",
            "participants": [
                {"propletId": site, "template": _template(site, has_module and site == SITES[0])}
                for site in SITES
            ],
            "hyperparams": {"epochs": 3, "lr": 0.1, "batch_size": 32},
            "kOfN": len(SITES),
            "timeoutSeconds": _SECONDS,
            "rounds": {"total": ROUNDS},
            "aggregator": {"algorithm": "fedavg", "config": {"format": "f32-le"}},
        },
    }


def _template(site: str, is_module: bool) -> Obj:
    return {
        "cliArgs": ["/data/client.wasm"] if is_module else ["python", "-c", _CLIENT],
        "runtimeClassName": "wasm" if is_module else "",
        "volumes": [{"name": "data", "configMap": {"name": f"{site}-data"}}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }


# --- what came of it -----------------------------------------------------------------------------


async def _update(client: KubeClient, namespace: str, site: str) -> bytes:
    """What a site had learned by itself: its update of the first round."""
    task = await client.get(WASMTASKS, f"round-1-{NAME}-{site}", namespace=namespace)
    return base64.b64decode(task["status"]["results"]["update_b64"])


async def _pull(client: KubeClient, namespace: str, reference: str) -> bytes:
    """The model, from the registry: as an account of the namespace, as a pod could."""
    from corral.cluster.registry.local import NAMESPACE, SERVICE
    from corral.oci import OWN, Artifacts, Reference, Registries, endpoints

    slice_ = await client.get(ENDPOINTSLICES, SERVICE, namespace=NAMESPACE)
    host, port = slice_["endpoints"][0]["addresses"][0], slice_["ports"][0]["port"]
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = json.loads(await client.request("POST", account, body=asked))["status"]["token"]
    where = endpoints([f"{OWN}=http://{host}:{port}"], token=lambda: token)
    async with Artifacts(Registries(where)) as artifacts:
        model = Reference.parse(reference)
        manifest = await artifacts.manifest(model)
        return await artifacts.read(model, manifest.layers[0], limit=1 << 20)


_CLIENT = """
import json, os, pathlib
import numpy as np
folder = pathlib.Path(os.environ["FL_DIR"])
told = json.loads(os.environ["HYPERPARAMS"])
content = pathlib.Path("/data/train.bin").read_bytes()
samples, inputs, classes = np.frombuffer(content, "<u4", count=3, offset=4).tolist()
x = np.frombuffer(content, "<f4", count=samples * inputs, offset=16).reshape(samples, inputs)
y = np.eye(classes)[np.frombuffer(content, np.uint8, offset=16 + 4 * samples * inputs)]
x = np.hstack([x, np.ones((samples, 1))])
model = np.zeros((inputs + 1, classes))
if (folder / "model").exists():
    model = np.frombuffer((folder / "model").read_bytes(), "<f4").reshape(model.shape).astype(float)
chance = np.random.default_rng(1)
for epoch in range(told["epochs"]):
    order = chance.permutation(samples)
    for chosen in np.split(order, range(told["batch_size"], samples, told["batch_size"])):
        odds = np.exp(x[chosen] @ model)
        odds /= odds.sum(axis=1, keepdims=True)
        model = model - told["lr"] / len(chosen) * x[chosen].T @ (odds - y[chosen])
right = float(((x @ model).argmax(axis=1) == y.argmax(axis=1)).mean())
(folder / "update").write_bytes(model.astype("<f4").tobytes())
envelope = {"num_samples": samples, "format": "f32-le", "metrics": {"accuracy": right}}
(folder / "result.json").write_text(json.dumps(envelope))
"""
