"""What bodies of requests mean: specs of objects. Nothing here talks to anybody.

Bodies are taken as web forms send them: numbers and objects may be texts, absent and empty fields
are the defaults. What cannot be meant, or cannot be done here, is refused with words.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from corral.gateway.problems import Refused
from corral.kube.types import Obj

__all__ = [
    "DISPLAY",
    "configuration_object",
    "datasource_object",
    "deployment_object",
    "inference_object",
    "kwargs_of",
    "metrics_status",
    "model_object",
]

DISPLAY: Final = "kafkaml.corral.dev/name"
"""The annotation with a name that no object can have."""
_FRAMEWORKS: Final = ("tf", "pth", "numpy")
_FORMATS: Final = ("RAW", "AVRO", "JSON", "TELEGRAF_STR_JSON")
_KWARGS: Final = ("tf_kwargs_fit", "tf_kwargs_val", "pth_kwargs_fit", "pth_kwargs_val")
_LONGEST: Final = 4096
"""Characters of arguments."""

_METRICS: Final = 100
_EPOCHS: Final = 1000
_CLASSES: Final = 100

Body = Mapping[str, Any]


def refused(key: str, detail: str) -> Refused:
    return Refused("bad-request", f"{key}: {detail}", errors=((key, detail),))


# --- fields --------------------------------------------------------------------------------------


def _text(body: Body, key: str, *, most: int = 1024, needed: bool = False) -> str:
    value = body.get(key)
    if value is None:
        value = ""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # ids may be numbers
    if not isinstance(value, str):
        raise refused(key, "must be text")
    if needed and not value.strip():
        raise refused(key, "is needed")
    if len(value) > most:
        raise refused(key, f"may have {most} characters")
    return value


def _whole(body: Body, key: str, default: int, *, least: int = 0, most: int = 2**31 - 1) -> int:
    value = body.get(key)
    if value in (None, ""):
        return default
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,12}", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise refused(key, f"must be a whole number from {least} to {most}")
    return value


def _number(body: Body, key: str, *, above: float, most: float) -> float | None:
    value = body.get(key)
    if value in (None, ""):
        return None
    try:
        found = float(value) if isinstance(value, str | int | float) else float("nan")
    except (ValueError, OverflowError):
        found = float("nan")
    if isinstance(value, bool) or not above < found <= most:
        raise refused(key, f"must be a number above {above:g} and at most {most:g}")
    return found


def _flag(body: Body, key: str) -> bool:
    value = body.get(key)
    if value in (None, "", False, "false", "False", 0):
        return False
    if value in (True, "true", "True", 1):
        return True
    raise refused(key, "must be true or false")


def _object(body: Body, key: str) -> Obj:
    """An object, or the text of one."""
    value = body.get(key)
    if isinstance(value, str):
        try:
            value = json.loads(value) if value.strip() else {}
        except (ValueError, RecursionError):
            raise refused(key, "must be a JSON object") from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refused(key, "must be a JSON object")
    return value


def _among(body: Body, key: str, words: tuple[str, ...]) -> str:
    value = body.get(key) or words[0]
    if value not in words:
        raise refused(key, f"must be one of {', '.join(words)}")
    return str(value)


def kwargs_of(body: Body, key: str) -> Obj:
    """``epochs=5, steps_per_epoch=10``: arguments with values and nothing that runs.

    Raises:
        Refused: it is something else.
    """
    value = body.get(key)
    if isinstance(value, dict):
        return value
    detail = _text(body, key, most=_LONGEST)
    if not detail.strip():
        return {}
    try:
        call = ast.parse(f"f({detail})", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name):
            raise ValueError
        found = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords if word.arg}
        if len(found) != len(call.keywords):
            raise ValueError
        json.dumps(found, allow_nan=False)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise refused(key, "must be arguments such as epochs=5, verbose=0") from None
    return found


# --- objects -------------------------------------------------------------------------------------


def _named(body: Body, *, most: int = 30) -> Obj:
    """Metadata: a name that an object can have, and the one that was given."""
    name = _text(body, "name", most=most, needed=True).strip()
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not slug:
        raise refused("name", "needs a letter or a digit")
    metadata: Obj = {"name": slug}
    if slug != name:
        metadata["annotations"] = {DISPLAY: name}
    return metadata


def model_object(body: Body) -> Obj:
    spec: Obj = {
        "framework": _among(body, "framework", _FRAMEWORKS),
        "description": _text(body, "description", most=100),
        "imports": _text(body, "imports", most=262_144),
        "code": _text(body, "code", most=262_144, needed=True),
        "distributed": _flag(body, "distributed"),
    }
    if father := _text(body, "father", most=253):
        spec["father"] = father
    return {"metadata": _named(body), "spec": spec}


def configuration_object(body: Body) -> Obj:
    models = body.get("ml_models")
    if not isinstance(models, list) or not models or len(models) > 100:
        raise refused("ml_models", "must be a list of 1 to 100 ids of models")
    names = [_text({"ml_models": model}, "ml_models", most=253, needed=True) for model in models]
    spec = {"description": _text(body, "description", most=100), "models": names}
    return {"metadata": _named(body), "spec": spec}


def deployment_object(body: Body) -> Obj:
    """A FederatedDeployment; what only training without federation has is refused."""
    for key in _KWARGS:
        if key not in body:
            raise refused(key, "is needed; it may be empty")
    if "federated" in body and not _flag(body, "federated"):
        raise refused("federated", "must be true: only federated training is there")
    if _flag(body, "blockchain"):
        raise refused("blockchain", "is not there; leave it away")
    kind = "tf" if kwargs_of(body, "tf_kwargs_fit") else "pth"
    fit, check = kwargs_of(body, f"{kind}_kwargs_fit"), kwargs_of(body, f"{kind}_kwargs_val")
    epochs = fit.get("epochs", fit.get("max_epochs", 1))
    if isinstance(epochs, bool) or not isinstance(epochs, int) or epochs < 1:
        raise refused(f"{kind}_kwargs_fit", "needs epochs of 1 or more")
    configuration = _text(body, "configuration", most=253, needed=True)
    spec: Obj = {
        "configuration": configuration,
        "batch": _whole(body, "batch", 32, least=1),
        "kwargsFit": fit,
        "kwargsVal": check,
        "aggregation": {
            "rounds": _whole(body, "agg_rounds", 15, least=1, most=100_000),
            "strategy": _text(body, "agg_strategy", most=64) or "FedAvg",
        },
        "minData": _whole(body, "min_data", 1000),
        "dataRestriction": _object(body, "data_restriction"),
        "incremental": _flag(body, "incremental"),
        "streamTimeout": -1
        if _flag(body, "indefinite")
        else _whole(body, "stream_timeout", 60_000, least=-1),
        "unsupervised": _flag(body, "unsupervised"),
        "unsupervisedRounds": _whole(body, "unsupervised_rounds", 5, least=1),
        "confidence": _number(body, "confidence", above=0, most=1) or 0.9,
    }
    return {"metadata": _made_of(configuration), "spec": {**spec, **_compiled(body)}}


def _compiled(body: Body) -> Obj:
    """What is used instead of what the model is compiled with."""
    out: Obj = {
        "optimizer": _text(body, "optimizer", most=253),
        "loss": _text(body, "loss", most=253),
    }
    rate = _number(body, "learning_rate", above=0, most=1e6)
    metrics = body.get("metrics") or []
    if isinstance(metrics, str):
        metrics = [word.strip() for word in metrics.split(",") if word.strip()]
    if not isinstance(metrics, list) or not all(isinstance(word, str) for word in metrics):
        raise refused("metrics", "must be names with commas between, or a list of them")
    out |= {"learningRate": rate, "metrics": metrics or None}
    return {key: value for key, value in out.items() if value not in ("", None)}


def _made_of(name: str) -> Obj:
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    return {"generateName": f"{slug or 'x'}-"}


def inference_object(body: Body, *, deployment: str, model: str) -> Obj:
    for key in ("external_host", "token"):
        if body.get(key):
            raise refused(key, "is not there: an inference runs in the namespace of its objects")
    limit = _number(body, "limit", above=-1e-9, most=1)
    spec: Obj = {
        "deployment": deployment,
        "model": model,
        "replicas": _whole(body, "replicas", 1, most=1000),
        "inputFormat": _among(body, "input_format", _FORMATS),
        "inputConfig": _object(body, "input_config"),
        "inputTopic": _text(body, "input_topic", most=249, needed=True),
        "outputTopic": _text(body, "output_topic", most=249, needed=True),
    }
    upper = _text(body, "output_upper", most=249)
    if upper:
        spec |= {"outputUpper": upper, "limit": limit if limit is not None else 0.5}
    for key in ("input", "output"):
        if servers := _text(body, f"{key}_kafka_broker", most=4096):
            spec[f"{key}Kafka"] = {"bootstrapServers": servers}
    return {"metadata": _made_of(f"{deployment}-{model}"), "spec": spec}


def metrics_status(body: Body) -> Obj:
    """What a body says of a result's metrics, as fields of its status."""
    names = {"train_metrics": "trainMetrics", "val_metrics": "valMetrics"}
    names["test_metrics"] = "testMetrics"
    out: Obj = {name: _metrics(body, key) for key, name in names.items() if body.get(key)}
    matrix = body.get("confusion_matrix")
    if matrix:
        if not _is_matrix(matrix):
            raise refused("confusion_matrix", "must be a square of numbers of samples")
        out["testMetrics"] = {**out.get("testMetrics", {}), "confusion_matrix": matrix}
    seconds = _number(body, "training_time", above=-1e-9, most=1e9)
    return out if seconds is None else {**out, "trainingSeconds": seconds}


