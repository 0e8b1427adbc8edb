"""Objects as the answers of this interface say them. No I/O; odd objects raise nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from corral.client.phases import section, sections, status_of, text
from corral.gateway.rest.kafkaml.bodies import DISPLAY
from corral.kube.types import Obj

__all__ = [
    "chart",
    "configuration_row",
    "confusion_matrix",
    "datasource_row",
    "deployment_row",
    "inference_row",
    "metrics_of",
    "model_row",
    "result_row",
    "results_of",
]


def _id(obj: Obj) -> str:
    return text(section(obj, "metadata").get("name"))


def _name(obj: Obj) -> str:
    given = section(section(obj, "metadata"), "annotations").get(DISPLAY)
    return text(given) or _id(obj)


def _made(obj: Obj) -> str:
    return text(section(obj, "metadata").get("creationTimestamp"))


def model_row(obj: Obj) -> Obj:
    spec, status = section(obj, "spec"), status_of(obj)
    return {
        "id": _id(obj),
        "name": _name(obj),
        "description": text(spec.get("description")),
        "imports": text(spec.get("imports")),
        "code": text(spec.get("code")),
        "framework": text(spec.get("framework")) or "tf",
        "distributed": bool(spec.get("distributed")),
        "father": text(spec.get("father")) or None,
        "status": text(status.get("phase")) or "Pending",
        "error": text(status.get("error")),
        "input_shape": text(status.get("inputShape")),
        "output_shape": text(status.get("outputShape")),
        "parameters": status.get("parameters"),
    }


def configuration_row(obj: Obj) -> Obj:
    spec, status = section(obj, "spec"), status_of(obj)
    models = spec.get("models")
    return {
        "id": _id(obj),
        "name": _name(obj),
        "description": text(spec.get("description")),
        "ml_models": models if isinstance(models, list) else [],
        "time": _made(obj),
        "status": text(status.get("phase")) or "Pending",
        "error": text(status.get("error")),
    }


def deployment_row(obj: Obj) -> Obj:
    spec, status = section(obj, "spec"), status_of(obj)
    aggregation = section(spec, "aggregation")
    return {
        "id": _id(obj),
        "configuration": text(spec.get("configuration")),
        "model": text(spec.get("model")),
        "batch": spec.get("batch"),
        "kwargs_fit": section(spec, "kwargsFit"),
        "kwargs_val": section(spec, "kwargsVal"),
        "optimizer": text(spec.get("optimizer")),
        "learning_rate": spec.get("learningRate"),
        "loss": text(spec.get("loss")),
        "incremental": bool(spec.get("incremental")),
        "unsupervised": bool(spec.get("unsupervised")),
        "federated": True,
        "agg_rounds": aggregation.get("rounds"),
        "agg_strategy": text(aggregation.get("strategy")),
        "min_data": spec.get("minData"),
        "data_restriction": json.dumps(section(spec, "dataRestriction")),
        "federated_string_id": text(status.get("federatedStringId")),
        "registered_devices": len(sections(status, "clients")),
        "round": status.get("currentRound"),
        "status": text(status.get("phase")) or "Pending",
        "time": _made(obj),
        "results": [row["id"] for row in results_of(obj)],
    }


def results_of(obj: Obj) -> list[Obj]:
    """The results of a deployment."""
    return [result_row(obj, result) for result in sections(status_of(obj), "results")]


def result_row(obj: Obj, result: Obj) -> Obj:
    return {
        "id": f"{_id(obj)}.{result.get('id')}",
        "deployment": _id(obj),
        "model": text(result.get("model")),
        "status": text(result.get("status")) or "created",
        "federated_string_id": text(result.get("federatedStringId")),
        "version": result.get("version"),
        "agg_rounds": len(sections(result, "rounds")),
        **metrics_of(result),
        "model_ref": text(result.get("modelRef")),
        "message": text(result.get("message")),
    }


def metrics_of(result: Obj) -> Obj:
    return {
        "train_metrics": section(result, "trainMetrics"),
        "val_metrics": section(result, "valMetrics"),
        "test_metrics": section(result, "testMetrics"),
        "training_time": result.get("trainingSeconds"),
    }


def chart(result: Obj) -> Obj:
    """Every metric by round, or by epoch where there were none here.

    Those of validation begin with ``val_``.
    """
    lines: dict[str, list[Obj]] = {}
    rounds = sections(result, "rounds")
    for round_ in rounds:
        version = round_.get("version")
        for part, before in (("training", ""), ("validation", "val_")):
            for name, value in section(section(round_, "metrics"), part).items():
                found = _last(value)
                if found is not None:
                    point = {"name": str(version), "value": found}
                    lines.setdefault(f"{before}{name}", []).append(point)
    if not rounds:
        lines = _by_epoch(result)
    metrics = [{"name": name, "series": series} for name, series in lines.items()]
    return {"metrics": metrics, "conf_mat": confusion_matrix(result) is not None}


def _by_epoch(result: Obj) -> dict[str, list[Obj]]:
    """What somebody else has measured."""
    lines: dict[str, list[Obj]] = {}
    for part, before in (("trainMetrics", ""), ("valMetrics", "val_")):
        for name, value in section(result, part).items():
            values = [_last(v) for v in (value if isinstance(value, list) else [value])]
            lines[f"{before}{name}"] = [
                {"name": str(epoch), "value": found}
                for epoch, found in enumerate(values)
                if found is not None
            ]
    return {name: series for name, series in lines.items() if series}


def _last(value: Any) -> float | None:
    """A number; of a list of them, one for each epoch, the last."""
    if isinstance(value, list) and value:
        value = value[-1]
    ok = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if ok else None


def confusion_matrix(result: Obj) -> list[Any] | None:
    found = section(result, "testMetrics").get("confusion_matrix")
    return found if isinstance(found, list) and found else None


def inference_row(obj: Obj) -> Obj:
    spec, status = section(obj, "spec"), status_of(obj)
    return {
        "id": _id(obj),
        "deployment": text(spec.get("deployment")),
        "model": text(spec.get("model")),
        "replicas": spec.get("replicas"),
        "ready_replicas": status.get("readyReplicas"),
        "input_format": text(spec.get("inputFormat")),
        "input_config": json.dumps(section(spec, "inputConfig")),
        "input_topic": text(spec.get("inputTopic")),
        "output_topic": text(spec.get("outputTopic")),
        "limit": spec.get("limit"),
        "output_upper": text(spec.get("outputUpper")),
        "status": "stopped" if spec.get("stopped") else _phase(status),
        "error": text(status.get("error")),
        "time": _made(obj),
    }


def _phase(status: Mapping[str, Any]) -> str:
    return {"Running": "deployed", "Stopped": "stopped", "Failed": "failed"}.get(
        text(status.get("phase")), "created"
    )


def datasource_row(obj: Obj) -> Obj:
    spec, status = section(obj, "spec"), status_of(obj)
    return {
        "id": _id(obj),
        "topic": text(spec.get("topic")),
        "unsupervised_topic": text(spec.get("unsupervisedTopic")) or None,
        "input_format": text(spec.get("inputFormat")),
        "input_config": json.dumps(section(spec, "inputConfig")),
        "description": text(spec.get("description")),
        "dataset_restrictions": json.dumps(section(spec, "datasetRestrictions")),
        "validation_rate": spec.get("validationRate") or 0,
        "test_rate": spec.get("testRate") or 0,
        "total_msg": spec.get("totalMsg"),
        "incremental": bool(spec.get("incremental")),
        "deployment": text(spec.get("deployment")),
        "federated_string_id": text(spec.get("federatedStringId")),
        "deployments": [text(found.get("deployment")) for found in sections(status, "matches")],
        "time": _made(obj),
    }
