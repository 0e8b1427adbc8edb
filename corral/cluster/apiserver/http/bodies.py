"""Request bodies as objects: the media type, the type in the body, strict field validation."""

from __future__ import annotations

from corral.cluster.apiserver import codec
from corral.cluster.apiserver.codec.decode import parse_json
from corral.cluster.apiserver.crud.kind import Kind
from corral.cluster.apiserver.http import negotiate
from corral.cluster.apiserver.requests import Context
from corral.kube import errors
from corral.kube.types import Obj


def decode_object(kind: Kind, body: bytes, media: str, context: Context) -> Obj:
    """The object in a request's body, normalised and defaulted.

    Raises BadRequest for what is not an object of this kind, and for unknown or duplicate fields
    under strict field validation; warns of them otherwise.
    """
    info = kind.info
    strict = context.field_validation != "Ignore"
    message = None if info.custom else codec.message_for(info.group, info.version, info.kind)
    problems: list[str] = []
    if media == negotiate.PROTOBUF:
        if message is None:
            raise errors.UnsupportedMediaType(
                "the body of the request was in an unknown format - accepted media types include: "
                "application/json, application/yaml"
            )
        obj = codec.decode_protobuf(body, message)
    else:
        sent = codec.parse_yaml(body, info.kind, problems=problems) if _is_yaml(media) else body
        obj, found = kind.decode(sent, strict=strict)
        problems = problems + found if strict else []
    check_type(obj, info.api_version, info.kind)
    report_problems(kind, problems, context)
    kind.default(obj)
    return obj


def _is_yaml(media: str) -> bool:
    return media == negotiate.YAML


def report_problems(kind: Kind, problems: list[str], context: Context) -> None:
    """Unknown and duplicate fields: an error under Strict, warnings under Warn."""
    if not problems:
        return
    if context.field_validation == "Strict":
        info = kind.info
        raise errors.BadRequest(
            f'{info.kind} in version "{info.version}" cannot be handled as a {info.kind}: '
            f"strict decoding error: {', '.join(problems)}"
        )
    for text in problems:
        for line in text.removeprefix(codec.REPEATED_KEYS).splitlines():
            context.warn(line.strip())


def check_type(obj: Obj, api_version: str, kind: str) -> None:
    """The body's apiVersion and kind, where given, must be the expected ones."""
    own_version = obj.get("apiVersion") or api_version
    own_kind = obj.get("kind") or kind
    if own_version == api_version and own_kind == kind:
        obj["apiVersion"], obj["kind"] = api_version, kind
        return
    if own_version != api_version:
        raise errors.BadRequest(
            f"the API version in the data ({own_version}) does not match the expected API version "
            f"({api_version})"
        )
    version = api_version.rpartition("/")[2]
    raise errors.BadRequest(
        f'{own_kind} in version "{version}" cannot be handled as a {kind}: '
        f"converting ({version}.{own_kind}) to ({kind}): unknown conversion"
    )


def parse_options(body: bytes, media: str, kind: str) -> Obj:
    """DeleteOptions and the like from a body; refused without saying what was expected."""
    message = codec.message(f"meta/v1.{kind}")
    if media == negotiate.PROTOBUF:
        return codec.decode_protobuf(body, message)
    try:
        obj = codec.parse_yaml(body, kind) if media == negotiate.YAML else parse_json(kind, body)
        own, version = obj.get("kind") or kind, obj.get("apiVersion") or "v1"
        if own != kind:
            raise errors.BadRequest(
                f'no kind "{own}" is registered for version "{version}" in scheme '
                '"pkg/runtime/scheme.go:111"'
            )
        return codec.normalise(message, obj)
    except errors.BadRequest as err:
        text = err.message.removeprefix(
            f"the object provided is unrecognized (must be of type {kind}): "
        )
        if text != err.message:
            text = text.rpartition(" (")[0]
        raise errors.BadRequest(
            text.partition(f" cannot be handled as a {kind}: ")[2] or text
        ) from err
