"""ConfigMaps and Secrets."""

from __future__ import annotations

import base64
import binascii

import orjson

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, same
from corral.cluster.apiserver.builtin.validation.fields.names import config_map_key
from corral.cluster.apiserver.builtin.validation.fields.rules import (
    Change,
    Kinds,
    Rules,
    again,
    changes,
    fixed,
)
from corral.kube.types import Obj

__all__ = ["KINDS"]

_MIB = 1024 * 1024
_IMMUTABLE_SET = "field is immutable when `immutable` is set"
_ACCOUNT_NAME = "kubernetes.io/service-account.name"


def _size(value: str) -> int:
    return len(value) if value.isascii() else len(value.encode())


def _decoded_size(value: str) -> int:
    return len(value) * 3 // 4 - value[-2:].count("=") if value else 0


def validate_config_map(errs: Errors, obj: Obj) -> None:
    data, binary = obj.get("data"), obj.get("binaryData")
    size = 0
    if data:
        for key, value in data.items():
            if found := config_map_key(key):
                errs.invalid_each(f"data[{key}]", key, found)
            if binary and key in binary:
                errs.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            size += _size(value)
    if binary:
        for key, value in binary.items():
            if found := config_map_key(key):
                errs.invalid_each(f"binaryData[{key}]", key, found)
            size += _decoded_size(value)
    if size > _MIB:
        # The API reports this on an empty path, which it prints so.
        errs.too_long("[]", _MIB)


def _frozen(*names: str) -> Change:
    """What may not change once ``immutable`` is set."""

    def change(errs: Errors, new: Obj, old: Obj) -> None:
        if not old.get("immutable"):
            return
        if not new.get("immutable"):
            errs.forbidden("immutable", _IMMUTABLE_SET)
        for name in names:
            if not same(new.get(name), old.get(name)):
                errs.forbidden(name, _IMMUTABLE_SET)

    return change


_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _json_problem(encoded: str) -> str:
    """Why the decoded value is no JSON object, in the words of the API's parser."""
    try:
        text = base64.b64decode(encoded)
        value = orjson.loads(text)
    except (binascii.Error, orjson.JSONDecodeError):
        return _syntax_problem(encoded)
    if isinstance(value, dict) or value is None:
        return ""
    kind = {str: "string", list: "array", bool: "bool"}.get(type(value), "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def _syntax_problem(encoded: str) -> str:
    text = base64.b64decode(encoded + "==").decode(errors="replace").strip()
    if not text or text[0] in '{["' or text in "truefalsenull":
        return "unexpected end of JSON input"
    return f"invalid character {text[0]!r} looking for beginning of value"


def validate_secret(errs: Errors, obj: Obj) -> None:
    data: dict[str, str] = obj.get("data") or {}
    size = 0
    for key, value in data.items():
        if found := config_map_key(key):
            errs.invalid_each(f"data[{key}]", key, found)
        size += _decoded_size(value)
    if size > _MIB:
        errs.too_long("data", _MIB)
    kind = obj.get("type") or ""
    for key in _NEEDED.get(kind, ()):
        if key not in data:
            errs.required(f"data[{key}]")
        elif key.startswith(".docker") and (why := _json_problem(data[key])):
            errs.invalid(f"data[{key}]", "<secret contents redacted>", why)
    if kind == "kubernetes.io/service-account-token":
        annotations = (obj.get("metadata") or {}).get("annotations") or {}
        if not annotations.get(_ACCOUNT_NAME):
            errs.required(f"metadata.annotations[{_ACCOUNT_NAME}]")
    elif kind == "kubernetes.io/basic-auth":
        if "username" not in data and "password" not in data:
            errs.required("data[username]")
            errs.required("data[password]")
    elif kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        errs.required("data[ssh-privatekey]")


KINDS: Kinds = {
    ("", "ConfigMap"): Rules(
        validate_config_map, changes(_frozen("data", "binaryData"), again(validate_config_map))),
    ("", "Secret"): Rules(
        validate_secret,
        changes(fixed("", "type", zero=""), _frozen("data"), again(validate_secret))),
}  # fmt: skip
