"""The routes of this interface; they are in the OpenAPI document like all others."""

from __future__ import annotations

from typing import Final

from corral.gateway.rest.kafkaml import posted, results, views
from corral.gateway.rest.routes import Answer, Operation, View

__all__ = ["KAFKAML", "TAG"]

TAG: Final = "kafkaml"
_ROOT: Final = "/kafkaml/{namespace}"
_MODELS, _CONFIGURATIONS = "mlmodels", "mlconfigurations"
_DEPLOYMENTS, _INFERENCES, _SOURCES = "federateddeployments", "inferences", "datasources"
_DONE: Final = Answer(200, "Done.")
_CREATED: Final = Answer(201, "Created.")
_FILE: Final = Answer(
    200, "The arrays as safetensors; ML-Framework says what for.", "log",
    ("application/octet-stream",), ("ML-Framework",),
)  # fmt: skip


def _get(path: str, plural: str, view: View, schema: str, summary: str, name: str) -> Operation:
    verb = "get" if "{name}" in path else "list"
    answer = Answer(200, "It is.", schema)
    return Operation(
        "GET", _ROOT + path, verb, view, summary, (answer,), plural=plural, name=f"kafkaml_{name}"
    )


def _file(path: str, view: View, summary: str, name: str) -> Operation:
    return Operation(
        "GET", _ROOT + path, "get", view, summary, (_FILE,), streams=True, plural=_DEPLOYMENTS,
        name=f"kafkaml_{name}",
    )  # fmt: skip


def _post(path: str, plural: str, view: View, body: str, summary: str, name: str) -> Operation:
    return Operation(
        "POST", _ROOT + path, "create", view, summary, (_CREATED,), body=body, plural=plural,
        name=f"kafkaml_{name}",
    )  # fmt: skip


def _put(path: str, plural: str, view: View, body: str, summary: str, name: str) -> Operation:
    return Operation(
        "PUT", _ROOT + path, "replace", view, summary, (_DONE,), body=body, plural=plural,
        name=f"kafkaml_{name}",
    )  # fmt: skip


def _delete(path: str, plural: str, view: View, summary: str, name: str) -> Operation:
    return Operation(
        "DELETE", _ROOT + path, "delete", view, summary, (_DONE,), plural=plural,
        name=f"kafkaml_{name}",
    )  # fmt: skip


def _stop(path: str, plural: str, view: View, summary: str, name: str) -> Operation:
    return Operation(
        "POST", _ROOT + path, "stop", view, summary, (_DONE,), plural=plural,
        name=f"kafkaml_{name}",
    )  # fmt: skip


def _tell(
    path: str, view: View, body: str, types: tuple[str, ...], summary: str, name: str
) -> Operation:
    return Operation(
        "POST", _ROOT + path, "report", view, summary, (_DONE,), body=body, body_types=types,
        plural=_DEPLOYMENTS, name=f"kafkaml_{name}",
    )  # fmt: skip


_MODEL, _MODEL_ROW = "KafkaMLModel", "KafkaMLModelRow"
_CONFIGURATION, _CONFIGURATION_ROW = "KafkaMLConfiguration", "KafkaMLConfigurationRow"

