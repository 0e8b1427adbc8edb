"""Metrics and models that were made elsewhere, for results that nobody trains here at the time.

They are written where servers write theirs: the status of the object, with the caller's own rights,
and the registry. Models are safetensors as they are downloaded; what runs code when it is read
(pickles, and so .pth) is never taken.
"""

from __future__ import annotations

import asyncio
import json
import mmap
import re
from pathlib import Path
from typing import Any, Final

from starlette.responses import Response

from corral.client.errors import Changed, Forbidden
from corral.client.kinds import kind_of
from corral.client.phases import section, sections, status_of, text
from corral.client.translate import ApiRequest, translating
from corral.files.temporary import temporary
from corral.gateway.problems import Refused
from corral.gateway.rest.asks import Ask
from corral.gateway.rest.forms import FormError, boundary_of, fields_of, parts_of
from corral.gateway.rest.kafkaml import bodies, results
from corral.gateway.rest.kafkaml.views import worded
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
_PIECE: Final = 1 << 20
"""Bytes that are moved at a time within a file."""


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
    deployment, result = await _resting(ask)
    await _may_write(ask, deployment)
    size = _promised(ask)
    with ask.uploads.room(ask.caller.flow, size), temporary("posted") as folder:
        model = Path(folder, "model")
        sent = await ask.save(model, MULTIPART, most=size)
        detail = await asyncio.to_thread(_taken, model, sent, most=ask.limits.body_bytes)
        metrics = bodies.metrics_status(detail)
        layers = await _layers(ask, result)
        await asyncio.to_thread(_checked, model, layers)
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


def _data(detail: str | None) -> dict[str, Any]:
    if detail is None:
        raise bodies.refused("data", "is needed: a field with a JSON object")
    try:
        found = json.loads(detail)
    except (ValueError, RecursionError):
        raise bodies.refused("data", "must be a JSON object") from None
    if not isinstance(found, dict):
        raise bodies.refused("data", "must be a JSON object")
    return found


def _promised(ask: Ask) -> int:
    """How many bytes the body of a model may have. Raises Refused."""
    detail, most = ask.header("content-length"), ask.limits.model_bytes
    if not re.fullmatch("[0-9]+", detail):
        return most
    if len(detail) > len(str(most)) or int(detail) > most:
        raise Refused("too-large", f"a body may have {most} bytes")
    return int(detail)


def _taken(body: Path, content_type: str, *, most: int) -> dict[str, Any]:
    """What a form says of a model; the model is then all that is left in the file."""
    if not body.stat().st_size:
        raise Refused("bad-request", "the body is empty")
    with body.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as held:
        try:
            parts = parts_of(held, boundary_of(content_type))
        except FormError as error:
            raise Refused("bad-request", str(error)) from None
        model, detail = parts.get("trained_model"), parts.get("data")
        if model is None:
            raise bodies.refused("trained_model", "is needed: a file")
        if detail is not None and len(detail) > most:
            raise bodies.refused("data", f"may have {most} bytes")
        words = "{}" if detail is None else held[detail.start : detail.end].decode(errors="replace")
    found = _data(words)
    _cut(body, model.start, model.end)
    return found


def _cut(path: Path, start: int, end: int) -> None:
    """Leave only a part of a file, without a copy of it."""
    with path.open("r+b") as file:
        for place in range(start, end, _PIECE):
            file.seek(place)
            piece = file.read(min(_PIECE, end - place))
            file.seek(place - start)
            file.write(piece)
        file.truncate(end - start)


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
        detail = (
            "says nothing of its model: take the file of GET /results/ID and put arrays into it"
        )
        raise bodies.refused("trained_model", detail)
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
        detail = "must be safetensors; .pth and .h5 can run code when they are read"
        raise bodies.refused("trained_model", detail) from None
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
        detail = f"{ask.name} is being trained, and its server tells of it: stop it first"
        raise Refused("bad-request", detail)
    return deployment, result


async def _may_write(ask: Ask, deployment: Obj) -> None:
    """That the caller may write the status, before a body is read. Raises Forbidden."""
    kind = kind_of("federateddeployments")
    name = text(section(deployment, "metadata").get("name"))
    if not await ask.gateway.may(
        ask.caller, kind, verb="patch", namespace=ask.namespace, name=name, subresource="status"
    ):
        detail = f"you may not patch {kind.plural}/status {name} in {ask.namespace}"
        raise Forbidden(detail, verb="patch", resource=kind.plural, namespace=ask.namespace)


async def _write(ask: Ask, detail: Obj) -> None:
    """Put fields into a result of a status. Nobody else's change is lost."""
    resource = kind_of("federateddeployments").resource
    for attempt in range(_ATTEMPTS):
        deployment, result = await _resting(ask)
        metadata = section(deployment, "metadata")
        changed = {**result, **detail}
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
                with translating(ApiRequest("patch", resource, ask.namespace, name)):
                    await jobs.client.patch(
                        resource, name, patch=patch, namespace=ask.namespace, subresource="status"
                    )
            return
        except Changed:
            if attempt + 1 == _ATTEMPTS:
                raise
