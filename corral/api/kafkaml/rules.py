"""Rules of ``kafkaml.corral.dev`` beyond the schema, and the texts that its objects are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

from corral.api.kafkaml.spec import (
    Aggregation,
    DatasourceSpec,
    FederatedDeploymentSpec,
    InferenceSpec,
    Topics,
)
from corral.api.propeller.strategies import aggregator_problems
from corral.kube.problems import FieldError, invalid_value, required
from corral.podtools.kafka.ranges import parse_ranges
from corral.podtools.kafkaml.strategies import strategy_name

__all__ = [
    "aggregation_problems",
    "config_problems",
    "datasource_problems",
    "inference_problems",
    "mode_problems",
    "source_problems",
    "topic_problems",
]

Found: TypeAlias = Iterator[FieldError]

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TEMPLATE: Final = re.compile(r"[a-zA-Z0-9._-]|\{id\}|\{client\}")
_SHAPE: Final = re.compile(r"(\d+( \d+)*)?")
_TYPES: Final = (
    "half", "float", "float16", "float32", "float64", "double", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64", "string", "bool",
)  # fmt: skip
_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "RAW": ("data_type", "data_reshape"),
    "AVRO": ("data_scheme",),
}
_LABEL_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "RAW": ("label_type", "label_reshape"),
    "AVRO": ("label_scheme",),
}


def source_problems(spec: FederatedDeploymentSpec) -> Found:
    if bool(spec.configuration) == bool(spec.model):
        why = "name a configuration or a model, and not both"
        yield invalid_value("spec.configuration", spec.configuration, why)


def mode_problems(spec: FederatedDeploymentSpec) -> Found:
    if spec.incremental and spec.unsupervised:
        why = "labels are made up for data that is all there: leave incremental or this away"
        yield invalid_value("spec.unsupervised", spec.unsupervised, why)
    if spec.stream_timeout < -1:
        why = "must be milliseconds, or -1 for no limit"
        yield invalid_value("spec.streamTimeout", spec.stream_timeout, why)


def aggregation_problems(path: str, found: Aggregation) -> Found:
    for problem in aggregator_problems(path, strategy_name(found.strategy), found.config):
        field = problem.field.replace(f"{path}.algorithm", f"{path}.strategy")
        yield replace(problem, field=field)
    if found.k_of_n is not None and found.min_updates > found.k_of_n:
        why = f"must be at most kOfN, which is {found.k_of_n}"
        yield invalid_value(f"{path}.minUpdates", found.min_updates, why)


def topic_problems(path: str, topics: Topics) -> Found:
    for name, value in topics.model_dump(by_alias=True, exclude={"retain"}).items():
        if not value:
            yield required(f"{path}.{name}", "a topic needs a name")
        elif _TEMPLATE.sub("", value):
            why = "may have {id} and {client}, and otherwise letters, digits, '.', '_' and '-'"
            yield invalid_value(f"{path}.{name}", value, why)
    if "{client}" not in topics.client_data:
        why = "every client has a topic of its own: the name needs {client}"
        yield invalid_value(f"{path}.clientData", topics.client_data, why)


def config_problems(path: str, format_: str, config: Mapping[str, Any], *, labels: bool) -> Found:
    """What is wrong with how records are to be read."""
    wanted = (*_KEYS.get(format_, ()), *(_LABEL_KEYS.get(format_, ()) if labels else ()))
    for key in wanted:
        if key not in config:
            yield required(f"{path}.{key}", f"{format_} records cannot be read without it")
    for key in ("data_type", "label_type"):
        if format_ == "RAW" and key in config and config[key] not in _TYPES:
            yield invalid_value(f"{path}.{key}", config[key], f"must be one of {', '.join(_TYPES)}")
    for key in ("data_reshape", "label_reshape"):
        found = config.get(key, "")
        if format_ == "RAW" and not (isinstance(found, str) and _SHAPE.fullmatch(found)):
            yield invalid_value(f"{path}.{key}", found, "must be a shape such as '28 28'")


def datasource_problems(spec: DatasourceSpec) -> Found:
    for name, text in (("topic", spec.topic), ("unsupervisedTopic", spec.unsupervised_topic)):
        if text is None or (name == "unsupervisedTopic" and not text):
            continue
        if spec.incremental:
            if not _TOPIC.fullmatch(text):
                why = "data that goes on is named by its topic alone"
                yield invalid_value(f"spec.{name}", text, why)
            continue
        try:
            parse_ranges(text)
        except ValueError as error:
            yield invalid_value(f"spec.{name}", text, str(error))
    if not spec.incremental and spec.total_msg is None:
        yield required("spec.totalMsg", "say how many messages there are, or that it goes on")
    yield from config_problems(
        "spec.inputConfig", spec.input_format, spec.input_config, labels=True
    )


def inference_problems(spec: InferenceSpec) -> Found:
    if bool(spec.deployment) == bool(spec.model_ref):
        why = "name a deployment or a model's artifact, and not both"
        yield invalid_value("spec.deployment", spec.deployment, why)
    if spec.limit is not None and not spec.output_upper:
        yield required("spec.outputUpper", "what is below the limit must go on to a topic")
    yield from config_problems(
        "spec.inputConfig", spec.input_format, spec.input_config, labels=False
    )
