"""What shows the operator's rights to models, deployments and inferences over Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

from corral.api.kafkaml.kinds import (
    DATASOURCES,
    FEDERATEDDEPLOYMENTS,
    GROUP,
    INFERENCES,
    MLCONFIGURATIONS,
    MLMODELS,
)
from corral.kube import KubeClient
from tests.cluster.operator.federated import until_status
from tests.cluster.operator.rights import Right

Obj = dict[str, Any]
UNSEEN = {
    Right(GROUP, f"{plural}/finalizers", "update"): (
        "asked for by the admission plugin that guards blockOwnerDeletion"
    )
    for plural in ("mlmodels", "federateddeployments", "inferences")
} | {
    Right(GROUP, "datasources", verb): "a broker must be there that has announcements"
    for verb in ("create", "delete")
}
"""Rights that these objects need not show, and why they are given."""
CODE = """
model = Sequential([Dense(2, "softmax", input_shape=2)])
model.compile("sgd", "categorical_crossentropy")
"""


async def run_kafkaml(admin: KubeClient, namespace: str) -> None:
    """A model that is checked, a deployment that is begun and suspended, an inference."""

    async def make(resource: Any, name: str, spec: Obj) -> None:
        await admin.create(
            resource, {"metadata": {"name": name}, "spec": spec}, namespace=namespace
        )

    raw = {"data_type": "float32", "data_reshape": "2", "label_type": "uint8", "label_reshape": "1"}
    await make(MLMODELS, "small", {"framework": "numpy", "code": CODE})
    await make(MLCONFIGURATIONS, "one", {"models": ["small"]})
    data = {"topic": "t:0:0:5", "totalMsg": 5, "inputConfig": raw}
    await make(DATASOURCES, "data", data)
    nowhere = {"bootstrapServers": "127.0.0.1:1"}
    spec = {"configuration": "one", "minData": 1, "kafka": nowhere}
    await make(FEDERATEDDEPLOYMENTS, "begun", spec)
    asked = {"inputTopic": "in", "outputTopic": "out", "inputConfig": raw, "replicas": 0}
    reference = {"modelRef": "oci://registry.corral.local/nothing:1", **asked}
    await make(INFERENCES, "asked", reference)
    await until_status(admin, "small", namespace, "phase", "Ready", MLMODELS)
    await until_status(admin, "one", namespace, "phase", "Ready", MLCONFIGURATIONS)
    await until_status(admin, "begun", namespace, "phase", "Running", FEDERATEDDEPLOYMENTS)
    await until_status(admin, "data", namespace, "matches", None, DATASOURCES)
    await until_status(admin, "asked", namespace, "modelRef", None, INFERENCES)
    suspend = {"spec": {"suspend": True}}
    await admin.patch(FEDERATEDDEPLOYMENTS, "begun", namespace=namespace, patch=suspend)
    await until_status(admin, "begun", namespace, "phase", "Suspended", FEDERATEDDEPLOYMENTS)
    await make(FEDERATEDDEPLOYMENTS, "waits", {"model": "none", "topics": {"retain": False}})
    await until_status(admin, "waits", namespace, "phase", "Pending", FEDERATEDDEPLOYMENTS)
    await admin.delete(FEDERATEDDEPLOYMENTS, "waits", namespace=namespace)
    async with asyncio.timeout(60):
        one = "metadata.name=waits"
        while True:
            found = await admin.list_all(FEDERATEDDEPLOYMENTS, namespace, field_selector=one)
            if not found["items"]:
                return
            await asyncio.sleep(0.05)
