"""The objects of deployments and models: what is created in their names. No I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final

from corral.api.kafkaml.kinds import GROUP, Datasource, FederatedDeployment, Inference, MLModel
from corral.api.kafkaml.spec import Kafka
from corral.api.kafkaml.status import ClientStatus, ResultStatus
from corral.families.kafkaml.deployments.matching import client_id
from corral.families.kafkaml.logins import secret_for
from corral.families.kafkaml.settings import KafkaMLSettings
from corral.kube.types import Obj
from corral.podtools.commands import (
    KAFKA_CLIENT,
    KAFKA_INFERENCE,
    KAFKA_SERVER,
    MODEL_CHECK,
    python_command,
)
from corral.runtime.pods.couriers import Parts, courier_parts

__all__ = [
    "CHECK",
    "CLIENT_LABEL",
    "DEPLOYMENT_LABEL",
    "INFERENCE_LABEL",
    "MODEL_LABEL",
    "ROLE_LABEL",
    "check_job",
    "client_job",
    "client_name",
    "code_map",
    "code_name",
    "inference_deployment",
    "inference_name",
    "server_job",
    "server_name",
    "told_map",
    "topics_text",
]

DEPLOYMENT_LABEL: Final = f"{GROUP}/deployment"
INFERENCE_LABEL: Final = f"{GROUP}/inference"
MODEL_LABEL: Final = f"{GROUP}/model"
ROLE_LABEL: Final = f"{GROUP}/role"
INDEX_LABEL: Final = f"{GROUP}/index"
CLIENT_LABEL: Final = f"{GROUP}/client"
RESULT_LABEL: Final = f"{GROUP}/result"
CHECK: Final = "check"
_CODE_VOLUME: Final = "model-code"
_CODE_DIR: Final = "/kafkaml/model"
_TOLD_VOLUME: Final = "deployment"
_TOLD_DIR: Final = "/kafkaml/deployment"
_GRACE: Final = 60
"""Seconds beyond a check's own time until its pod is ended."""


# --- models ------------------------------------------------------------------------------------


def code_name(model: str) -> str:
    return f"{model}-mlmodel"


def code_map(model: MLModel) -> Obj:
    """The model's code, for pods to mount."""
    spec = model.spec
    said = {"framework": spec.framework, "distributed": spec.distributed}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": code_name(_name(model)),
            "namespace": model.metadata["namespace"],
            "labels": {MODEL_LABEL: _name(model)},
        },
        "data": {"code": spec.code, "imports": spec.imports, "spec.json": json.dumps(said)},
    }


def check_name(model: MLModel) -> str:
    return f"{_name(model)}-check-{model.metadata.get('generation', 1)}"


def check_job(model: MLModel, settings: KafkaMLSettings) -> Obj:
    """Runs the code where it can do no harm, and has what it makes carried to the registry."""
    spec = model.spec
    space = model.metadata["namespace"]
    generation = model.metadata.get("generation", 1)
    told = {"TASK_ID": check_name(model), "FL_INLINE": "never"}
    if settings.registry:
        base = settings.registry.rstrip("/")
        told["FL_UPDATE_REF"] = f"{base}/{space}/{_name(model)}/mlmodel:{generation}"
    parts = _couriers(told, settings, fetches=False)
    container = {
        "name": CHECK,
        "image": spec.image or settings.images[spec.framework],
        "command": python_command(MODEL_CHECK),
        "env": [
            *parts.task_env,
            *_env(
                {
                    "KAFKAML_MODEL_CODE_DIR": _CODE_DIR,
                    "KAFKAML_CHECK_SECONDS": str(spec.check_seconds),
                    "CORRAL_TERMINATION_LOG": "/dev/termination-log",
                }
            ),
        ],
        "volumeMounts": [*parts.task_mounts, _code_mount()],
        "resources": spec.resources or {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    labels = {MODEL_LABEL: _name(model), ROLE_LABEL: CHECK}
    pod = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "activeDeadlineSeconds": spec.check_seconds + _GRACE,
        "initContainers": parts.init_containers,
        "containers": [container],
        "volumes": [*parts.volumes, _code_volume(_name(model))],
    }
    return _job(check_name(model), space, labels, pod, backoff=1)


# --- deployments -------------------------------------------------------------------------------


def server_name(deployment: FederatedDeployment, result: int) -> str:
    return f"federated-model-training-controller-{_name(deployment)}-{result}"[:63].rstrip("-")


def topics_text(deployment: FederatedDeployment) -> str:
    """The names of topics as pods are told them."""
    return json.dumps(
        deployment.spec.topics.model_dump(by_alias=True, exclude={"retain"}), sort_keys=True
    )


def told_name(deployment: str) -> str:
    return f"{deployment}-kafkaml"


def told_map(deployment: FederatedDeployment, clients: Sequence[ClientStatus]) -> Obj:
    """What the servers of a deployment go by: its spec, and who takes part."""
    kept = {"client_id", "result", "phase"}
    said = [client.model_dump(by_alias=True, exclude_none=True, include=kept) for client in clients]
    spec = deployment.spec.model_dump(by_alias=True, exclude_none=True)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": told_name(_name(deployment)),
            "namespace": deployment.metadata["namespace"],
            "labels": {DEPLOYMENT_LABEL: _name(deployment)},
        },
        "data": {
            "spec.json": json.dumps(spec, sort_keys=True),
            "clients.json": json.dumps(said, sort_keys=True),
        },
    }


