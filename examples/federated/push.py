"""Put a module into the registry of a cluster that `corral up` has started.

    python push.py MODULE oci://registry.corral.local/NAMESPACE/NAME:TAG [--data-dir ~/.corral]

It does so as the account `default` of the namespace that the repository's name begins with, with
a token that is made for the registry: who may ask for one may push.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from pathlib import Path

from corral.kube import KubeClient
from corral.oci import Artifacts, Layer, Reference, Registries, endpoints
from corral.oci.own import AUDIENCE

MEDIA_TYPE = "application/vnd.wasm.content.layer.v1+wasm"


async def push(module: Path, where: str, data: Path) -> str:
    """The reference of what was pushed, with its digest."""
    reference = Reference.parse(where)
    namespace = reference.repository.partition("/")[0]
    facts = json.loads((data / "registry.json").read_text())
    async with KubeClient.from_kubeconfig(str(data / "kubeconfig")) as client:
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default/token"
        asked = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [AUDIENCE]},
        }
        answer = json.loads(await client.request("POST", path, body=asked))
    token = answer["status"]["token"]
    known = endpoints([f"{facts['name']}={facts['url']}"], token=lambda: token)
    async with Artifacts(Registries(known)) as artifacts:
        layers = [Layer(MEDIA_TYPE, module)]
        pushed = await artifacts.push(reference, layers, artifact_type="application/wasm")
        return str(pushed.reference)


def main() -> None:
    parser = argparse.ArgumentParser(description="Push a WebAssembly module.")
    parser.add_argument("module", type=Path)
    parser.add_argument("reference")
    parser.add_argument("--data-dir", type=Path, default=Path.home() / ".corral")
    asked = parser.parse_args()
    print(asyncio.run(push(asked.module, asked.reference, asked.data_dir)))


if __name__ == "__main__":
    main()