KAFKAML: Final[tuple[Operation, ...]] = (
    _get("/models/", _MODELS, views.list_models, f"{_MODEL_ROW}s", "List models", "models"),
    _post("/models/", _MODELS, views.post_model, _MODEL, "Create a model", "create_model"),
    _get("/models/distributed", _MODELS, views.distributed_models, f"{_MODEL_ROW}s",
         "List models that are parts of others", "distributed_models"),
    _get("/models/fathers", _MODELS, views.fathers, f"{_MODEL_ROW}s",
         "List models that can be a father", "fathers"),
    _get("/models/result/{name}", _DEPLOYMENTS, results.model_of_result, _MODEL_ROW,
         "The model of a result", "model_of_result"),
    _get("/models/{name}", _MODELS, views.get_model, _MODEL_ROW, "Get a model", "model"),
    _put("/models/{name}", _MODELS, views.put_model, _MODEL, "Change a model", "change_model"),
    _delete("/models/{name}", _MODELS, views.delete_model,
            "Delete a model that nothing uses", "delete_model"),
    _get("/configurations/", _CONFIGURATIONS, views.list_configurations,
         f"{_CONFIGURATION_ROW}s", "List configurations", "configurations"),
    _post("/configurations/", _CONFIGURATIONS, views.post_configuration, _CONFIGURATION,
          "Create a configuration", "create_configuration"),
    _get("/configurations/{name}", _CONFIGURATIONS, views.get_configuration, _CONFIGURATION_ROW,
         "Get a configuration", "configuration"),
    _put("/configurations/{name}", _CONFIGURATIONS, views.put_configuration, _CONFIGURATION,
         "Change a configuration", "change_configuration"),
    _delete("/configurations/{name}", _CONFIGURATIONS, views.delete_configuration,
            "Delete a configuration that nothing uses", "delete_configuration"),
    _get("/frameworksInConfiguration/{name}", _CONFIGURATIONS, views.frameworks,
         "KafkaMLFrameworks", "The frameworks of a configuration", "frameworks"),
    _get("/distributedConfiguration/{name}", _CONFIGURATIONS, views.distributed_configuration,
         "KafkaMLFlag", "Whether a configuration has parts of models", "distributed"),
    _get("/deployments/", _DEPLOYMENTS, views.list_deployments, "KafkaMLDeploymentRows",
         "List deployments", "deployments"),
    _post("/deployments/", _DEPLOYMENTS, views.post_deployment, "KafkaMLDeployment",
          "Train a configuration", "create_deployment"),
    _get("/deployments/results/{name}", _DEPLOYMENTS, results.results_of_deployment,
         "KafkaMLResultRows", "The results of a deployment", "results_of_deployment"),
    _get("/deployments/{name}", _CONFIGURATIONS, views.deployments_of, "KafkaMLDeploymentRows",
         "The deployments of a configuration", "deployments_of_configuration"),
    _delete("/deployments/{name}", _DEPLOYMENTS, views.delete_deployment, "Delete a deployment",
            "delete_deployment"),
    _get("/results/", _DEPLOYMENTS, results.list_results, "KafkaMLResultRows", "List results",
         "results"),
    _file("/results/{name}", results.get_untrained, "The model before its training", "untrained"),
    _tell("/results/{name}", posted.post_result, "KafkaMLTrained", posted.FORMS[2:],
          "Put a model that was trained elsewhere into a result", "post_result"),
    _delete("/results/{name}", _DEPLOYMENTS, results.delete_result,
            "Delete the deployment of a result", "delete_result"),
    _stop("/results/stop/{name}", _DEPLOYMENTS, results.stop_result,
          "Suspend the deployment of a result", "stop_result"),
    _file("/results/model/{name}", results.get_trained, "The trained model", "trained"),
    _get("/results_metrics/{name}", _DEPLOYMENTS, results.get_metrics, "KafkaMLMetrics",
         "The last metrics of a result", "metrics"),
    _tell("/results_metrics/{name}", posted.post_metrics, "KafkaMLTold", posted.FORMS,
          "Put metrics that were measured elsewhere into a result", "post_metrics"),
    _get("/results/chart/{name}", _DEPLOYMENTS, results.get_chart, "KafkaMLChart",
         "The metrics of a result by round", "chart"),
    _get("/results/confusion_matrix/{name}", _DEPLOYMENTS, results.get_confusion_matrix,
         "KafkaMLConfusionMatrix", "The confusion matrix of a result", "confusion_matrix"),
    _get("/results/inference/{name}", _DEPLOYMENTS, results.suggested_inference,
         "KafkaMLInputFormat", "How the data of a result was read", "input_format"),
    _post("/results/inference/{name}", _INFERENCES, results.post_inference, "KafkaMLInference",
          "Have the model of a result answer on a topic", "create_inference"),
    _get("/inferences/", _INFERENCES, views.list_inferences, "KafkaMLInferenceRows",
         "List inferences", "inferences"),
    _get("/inferences/{name}", _INFERENCES, views.get_inference, "KafkaMLInferenceRow",
         "Get an inference", "inference"),
    _stop("/inferences/{name}", _INFERENCES, views.stop_inference, "Stop an inference",
          "stop_inference"),
    _delete("/inferences/{name}", _INFERENCES, views.delete_inference, "Delete an inference",
            "delete_inference"),
    _get("/datasources/", _SOURCES, views.list_datasources, "KafkaMLDatasourceRows",
         "List datasources", "datasources"),
    _post("/datasources/", _SOURCES, views.post_datasource, "KafkaMLDatasource",
          "Say where data is", "create_datasource"),
    _post("/datasources/kafka", _SOURCES, views.post_datasource, "KafkaMLDatasource",
          "Say where data is, as a data control message does", "announce_datasource"),
    _get("/federated-datasources/", _SOURCES, views.list_datasources, "KafkaMLDatasourceRows",
         "List datasources, as the federated backend does", "federated_datasources"),
    _post("/federated-datasources/", _SOURCES, views.post_datasource, "KafkaMLDatasource",
          "Say where data is, as loggers of data control messages do",
          "create_federated_datasource"),
)  # fmt: skip
