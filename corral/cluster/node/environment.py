"""A container's environment and command line, put together as a kubelet does.

Pure: other objects come through ``Sources``. In order of strength: ``env``, ``envFrom``, and the
variables of services; a later entry over an earlier one; ``$(NAME)`` sees what came before it.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from corral.cluster.node.sources import (
    ConfigError,
    PodContext,
    Sources,
    field_value,
    resource_value,
)  # fmt: skip
from corral.kube.types import Obj

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, *scopes: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``; ``$$`` is a dollar, and names that nobody knows stay as they are."""
    if "$" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return "$"
        for scope in scopes:
            if name in scope:
                return scope[name]
        return match.group()

    return _REFERENCE.sub(value, text)


def command_line(
    container: Obj,
    environment: Mapping[str, str],
    *,
    entrypoint: Sequence[str] = (),
    cmd: Sequence[str] = (),
) -> list[str]:
    """``command`` and ``args`` over the image's own. Raises ConfigError when there is nothing."""
    command = [expand(word, environment) for word in container.get("command") or ()]
    args = [expand(word, environment) for word in container.get("args") or ()]
    if command:
        line = [*command, *args]
    else:
        line = [*entrypoint, *(args or cmd)]
    if not line:
        raise ConfigError("no command specified")
    return line


def build(
    container: Obj, context: PodContext, sources: Sources, *, services: Iterable[Obj] = ()
) -> dict[str, str]:
    """The variables of a container. Raises ConfigError."""
    links = service_variables(context.pod, services)
    result: dict[str, str] = {}
    reader = _Reader(sources, context.pod["metadata"].get("namespace", ""))
    for source in container.get("envFrom") or ():
        result |= _all_of(source, reader)
    for entry in container.get("env") or ():
        value = _value(entry, container, context, reader, scopes=(result, links))
        if value is not None:
            result[entry["name"]] = value
    return links | result


class _Reader:
    def __init__(self, sources: Sources, namespace: str) -> None:
        self._sources = sources
        self._namespace = namespace

    def config_map(self, name: str, *, optional: bool) -> Mapping[str, str] | None:
        found = self._sources.config_map(name)
        if found is None:
            if optional:
                return None
            raise ConfigError(f'configmap "{name}" not found')
        return found.get("data") or {}

    def secret(self, name: str, *, optional: bool) -> Mapping[str, str] | None:
        found = self._sources.secret(name)
        if found is None:
            if optional:
                return None
            raise ConfigError(f'secret "{name}" not found')
        data = found.get("data") or {}
        return {k: base64.b64decode(v).decode("utf-8", "surrogateescape") for k, v in data.items()}

    def key(self, kind: str, reference: Obj) -> str | None:
        name, key = reference.get("name", ""), reference["key"]
        optional = bool(reference.get("optional"))
        read = self.config_map if kind == "ConfigMap" else self.secret
        data = read(name, optional=optional)
        if data is None:
            return None
        if key not in data:
            if optional:
                return None
            raise ConfigError(f"couldn't find key {key} in {kind} {self._namespace}/{name}")
        return data[key]


def _all_of(source: Obj, reader: _Reader) -> dict[str, str]:
    prefix = source.get("prefix") or ""
    data: Mapping[str, str] | None = None
    if reference := source.get("configMapRef"):
        optional = bool(reference.get("optional"))
        data = reader.config_map(reference.get("name", ""), optional=optional)
    elif reference := source.get("secretRef"):
        data = reader.secret(reference.get("name", ""), optional=bool(reference.get("optional")))
    return {prefix + key: value for key, value in (data or {}).items()}


def _value(
    entry: Obj,
    container: Obj,
    context: PodContext,
    reader: _Reader,
    *,
    scopes: tuple[Mapping[str, str], ...],
) -> str | None:
    """None leaves the variable out: its source is optional and not there."""
    if text := entry.get("value"):
        return expand(text, *scopes)
    source = entry.get("valueFrom") or {}
    if reference := source.get("fieldRef"):
        return field_value(reference["fieldPath"], context)
    if reference := source.get("resourceFieldRef"):
        return resource_value(reference, container, context)
    if reference := source.get("configMapKeyRef"):
        return reader.key("ConfigMap", reference)
    if reference := source.get("secretKeyRef"):
        return reader.key("Secret", reference)
    return ""


# -- services ------------------------------------------------------------------------------------


def service_variables(pod: Obj, services: Iterable[Obj]) -> dict[str, str]:
    """Where services are found: those of the pod's namespace if it wants them, and the API's."""
    wanted = pod["spec"].get("enableServiceLinks", True)
    namespace = pod["metadata"].get("namespace", "")
    chosen: dict[str, Obj] = {}
    for service in services:
        name, home = service["metadata"]["name"], service["metadata"].get("namespace", "")
        if service["spec"].get("clusterIP") in (None, "", "None"):
            continue
        if home == "default" and name == "kubernetes":
            chosen.setdefault(name, service)
        elif home == namespace and wanted:
            chosen[name] = service
    result: dict[str, str] = {}
    for service in chosen.values():
        result |= _variables_of(service)
    return result


def _variables_of(service: Obj) -> dict[str, str]:
    ports = service["spec"].get("ports") or ()
    if not ports:
        return {}
    prefix, address = _name(service["metadata"]["name"]), service["spec"]["clusterIP"]
    host = f"[{address}]" if ":" in address else address
    result = {
        f"{prefix}_SERVICE_HOST": address,
        f"{prefix}_SERVICE_PORT": str(ports[0]["port"]),
    }
    for index, port in enumerate(ports):
        number, protocol = port["port"], port.get("protocol") or "TCP"
        if port.get("name"):
            result[f"{prefix}_SERVICE_PORT_{_name(port['name'])}"] = str(number)
        url = f"{protocol.lower()}://{host}:{number}"
        if index == 0:
            result[f"{prefix}_PORT"] = url
        link = f"{prefix}_PORT_{number}_{protocol.upper()}"
        result |= {
            link: url,
            f"{link}_PROTO": protocol.lower(),
            f"{link}_PORT": str(number),
            f"{link}_ADDR": address,
        }
    return result


def _name(text: str) -> str:
    return text.replace("-", "_").upper()
