"""Content negotiation: what the client wants back, and in which form it sent its object."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import orjson
import yaml
from aiohttp import web

from corral.kube import errors

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR = "application/cbor"
ACCEPTED = f"{JSON}, {YAML}, {PROTOBUF}"
MAX_BODY = 3 * 2**20


@dataclass(frozen=True, slots=True)
class Output:
    """The answer's form. ``shape`` is object, table, metadata or discovery."""

    media: str = JSON
    shape: str = "object"
    version: str = "v1"
    content_type: str = JSON


_PLAIN = Output()


@lru_cache(512)
def output(accept: str, *, streaming: bool = False, table: bool = True) -> Output:
    """Choose from an Accept header; ``table``: whether there is one. Raises NotAcceptable."""
    if not accept or accept == JSON:
        return _PLAIN
    for clause in accept.split(","):
        found = _clause(clause)
        if found is not None and (table or found.shape != "table"):
            return found
    raise errors.NotAcceptable(
        f"only the following media types are accepted: {ACCEPTED}"
        if not streaming
        else f"only the following media types are accepted: {JSON}, {JSON};stream=watch"
    )


def _clause(clause: str) -> Output | None:
    media, *rest = (part.strip() for part in clause.split(";"))
    parameters = dict(part.split("=", 1) for part in rest if "=" in part)
    if media in ("*/*", "application/*"):
        media = JSON
    if media == "text/yaml":
        media = YAML
    if media not in (JSON, YAML):
        return None
    wanted = parameters.get("as")
    if wanted is None:
        return Output(media, content_type=media)
    group, version = parameters.get("g", ""), parameters.get("v", "")
    content_type = f"{media};as={wanted};g={group};v={version}"
    if group == "meta.k8s.io" and version in ("v1", "v1beta1"):
        if wanted == "Table":
            return Output(media, "table", version, media)
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Output(media, "metadata", version, media)
    if group == "apidiscovery.k8s.io" and version in ("v2", "v2beta1"):
        content_type = f"{media};g={group};v={version};as={wanted}"
        return Output(media, "discovery", version, content_type)
    return None


def encode(out: Output, body: bytes) -> bytes:
    """JSON bytes in the chosen media type."""
    if out.media == YAML:
        text: str = yaml.dump(orjson.loads(body), Dumper=_DUMPER, sort_keys=True)
        return text.encode()
    return body + b"\n" if out.media == JSON else body


_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
"""Clients behind which somebody reads."""


def wants_pretty(request: web.BaseRequest) -> bool:
    """Whether JSON should be indented: asked for, or for a person's eyes."""
    if "pretty" in request.query_string:
        asked = request.query.get("pretty", "")
        if asked:
            return asked in ("1", "t", "T", "TRUE", "true", "True")
    return request.headers.get("User-Agent", "").startswith(_PEOPLE)


def prettify(response: web.StreamResponse) -> None:
    """Indent the JSON of a response that is not on its way yet."""
    if (
        isinstance(response, web.Response)
        and isinstance(response.body, bytes)
        and response.content_type == JSON
    ):
        response.body = orjson.dumps(orjson.loads(response.body), option=orjson.OPT_INDENT_2)


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


async def read_body(request: web.BaseRequest) -> bytes:
    """The whole body; 413 over the limit, before it is read where the client says its size."""
    if request.content_length is not None and request.content_length > MAX_BODY:
        raise errors.RequestEntityTooLarge(f"Request entity too large: limit is {MAX_BODY}")
    if not request.can_read_body:
        return b""
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size > MAX_BODY:
            raise errors.RequestEntityTooLarge(f"Request entity too large: limit is {MAX_BODY}")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def body_media(request: web.BaseRequest) -> str:
    """The media type of the request's body. Raises UnsupportedMediaType."""
    header = request.headers.get("Content-Type", "")
    media = header.split(";", 1)[0].strip().lower() or JSON
    if media in (JSON, YAML, PROTOBUF):
        return media
    raise errors.UnsupportedMediaType(
        "the body of the request was in an unknown format - accepted media types include: "
        + ACCEPTED
    )
