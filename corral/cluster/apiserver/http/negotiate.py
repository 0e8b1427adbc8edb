"""Content negotiation: what the client wants back, and in which form it sent its object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import orjson
import yaml
from aiohttp import web

from corral.kube import errors

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
CBOR = "application/cbor"
UNFORMED: web.ResponseKey[bool] = web.ResponseKey("unformed", bool)
"""A response whose body is JSON and has to become YAML."""
ACCEPTED = f"{JSON}, {YAML}, {PROTOBUF}"


@dataclass(frozen=True, slots=True)
class Output:
    """The answer's form. ``shape`` is object, table, metadata or discovery."""

    media: str = JSON
    shape: str = "object"
    version: str = "v1"
    content_type: str = JSON


class Forming(NamedTuple):
    """How a body becomes what was asked for; ``heavy``: it takes a while."""

    work: Callable[[bytes], bytes]
    body: bytes
    heavy: bool


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


def as_yaml(body: bytes) -> bytes:
    """JSON bytes as YAML."""
    text: str = yaml.dump(orjson.loads(body), Dumper=_DUMPER, sort_keys=True)
    return text.encode()


def indented(body: bytes) -> bytes:
    """JSON bytes for people."""
    return orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2)


_LIGHT_YAML, _LIGHT_JSON = 2 * 1024, 32 * 1024
"""Bodies that are formed in no time."""


def forming(request: web.BaseRequest, response: web.StreamResponse) -> Forming | None:
    """What has still to be done to the body of a response that is not on its way yet."""
    if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
        return None
    if response.get(UNFORMED):
        return Forming(as_yaml, response.body, len(response.body) > _LIGHT_YAML)
    if response.content_type == JSON and wants_pretty(request):
        if not request.path.startswith("/openapi/"):
            return Forming(indented, response.body, len(response.body) > _LIGHT_JSON)
    return None


_PEOPLE = ("curl", "Wget", "Mozilla/5.0")
"""Clients behind which somebody reads."""


def wants_pretty(request: web.BaseRequest) -> bool:
    """Whether JSON should be indented: asked for, or for a person's eyes."""
    if "pretty" in request.query_string:
        asked = request.query.get("pretty", "")
        if asked:
            return asked in ("1", "t", "T", "TRUE", "true", "True")
    return request.headers.get("User-Agent", "").startswith(_PEOPLE)


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


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
