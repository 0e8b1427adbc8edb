"""One story at least for every family: objects of it, and what others do to them."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

from corral.api.kafkaml.kinds import (
    DATASOURCES,
    FEDERATEDDEPLOYMENTS,
    INFERENCES,
    MLCONFIGURATIONS,
    MLMODELS,
    Datasource,
    FederatedDeployment,
    Inference,
    MLConfiguration,
    MLModel,
)
from corral.api.propeller.kinds import (
    FEDERATEDJOBS,
    MODELCHECKPOINTS,
    PROPLETGROUPS,
    TRAININGROUNDS,
    WASMTASKS,
    FederatedJob,
    ModelCheckpoint,
    PropletGroup,
    WasmTask,
)
from corral.api.propeller.rules import round_name
from corral.families.federated.groups.family import PropletGroups
from corral.families.federated.groups.pools import Pools
from corral.families.federated.jobs.family import FederatedJobs
from corral.families.federated.learning import LearningSettings
from corral.families.federated.modelcheckpoints import ModelCheckpoints
from corral.families.federated.settings import FederatedSettings
from corral.families.federated.tasks.family import WasmTasks
from corral.families.federated.tasks.names import CANCEL_ANNOTATION
from corral.families.kafkaml.configurations import Configurations
from corral.families.kafkaml.datasources import Datasources
from corral.families.kafkaml.deployments.family import Deployments
from corral.families.kafkaml.inferences import Inferences
from corral.families.kafkaml.models import Models
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.resources import CONFIGMAPS, DEPLOYMENTS, JOBS, NODES, PODS
from corral.kube.types import Obj
from corral.oci.settings import ClientSettings
from corral.runtime import Manager
from corral.runtime.keys import format_time
from tests.cluster.families.family_stage import Scene, Story, now
from tests.cluster.families.greetings.family import Greetings
from tests.cluster.families.greetings.kind import GREETINGS, Greeting
from tests.cluster.families.greetings.settings import GreetingSettings

KAFKAML = KafkaMLSettings(kafka="kafka:9092", registry="oci://registry.example")
MODEL: Obj = {"framework": "numpy", "code": "model = Sequential([])"}
CHECKED: Obj = {
    "phase": "Ready",
    "observedGeneration": 1,
    "inputShape": "2",
    "weightsRef": "oci://r/m:1",
}
DATA: Obj = {
    "topic": "data:0:0:100",
    "inputFormat": "RAW",
    "inputConfig": {
        "data_type": "uint8",
        "data_reshape": "2",
        "label_type": "uint8",
        "label_reshape": "1",
    },
    "totalMsg": 100,
}


async def _fail_jobs(scene: Scene) -> None:
    """Ends all Jobs of the object that go on, as their controller does."""
    for kind, name in await scene.children():
        if kind == JOBS.kind:
            await _fail(scene, name)


async def _fail(scene: Scene, name: str) -> None:
    status = await _status_of(scene, name)
    if any(each["type"] == "Failed" for each in status.get("conditions") or ()):
        return
    end = {"status": "True", "reason": "BackoffLimitExceeded", "message": "it was not to be"}
    when = {"lastTransitionTime": status["startTime"], "lastProbeTime": status["startTime"]}
    conditions = [{"type": type, **end, **when} for type in ("FailureTarget", "Failed")]
    gone = dict.fromkeys(("active", "ready", "terminating", "uncountedTerminatedPods"))
    await scene.report(JOBS, name, {**gone, "failed": 1, "conditions": conditions})


async def _status_of(scene: Scene, job: str) -> Obj:
    """As soon as the Job has begun."""
    found = await scene.client.get(JOBS, job, namespace=scene.namespace)
    version, status = found["metadata"]["resourceVersion"], found.get("status") or {}
    if status.get("startTime"):
        return dict(status)
    chosen = f"metadata.name={job}"
    async with (
        asyncio.timeout(30),
        aclosing(
            scene.client.watch(
                JOBS, scene.namespace, field_selector=chosen, resource_version=version
            )
        ) as changes,
    ):
        async for change in changes:
            status = change.object.get("status") or {}
            if status.get("startTime"):
                break
    return dict(status)


# --- Kafka-ML --------------------------------------------------------------------------------


async def _model(scene: Scene) -> None:
    await scene.create(MLMODELS, "digits", MODEL)


async def _checked_model(scene: Scene) -> None:
    await scene.create(MLMODELS, "digits", MODEL, status=CHECKED)


async def _configuration(scene: Scene) -> None:
    await scene.create(MLCONFIGURATIONS, "both", {"models": ["digits"]})


async def _inference(scene: Scene) -> None:
    spec = {
        "modelRef": "oci://r/m:1",
        "inputTopic": "in",
        "outputTopic": "out",
        "inputFormat": "RAW",
        "inputConfig": DATA["inputConfig"],
    }
    await scene.create(INFERENCES, "ask", spec)


async def _answering(scene: Scene) -> None:
    status = {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}
    await scene.report(DEPLOYMENTS, "model-inference-ask", status)


async def _stopped(scene: Scene) -> None:
    await scene.client.patch(
        INFERENCES, "ask", namespace=scene.namespace, patch={"spec": {"stopped": True}}
    )


async def _datasource(scene: Scene) -> None:
    await scene.create(DATASOURCES, "shard", DATA)


async def _deployment(scene: Scene) -> None:
    spec = {"model": "digits", "federatedStringId": "abcd1234", "clients": {"min": 1}}
    await scene.create(FEDERATEDDEPLOYMENTS, "learn", spec)


async def _matched_deployment(scene: Scene) -> None:
    client = {"clientId": "c", "result": 1, "datasource": "shard", "job": "j"}
    await scene.create(
        FEDERATEDDEPLOYMENTS, "learn", {"model": "digits"}, status={"clients": [client]}
    )


# --- federated learning ------------------------------------------------------------------------


async def _checkpoint(scene: Scene) -> None:
    spec = {
        "federatedJobRef": {"name": "job"},
        "modelRef": "oci://127.0.0.1:1/models:1",
        "algorithm": "fedavg",
        "round": 1,
        "metadata": {"totalSamples": 10, "numParticipants": 1},
    }
    await scene.create(MODELCHECKPOINTS, "model", spec)


async def _renamed(scene: Scene) -> None:
    await scene.client.patch(
        MODELCHECKPOINTS,
        "model",
        namespace=scene.namespace,
        patch={"spec": {"modelRef": "oci://127.0.0.1:1/models:2"}},
    )


def _checkpoints(manager: Manager) -> ModelCheckpoints:
    settings = LearningSettings(client=ClientSettings(tries=1), upload_limit=0.0)
    return ModelCheckpoints(settings, manager.client, wall=now)


async def _job(scene: Scene) -> None:
    spec = {
        "experimentId": "digits",
        "modelRef": "oci://r/models:0",
        "taskWasmImage": "oci://r/client:1",
        "participants": [{"propletId": "a"}, {"propletId": "b"}],
        "kOfN": 1,
        "timeoutSeconds": 60,
        "rounds": {"total": 2},
        "aggregator": {"algorithm": "fedavg"},
    }
    await scene.create(FEDERATEDJOBS, "job", spec)


async def _first_round_completes(scene: Scene) -> None:
    await _end_round(scene, 1, "Completed")


async def _second_round_fails(scene: Scene) -> None:
    await _end_round(scene, 2, "Failed")


async def _end_round(scene: Scene, number: int, phase: str) -> None:
    entry = {"propletId": "a", "status": "Completed", "updateReceived": True}
    status = {
        "phase": phase,
        "participants": [{**entry, "receivedTime": "2026-01-01T00:00:00Z", "selected": True}],
        "aggregatedModelRef": f"oci://r/models:{number}",
    }
    await scene.report(TRAININGROUNDS, round_name("job", number), status)


async def _task(scene: Scene) -> None:
    """For a node that is a proplet."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready"}
    times = dict.fromkeys(("lastHeartbeatTime", "lastTransitionTime"), format_time(now()))
    await scene.client.create(NODES, {"metadata": {"name": scene.namespace}})
    await scene.client.patch(
        NODES,
        scene.namespace,
        patch={"status": {"conditions": [{**ready, **times}]}},
        subresource="status",
    )
    spec = {"imageUrl": "oci://r/module:1", "propletId": scene.namespace}
    await scene.create(WASMTASKS, "task", spec)


async def _cancelled(scene: Scene) -> None:
    note = {"metadata": {"annotations": {CANCEL_ANNOTATION: "enough"}}}
    await scene.client.patch(WASMTASKS, "task", namespace=scene.namespace, patch=note)


def _tasks(manager: Manager) -> WasmTasks:
    settings = FederatedSettings()
    pools = Pools(manager, settings, wall=now)
    return WasmTasks(settings, manager.client, pools, wall=now)


def _jobs(manager: Manager) -> FederatedJobs:
    return FederatedJobs(LearningSettings(), wall=now)


async def _group(scene: Scene) -> None:
    selector = {"matchLabels": {"family": scene.namespace}}
    spec = {"selector": selector, "scheduling": {"algorithm": "round-robin"}}
    await scene.create(PROPLETGROUPS, "edge", spec)


async def _pod_of_the_group(scene: Scene) -> None:
    container = {"name": "proplet", "image": "proplet"}
    metadata = {"labels": {"family": scene.namespace}}
    await scene.create(PODS, "one", {"containers": [container]}, metadata=metadata)


async def _no_selector(scene: Scene) -> None:
    patch = {"spec": {"selector": {"matchLabels": None}}}
    await scene.client.patch(PROPLETGROUPS, "edge", namespace=scene.namespace, patch=patch)