def server_job(
    deployment: FederatedDeployment,
    result: ResultStatus,
    weights_ref: str,
    settings: KafkaMLSettings,
) -> Obj:
    """Makes rounds of one model."""
    space, number = deployment.metadata["namespace"], result.id
    told = {
        "FL_GLOBAL_UPDATE_REF": weights_ref,
        "TASK_ID": server_name(deployment, number),
        "FL_INLINE": "never",
    }
    if settings.registry:
        base = settings.registry.rstrip("/")
        told["FL_UPDATE_REF"] = f"{base}/{space}/{_name(deployment)}/models:{result.model}"
    parts = _couriers(told, settings, fetches=True)
    spec = deployment.spec
    env = {
        "KAFKAML_DEPLOYMENT_DIR": _TOLD_DIR,
        "KAFKAML_TOPICS": topics_text(deployment),
        "BOOTSTRAP_SERVERS": _servers(spec.kafka, settings),
        "FEDERATED_STRING_ID": result.federated_string_id,
        "RESULT_ID": str(number),
        "DEPLOYMENT_ID": _name(deployment),
        "AGGREGATION_ROUNDS": str(spec.aggregation.rounds),
        "MIN_DATA": str(spec.min_data),
        "AGG_STRATEGY": spec.aggregation.strategy,
        "DATA_RESTRICTION": json.dumps(dict(spec.data_restriction)),
        "BATCH": str(spec.batch),
    }
    container = {
        "name": "server",
        "image": settings.server_image,
        "command": python_command(KAFKA_SERVER),
        "env": [*parts.task_env, *_env(env), *_login(spec.kafka, settings)],
        "volumeMounts": [
            *parts.task_mounts,
            {"name": _TOLD_VOLUME, "mountPath": _TOLD_DIR, "readOnly": True},
        ],
        "resources": spec.server_resources or {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    labels = {
        DEPLOYMENT_LABEL: _name(deployment),
        ROLE_LABEL: "server",
        RESULT_LABEL: str(number),
    }
    pod = {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "initContainers": parts.init_containers,
        "containers": [container],
        "volumes": [
            *parts.volumes,
            {"name": _TOLD_VOLUME, "configMap": {"name": told_name(_name(deployment))}},
        ],
    }
    name = server_name(deployment, number)
    return _job(name, space, labels, pod, backoff=settings.server_backoff)


def client_name(federated_id: str, client: str) -> str:
    """``federated-training-<id>-worker-<8 hex>``."""
    short = hashlib.sha256(f"{federated_id} {client}".encode()).hexdigest()[:8]
    return f"federated-training-{federated_id.lower()}-worker-{short}"[:63]


def client_job(
    deployment: FederatedDeployment,
    result: ResultStatus,
    model: MLModel,
    source: Datasource,
    index: int,
    settings: KafkaMLSettings,
) -> Obj:
    """Trains one model on one datasource."""
    spec, data = deployment.spec, source.spec
    client = client_id(source)
    other = bool(data.kafka.bootstrap_servers)
    data_kafka = data.kafka if other else spec.kafka
    env = {
        "KML_CLOUD_BOOTSTRAP_SERVERS": _servers(spec.kafka, settings),
        "DATA_BOOTSTRAP_SERVERS": _servers(data_kafka, settings),
        "DATA_TOPIC": data.topic,
        "UNSUPERVISED_TOPIC": data.unsupervised_topic or "",
        "INPUT_FORMAT": data.input_format,
        "INPUT_CONFIG": json.dumps(dict(data.input_config)),
        "VALIDATION_RATE": str(data.validation_rate),
        "TEST_RATE": str(data.test_rate),
        "TOTAL_MSG": str(data.total_msg if data.total_msg is not None else ""),
        "FEDERATED_MODEL_ID": result.federated_string_id,
        "FEDERATED_CLIENT_ID": client,
        "NVIDIA_VISIBLE_DEVICES": "all",
        "CASE": "2" if data.incremental else "1",
        "KAFKAML_TOPICS": topics_text(deployment),
        "KAFKAML_MODEL_CODE_DIR": _CODE_DIR,
    }
    if spec.legacy_weights:
        env["KAFKAML_LEGACY_WEIGHTS"] = "true"
    container: Obj = {
        "name": "training",
        "image": spec.clients.image or model.spec.image or settings.images[model.spec.framework],
        "command": python_command(KAFKA_CLIENT),
        "env": [
            *_env(env),
            *_login(spec.kafka, settings),
            *(_other_login(data.kafka, settings, "DATA_KAFKA") if other else ()),
        ],
        "volumeMounts": [_code_mount(), *(spec.clients.volume_mounts or ())],
        "resources": spec.clients.resources or {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    labels = {
        DEPLOYMENT_LABEL: _name(deployment),
        ROLE_LABEL: "client",
        INDEX_LABEL: str(index),
        CLIENT_LABEL: client,
    }
    pod: Obj = {
        "restartPolicy": "OnFailure",
        "automountServiceAccountToken": False,
        "containers": [container],
        "volumes": [_code_volume(_name(model)), *(spec.clients.volumes or ())],
    }
    if spec.clients.node_selector:
        pod["nodeSelector"] = dict(spec.clients.node_selector)
    name = client_name(result.federated_string_id, client)
    space = deployment.metadata["namespace"]
    made = _job(name, space, labels, pod, backoff=settings.client_backoff)
    made["spec"]["ttlSecondsAfterFinished"] = settings.client_ttl
    return made


# --- inference ---------------------------------------------------------------------------------


def inference_name(inference: str) -> str:
    return f"model-inference-{inference}"


def inference_deployment(
    inference: Inference, model_ref: str, model: MLModel | None, settings: KafkaMLSettings
) -> Obj:
    """Pods that answer on topics."""
    spec = inference.spec
    name = _name(inference)
    told = {"FL_GLOBAL_UPDATE_REF": model_ref, "TASK_ID": inference_name(name)}
    parts = _couriers(told, settings, fetches=True)
    env = {
        "INPUT_BOOTSTRAP_SERVERS": _servers(spec.input_kafka, settings),
        "OUTPUT_BOOTSTRAP_SERVERS": _servers(spec.output_kafka, settings),
        "INPUT_FORMAT": spec.input_format,
        "INPUT_CONFIG": json.dumps(dict(spec.input_config)),
        "INPUT_TOPIC": spec.input_topic,
        "OUTPUT_TOPIC": spec.output_topic,
        "GROUP_ID": f"inf{name}",
    }
    if spec.limit is not None:
        env |= {"OUTPUT_UPPER": spec.output_upper, "LIMIT": str(spec.limit)}
    framework = model.spec.framework if model is not None else "numpy"
    container: Obj = {
        "name": "inference",
        "image": spec.image or settings.images[framework],
        "command": python_command(KAFKA_INFERENCE),
        "env": [
            *parts.task_env,
            *_env(env),
            *_login(spec.input_kafka, settings),
            *_other_login(spec.output_kafka, settings, "OUTPUT_KAFKA"),
        ],
        "volumeMounts": list(parts.task_mounts),
        "resources": spec.resources or {"requests": {"cpu": "100m", "memory": "128Mi"}},
    }
    volumes = list(parts.volumes)
    if model is not None:
        container["env"] += _env({"KAFKAML_MODEL_CODE_DIR": _CODE_DIR})
        container["volumeMounts"].append(_code_mount())
        volumes.append(_code_volume(_name(model)))
    labels = {INFERENCE_LABEL: name, ROLE_LABEL: "inference"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": inference_name(name),
            "namespace": inference.metadata["namespace"],
            "labels": labels,
        },
        "spec": {
            "replicas": 0 if spec.stopped else spec.replicas,
            "selector": {"matchLabels": {INFERENCE_LABEL: name}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "automountServiceAccountToken": False,
                    # what is fetched is all that is carried: nothing is delivered
                    "initContainers": parts.init_containers[:1],
                    "containers": [container],
                    "volumes": volumes,
                },
            },
        },
    }


# --- parts -------------------------------------------------------------------------------------


def _name(obj: MLModel | FederatedDeployment | Datasource | Inference) -> str:
    return str(obj.metadata["name"])


def _couriers(told: Mapping[str, str], settings: KafkaMLSettings, *, fetches: bool) -> Parts:
    return courier_parts(
        told,
        image=settings.courier_image,
        registry_map=settings.registry_map,
        fetches=fetches,
    )


def _servers(kafka: Kafka, settings: KafkaMLSettings) -> str:
    return kafka.bootstrap_servers or settings.kafka


def _other_login(kafka: Kafka, settings: KafkaMLSettings, before: str) -> list[Obj]:
    """The login of a second broker, where there is one; it may have none though the first has."""
    if not kafka.bootstrap_servers and not settings.secret:
        return []
    return _login(kafka, settings, before) or _env({f"{before}_USERNAME": ""})


def _login(kafka: Kafka, settings: KafkaMLSettings, before: str = "KAFKA") -> list[Obj]:
    secret = secret_for(kafka, settings)
    if not secret:
        return []
    keys = ("username", "password", "mechanism")
    return [
        {
            "name": f"{before}_{key.upper()}",
            "valueFrom": {
                "secretKeyRef": {"name": secret, "key": key, "optional": key == "mechanism"}
            },
        }
        for key in keys
    ]


def _env(values: Mapping[str, str]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _code_volume(model: str) -> Obj:
    return {"name": _CODE_VOLUME, "configMap": {"name": code_name(model)}}


def _code_mount() -> Obj:
    return {"name": _CODE_VOLUME, "mountPath": _CODE_DIR, "readOnly": True}


def _job(name: str, namespace: str, labels: Mapping[str, str], pod: Obj, *, backoff: int) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": dict(labels)},
        "spec": {
            "backoffLimit": backoff,
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }
