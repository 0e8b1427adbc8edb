"""Metrics and models that were made elsewhere, for results that nobody trains here at the time.

They are written where servers write theirs: the status of the object, with the caller's own rights,
and the registry. Models are safetensors as they are downloaded; what runs code when it is read
(pickles, and so .pth) is never taken.
"""

from __future__ import annotations

import json
import mmap
import tempfile
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from corral.gateway.problems import Refused
from corral.gateway.rest.asks import Ask
from corral.gateway.rest.forms import FormError, boundary_of, fields_of, parts_of
from corral.gateway.rest.kafkaml import bodies, results
from corral.gateway.rest.kafkaml.views import worded
from corral.jobs.errors import Changed
from corral.jobs.kinds import kind_of
from corral.jobs.phases import section, sections, status_of, text
from corral.jobs.translate import Asked, telling
from corral.kube.types import Obj

__all__ = ["FORMS", "post_metrics", "post_result"]

JSON, URLENCODED, MULTIPART = (
    "application/json",
    "application/x-www-form-urlencoded",
    "multipart/form-data",
)
FORMS: Final = (JSON, URLENCODED, MULTIPART)
_ATTEMPTS: Final = 5
_HEADER: Final = 10_000_000
"""Bytes of what comes before the arrays of a model."""


@worded
async def post_metrics(ask: Ask) -> Response:
    """Put metrics into a result."""
    found = bodies.metrics_status(await _said(ask))
    if not found:
        raise Refused("bad-request", "there are no metrics: send train_metrics or val_metrics")
    await _write(ask, found)
    return Response(status_code=200)


@worded
async def post_result(ask: Ask) -> Response:
    """Put a trained model into a result, with its metrics: it is finished."""
    _, result = await _resting(ask)
    with tempfile.TemporaryDirectory(prefix="corral-posted-") as folder:
        body = Path(folder, "body")
        sent = await ask.save(body, MULTIPART, most=ask.limits.model_bytes)
        said, model = _taken(body, sent, Path(folder, "model"))
        metrics = bodies.metrics_status(said)
        layers = await _layers(ask, result)
        _checked(model, layers)
        reference = await _push(ask, result, model)
    await _write(ask, {**metrics, "status": "finished", "modelRef": reference, "message": None})
    return Response(status_code=200)


# --- bodies --------------------------------------------------------------------------------------


async def _said(ask: Ask) -> dict[str, Any]:
    """The object of a JSON body, or of the field ``data`` of a form."""
    sent = ask.header("content-type").partition(";")[0].strip().lower()
    if sent not in (URLENCODED, MULTIPART):
        return await ask.object(*FORMS)
    content = await ask.content()
    try:
        if sent == URLENCODED:
            fields = fields_of(content)
        else:
            parts = parts_of(content, boundary_of(ask.header("content-type")))
            fields = {
                name: content[part.start : part.end].decode(errors="replace")
                for name, part in parts.items()
            }
    except FormError as error:
        raise Refused("bad-request", str(error)) from None
    return _data(fields.get("data"))


def _data(said: str | None) -> dict[str, Any]:
    if said is None:
        raise bodies.refused("data", "is needed: a field with a JSON object")
    try:
        found = json.loads(said)
    except (ValueError, RecursionError):
        raise bodies.refused("data", "must be a JSON object") from None
    if not isinstance(found, dict):
        raise bodies.refused("data", "must be a JSON object")
    return found


def _taken(body: Path, content_type: str, target: Path) -> tuple[dict[str, Any], Path]:
    """What a form says of a model, and the model as a file of its own."""
    if not body.stat().st_size:
        raise Refused("bad-request", "the body is empty")
    with body.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        try:
            parts = parts_of(held, boundary_of(content_type))
        except FormError as error:
            raise Refused("bad-request", str(error)) from None
        model, said = parts.get("trained_model"), parts.get("data")
        if model is None:
            raise bodies.refused("trained_model", "is needed: a file")
        with target.open("wb") as out, memoryview(held) as whole:
            out.write(whole[model.start : model.end])
        words = "{}" if said is None else held[said.start : said.end].decode(errors="replace")
    return _data(words), target


# --- models --------------------------------------------------------------------------------------


async def _layers(ask: Ask, result: Obj) -> list[Any]:
    """The arrays that the model of a result has; none where it has too many to be named."""
    model = await results.model_of(ask, result)
    found = status_of(model).get("layers")
    return found if isinstance(found, list) else []


def _checked(model: Path, layers: list[Any]) -> None:
    """That a file is a model of such arrays. Raises Refused."""
    header = _header(model)
    if not text(section(header, "__metadata__").get("framework")):
        said = "says nothing of its model: take the file of GET /results/ID and put arrays into it"
        raise bodies.refused("trained_model", said)
    arrays = {name: entry for name, entry in header.items() if name != "__metadata__"}
    if sorted(arrays) != sorted(str(n) for n in range(len(arrays))):
        raise bodies.refused("trained_model", "its arrays must be named 0, 1, 2 and so on")
    if not layers:
        return
    shapes = [arrays[str(n)].get("shape") for n in range(len(arrays))]
    wanted = [layer.get("shape") for layer in layers if isinstance(layer, dict)]
    if shapes != wanted:
        raise bodies.refused("trained_model", f"has arrays {shapes!s:.200}, not {wanted!s:.200}")


def _header(model: Path) -> dict[str, Any]:
    with model.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        data = file.read(size) if 2 <= size <= _HEADER else b""
    try:
        found = json.loads(data)
        entries = [entry for name, entry in found.items() if name != "__metadata__"]
        ends = [int(entry["data_offsets"][1]) for entry in entries]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        said = "must be safetensors; .pth and .h5 can run code when they are read"
        raise bodies.refused("trained_model", said) from None
    if not ends or max(ends) + 8 + size != model.stat().st_size:
        raise bodies.refused("trained_model", "is not whole")
    return dict(found)


async def _push(ask: Ask, result: Obj, model: Path) -> str:
    """Keep it beside the model that it was made of; where."""
    untrained = text(status_of(await results.model_of(ask, result)).get("weightsRef"))
    if not untrained:
        raise Refused("bad-request", f"model {result.get('model')} is not checked yet")
    deployment, _ = await results.result_of(ask)
    name = text(section(deployment, "metadata").get("name"))
    where = f"{ask.namespace}/{name}/models:{text(result.get('model'))}"
    return await ask.gateway.models.push(ask.caller, beside=untrained, where=where, file=model)


# --- the status ----------------------------------------------------------------------------------


async def _resting(ask: Ask) -> tuple[Obj, Obj]:
    """The deployment and the result, where no server of ours trains it. Raises Refused."""
    deployment, result = await results.result_of(ask)
    rests = result.get("status") in ("finished", "stopped")
    if not rests and not section(deployment, "spec").get("suspend"):
        said = f"{ask.name} is being trained, and its server tells of it: stop it first"
        raise Refused("bad-request", said)
    return deployment, result


async def _write(ask: Ask, said: Obj) -> None:
    """Put fields into a result of a status. Nobody else's change is lost."""
    resource = kind_of("federateddeployments").resource
    for attempt in range(_ATTEMPTS):
        deployment, result = await _resting(ask)
        metadata = section(deployment, "metadata")
        changed = {**result, **said}
        rows = [
            {k: v for k, v in changed.items() if v is not None}
            if row.get("id") == result.get("id")
            else row
            for row in sections(status_of(deployment), "results")
        ]
        patch = {
            "metadata": {"resourceVersion": metadata.get("resourceVersion")},
            "status": {"results": rows},
        }
        name = text(metadata.get("name"))
        try:
            async with ask.gateway.lease(ask.caller) as jobs:
                with telling(Asked("patch", resource, ask.namespace, name)):
                    await jobs.client.patch(
                        resource, name, patch=patch, namespace=ask.namespace, subresource="status"
                    )
            return
        except Changed:
            if attempt + 1 == _ATTEMPTS:
                raise
