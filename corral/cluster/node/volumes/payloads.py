"""What the files of a configMap, secret, projected or downwardAPI volume hold. Pure."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.cluster.node.volumes.sources import (
    ConfigError,
    PodContext,
    Sources,
    field_value,
    resource_value,
)  # fmt: skip
from corral.kube.types import Obj

TokenSource = Callable[[Obj], str]
"""The token for a ``serviceAccountToken`` projection (audience, expirationSeconds, path)."""
DEFAULT_MODE: Final = 0o644


@dataclass(frozen=True, slots=True)
class File:
    """One file of a volume."""

    data: bytes
    mode: int = DEFAULT_MODE


Payload = dict[str, File]
"""Path inside the volume → file."""


class Room:
    """How many bytes the volumes of one pod have files of, and are read for them."""

    def __init__(self, sources: Sources, most: int = 64 << 20) -> None:
        self._sources = sources
        self._most = most
        self._left = most

    def take(self, size: int) -> None:
        """Raises ConfigError: there is no more."""
        self._left -= size
        if self._left < 0:
            raise ConfigError(
                f"the configMaps, secrets and fields in a pod's volumes have more than {self._most}"
                " bytes: name fewer of them, or each of them once"
            )

    def counted(self, payload: Payload) -> Payload:
        """Files that will be written. Raises ConfigError."""
        self.take(sum(len(file.data) for file in payload.values()))
        return payload

    def config_map(self, name: str) -> Obj | None:
        return self._counted(self._sources.config_map(name))

    def secret(self, name: str) -> Obj | None:
        return self._counted(self._sources.secret(name))

    def _counted(self, found: Obj | None) -> Obj | None:
        for kind in ("data", "binaryData"):
            self.take(sum(map(len, ((found or {}).get(kind) or {}).values())))
        return found


def payload_of(volume: Obj, context: PodContext, sources: Room, token: TokenSource) -> Payload:
    """The files of ``volume``, which is of one of the four kinds. Raises ConfigError."""
    if source := volume.get("configMap"):
        return sources.counted(_config_map(source, sources, mode=_mode(source)))
    if source := volume.get("secret"):
        source = {"name": source.get("secretName", ""), **source}
        return sources.counted(_secret(source, sources, mode=_mode(source)))
    if source := volume.get("downwardAPI"):
        return sources.counted(_downward(source, context, mode=_mode(source)))
    result: Payload = {}
    source = volume.get("projected") or {}
    mode = _mode(source)
    for part in source.get("sources") or ():
        result |= sources.counted(_projection(part, context, sources, token, mode=mode))
    return result


def _projection(
    part: Obj, context: PodContext, sources: Sources, token: TokenSource, *, mode: int
) -> Payload:
    if source := part.get("configMap"):
        return _config_map(source, sources, mode=mode)
    if source := part.get("secret"):
        return _secret(source, sources, mode=mode)
    if (source := part.get("downwardAPI")) is not None:
        return _downward(source, context, mode=mode)
    if source := part.get("serviceAccountToken"):
        return {
            _safe(source["path"]): File(token(source).encode(), 0o600 if mode == 0o600 else mode)
        }
    kind = next(iter(part), "nothing")
    raise ConfigError(f"projected volumes of a process node cannot hold {kind}")


def _mode(source: Obj) -> int:
    mode = source.get("defaultMode")
    return DEFAULT_MODE if mode is None else int(mode)


def _config_map(source: Obj, sources: Sources, *, mode: int) -> Payload:
    name = source.get("name", "")
    found = sources.config_map(name)
    if found is None and not source.get("optional"):
        raise ConfigError(f'configmap "{name}" not found')
    found = found or {}
    data = {key: value.encode() for key, value in (found.get("data") or {}).items()}
    data |= {key: _decode(value) for key, value in (found.get("binaryData") or {}).items()}
    return _chosen(source, data, mode=mode, problem="configmap references non-existent config key")


def _secret(source: Obj, sources: Sources, *, mode: int) -> Payload:
    name = source.get("name", "")
    found = sources.secret(name)
    if found is None and not source.get("optional"):
        raise ConfigError(f'secret "{name}" not found')
    data = {key: _decode(value) for key, value in ((found or {}).get("data") or {}).items()}
    return _chosen(source, data, mode=mode, problem="references non-existent secret key")


def _decode(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except binascii.Error as err:
        raise ConfigError(f"data that is not base64: {err}") from err


def _chosen(source: Obj, data: Mapping[str, bytes], *, mode: int, problem: str) -> Payload:
    items = source.get("items")
    if not items:
        return {key: File(value, mode) for key, value in data.items()}
    result: Payload = {}
    for item in items:
        if item["key"] not in data:
            if source.get("optional"):
                continue
            raise ConfigError(f"{problem}: {item['key']}")
        chosen = item.get("mode")
        path = _safe(item["path"])
        result[path] = File(data[item["key"]], mode if chosen is None else int(chosen))
    return result


def _downward(source: Obj, context: PodContext, *, mode: int) -> Payload:
    result: Payload = {}
    fields: dict[str, bytes] = {}
    for item in source.get("items") or ():
        if reference := item.get("fieldRef"):
            path = reference["fieldPath"]
            if path not in fields:
                fields[path] = field_value(path, context).encode()
            data = fields[path]
        else:
            data = resource_value(item["resourceFieldRef"], {}, context).encode()
        chosen = item.get("mode")
        result[_safe(item["path"])] = File(data, mode if chosen is None else int(chosen))
    return result


def _safe(path: str) -> str:
    """A relative path that stays inside. Raises ConfigError."""
    parts = path.split("/")
    if path.startswith(("/", "..")) or ".." in parts or not path:
        raise ConfigError(f"invalid path, must be relative path and must not contain '..': {path}")
    return "/".join(part for part in parts if part not in ("", "."))