def _metrics(body: Body, key: str) -> Obj:
    """Numbers by their names, or a list of them for each, one for every epoch."""
    found = _object(body, key)
    if len(found) > _METRICS or not all(0 < len(name) <= 64 for name in found):
        raise refused(key, f"may have {_METRICS} metrics, with names of up to 64 characters")
    for value in found.values():
        values = value if isinstance(value, list) else [value]
        if not values or len(values) > _EPOCHS or not all(map(_is_number, values)):
            raise refused(key, f"must be numbers by name, or lists of up to {_EPOCHS} of them")
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e200


def _is_matrix(value: Any) -> bool:
    rows = value if isinstance(value, list) else []
    return 0 < len(rows) <= _CLASSES and all(
        isinstance(row, list)
        and len(row) == len(rows)
        and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 2**40 for n in row)
        for row in rows
    )


def datasource_object(body: Body) -> Obj:
    """Of what a data control message says."""
    from corral.podtools.kafka.messages import DataControl, MessageError

    try:
        detail = DataControl.decode(json.dumps(dict(body)).encode())
    except (MessageError, TypeError) as error:
        raise Refused("bad-request", str(error)) from None
    spec: Obj = {**detail.spec(), "deployment": _text(body, "deployment", most=253)}
    return {"metadata": _made_of(detail.topic.partition(":")[0]), "spec": spec}