def _groups(manager: Manager) -> PropletGroups:
    settings = FederatedSettings()
    return PropletGroups(settings, Pools(manager, settings, wall=now), wall=now)


# --- greetings -------------------------------------------------------------------------------


async def _greeting(scene: Scene) -> None:
    await scene.create(GREETINGS, "hello", {"text": "hello", "cards": 3})


async def _fewer(scene: Scene) -> None:
    await scene.client.patch(
        GREETINGS, "hello", namespace=scene.namespace, patch={"spec": {"cards": 1, "text": "hi"}}
    )


def _kafkaml(family: Any) -> Any:
    return lambda manager: family(KAFKAML, wall=now)


STORIES = (
    Story("models", MLModel, _kafkaml(Models), "digits", (_model, _fail_jobs), (CONFIGMAPS, JOBS)),
    Story(
        "configurations",
        MLConfiguration,
        _kafkaml(Configurations),
        "both",
        (_configuration, _checked_model),
    ),
    Story(
        "datasources",
        Datasource,
        _kafkaml(Datasources),
        "shard",
        (_datasource, _matched_deployment),
    ),
    Story(
        "inferences",
        Inference,
        _kafkaml(Inferences),
        "ask",
        (_inference, _answering, _stopped),
        (DEPLOYMENTS,),
    ),
    Story(
        "deployments",
        FederatedDeployment,
        lambda manager: Deployments(KAFKAML, manager.client, wall=now),
        "learn",
        (_deployment, _checked_model, _datasource, _fail_jobs),
        (CONFIGMAPS, JOBS),
    ),
    Story("modelcheckpoints", ModelCheckpoint, _checkpoints, "model", (_checkpoint, _renamed)),
    Story("wasmtasks", WasmTask, _tasks, "task", (_task, _fail_jobs), (CONFIGMAPS, JOBS)),
    Story("cancelled", WasmTask, _tasks, "task", (_task, _cancelled), (CONFIGMAPS, JOBS)),
    Story(
        "federatedjobs",
        FederatedJob,
        _jobs,
        "job",
        (_job, _first_round_completes, _second_round_fails),
        (TRAININGROUNDS,),
    ),
    Story(
        "propletgroups", PropletGroup, _groups, "edge", (_group, _pod_of_the_group, _no_selector)
    ),
    Story(
        "greetings",
        Greeting,
        lambda manager: Greetings(GreetingSettings(), wall=now),
        "hello",
        (_greeting, _fewer),
        (CONFIGMAPS,),
    ),
)
