"""The schemas of bodies and answers of this interface, for the OpenAPI document."""

from __future__ import annotations

from typing import Any, Final

from corral.kube.types import Obj

__all__ = ["kafkaml_schemas"]

_TEXT: Final[Obj] = {"type": "string"}
_FLAG: Final[Obj] = {"type": "boolean"}
_ID: Final[Obj] = {"type": ["string", "integer"], "description": "The name of an object."}
_FREE: Final[Obj] = {"type": "object"}
_EITHER: Final[Obj] = {"type": ["object", "string"], "description": "An object, or its text."}
_WHOLE: Final[Obj] = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}
_COUNT: Final[Obj] = {"type": "integer", "minimum": 1, "maximum": 100_000}
_MAYBE: Final[Obj] = {"type": ["number", "null"]}


def _most(length: int) -> Obj:
    return {"type": "string", "maxLength": length}


def _object(properties: dict[str, Any], *required: str) -> Obj:
    out: Obj = {"type": "object", "properties": properties}
    return {**out, "required": list(required)} if required else out


def _list(items: Obj) -> Obj:
    return {"type": "array", "items": items}


def kafkaml_schemas() -> dict[str, Obj]:
    """Every schema by its name."""
    rows = {
        "KafkaMLModelRow": _row("name", "framework", "code", "status"),
        "KafkaMLConfigurationRow": _row("name", "ml_models", "status"),
        "KafkaMLDeploymentRow": _row("configuration", "federated", "status", "results"),
        "KafkaMLResultRow": _row("deployment", "model", "status", "train_metrics"),
        "KafkaMLInferenceRow": _row("input_topic", "output_topic", "status"),
        "KafkaMLDatasourceRow": _row("topic", "input_format", "input_config"),
    }
    return {
        **rows,
        **{f"{name}s": _list(row) for name, row in rows.items()},
        **_bodies(),
        "KafkaMLMetrics": _object(
            {
                **dict.fromkeys(("train_metrics", "val_metrics", "test_metrics"), _FREE),
                "training_time": _MAYBE,
            },
            "train_metrics", "val_metrics", "test_metrics",
        ),
        "KafkaMLChart": _object(
            {
                "metrics": _list(
                    _object(
                        {
                            "name": _TEXT,
                            "series": _list(_object({"name": _TEXT, "value": {"type": "number"}})),
                        },
                        "name", "series",
                    )
                ),
                "conf_mat": _FLAG,
            },
            "metrics", "conf_mat",
        ),
        "KafkaMLConfusionMatrix": _object({"confusion_matrix": _list({})}, "confusion_matrix"),
        "KafkaMLInputFormat": _object(
            {"input_format": _TEXT, "input_config": _TEXT}, "input_format", "input_config"
        ),
        "KafkaMLFrameworks": _list(_TEXT),
        "KafkaMLFlag": _FLAG,
    }  # fmt: skip


_TOLD: Final[Obj] = {
    **dict.fromkeys(("train_metrics", "val_metrics", "test_metrics"), _EITHER),
    "training_time": _MAYBE,
    "confusion_matrix": {"type": ["array", "null"], "items": {"type": "array"}},
}


def _row(*required: str) -> Obj:
    return _object({"id": _TEXT}, "id", *required)


def _bodies() -> dict[str, Obj]:
    return {
        "KafkaMLModel": _object(
            {
                "name": {**_most(30), "minLength": 1},
                "description": _most(100),
                "imports": _most(262_144),
                "code": {**_most(262_144), "minLength": 1},
                "framework": {"type": "string", "enum": ["tf", "pth", "numpy"]},
                "distributed": _FLAG,
                "father": {"type": ["string", "integer", "null"]},
            },
            "name", "code",
        ),
        "KafkaMLConfiguration": _object(
            {
                "name": {**_most(30), "minLength": 1},
                "description": _most(100),
                "ml_models": {**_list(_ID), "minItems": 1, "maxItems": 100},
            },
            "name", "ml_models",
        ),
        "KafkaMLDeployment": _deployment(),
        "KafkaMLInference": _object(
            {
                "replicas": {"type": "integer", "minimum": 0, "maximum": 1000},
                "input_format": {"enum": ["RAW", "AVRO", "JSON", "TELEGRAF_STR_JSON"]},
                "input_config": _EITHER,
                **dict.fromkeys(("input_topic", "output_topic", "output_upper"), _most(249)),
                "limit": _MAYBE,
                **dict.fromkeys(("input_kafka_broker", "output_kafka_broker"), _most(4096)),
            },
            "input_topic", "output_topic",
        ),
        "KafkaMLTold": _object({**_TOLD, "data": _EITHER}),
        "KafkaMLTrained": _object(
            {"trained_model": {"type": "string", "format": "binary"}, "data": _TEXT},
            "trained_model",
        ),
        "KafkaMLDatasource": _object(
            {
                "topic": _most(65_536),
                "unsupervised_topic": {"type": ["string", "null"]},
                "input_format": _TEXT,
                "input_config": _EITHER,
                "description": _TEXT,
                "dataset_restrictions": _EITHER,
                **dict.fromkeys(("validation_rate", "test_rate"), _MAYBE),
                "total_msg": {"type": ["integer", "null"]},
                "incremental": _FLAG,
                "deployment": _ID,
                **dict.fromkeys(("federated_string_id", "client_id"), _most(63)),
            },
            "topic",
        ),
    }  # fmt: skip


def _deployment() -> Obj:
    kwargs = ("tf_kwargs_fit", "tf_kwargs_val", "pth_kwargs_fit", "pth_kwargs_val")
    words = ("optimizer", "loss", "agg_strategy")
    flags = ("incremental", "indefinite", "unsupervised", "federated", "blockchain")
    return _object(
        {
            "configuration": _ID,
            "batch": _COUNT,
            **{key: {**_most(4096), "description": "Such as epochs=5."} for key in kwargs},
            **dict.fromkeys(words, _TEXT),
            **dict.fromkeys(flags, _FLAG),
            "learning_rate": _MAYBE,
            "metrics": {"type": ["string", "array", "null"], "items": _TEXT},
            "stream_timeout": {"type": "integer", "minimum": -1},
            "unsupervised_rounds": _COUNT,
            "confidence": _MAYBE,
            "agg_rounds": _COUNT,
            "min_data": _WHOLE,
            "data_restriction": _EITHER,
        },
        "configuration",
        *kwargs,
    )
