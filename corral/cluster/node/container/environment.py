"""A container's environment and command line, put together as a kubelet does.

Pure: other objects come through ``Sources``. In order of strength: ``env``, ``envFrom``, and the
variables of services; a later entry over an earlier one; ``$(NAME)`` sees what came before it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from corral.cluster.node.volumes.sources import (
    ConfigError,
    PodContext,
    Sources,
    field_value,
    resource_value,
)  # fmt: skip
from corral.kube.types import Obj

MOST: Final = 6 << 20
"""Characters of all variables, or of a command line: a program cannot be given more."""


def expand(text: str, *scopes: Mapping[str, str]) -> str:
    """Replace ``$(NAME)``; ``$$`` is a dollar, and names that nobody knows stay as they are.

    Raises ConfigError where it becomes longer than anything can be.
    """
    pieces: list[str] = []
    size = at = 0
    last = text.rfind(")")
    while (place := text.find("$", at)) >= 0:
        piece, end = _replaced(text, place, last, scopes)
        size += place - at + len(piece)
        if size > MOST:
            raise _too_long()
        pieces += [text[at:place], piece]
        at = end
    return "".join([*pieces, text[at:]])


def _replaced(
    text: str, place: int, last: int, scopes: Sequence[Mapping[str, str]]
) -> tuple[str, int]:
    """What stands for a dollar, and where the text goes on; ``last`` is that of all brackets."""
    follows = text[place + 1 : place + 2]
    if follows == "$":
        return "$", place + 2
    if follows != "(" or last < place:
        return "$", place + 1
    end = text.find(")", place) + 1
    name = text[place + 2 : end - 1]
    known = (scope[name] for scope in scopes if name in scope)
    return next(known, text[place:end]), end


def _too_long() -> ConfigError:
    return ConfigError(f"variables and commands may have {MOST} characters with what is in $(...)")


def command_line(
    container: Obj,
    environment: Mapping[str, str],
    *,
    entrypoint: Sequence[str] = (),
    cmd: Sequence[str] = (),
) -> list[str]:
    """``command`` and ``args`` over the image's own. Raises ConfigError when there is nothing."""
    command = _expanded(container.get("command") or (), environment)
    args = _expanded(container.get("args") or (), environment)
    if command:
        line = [*command, *args]
    else:
        line = [*entrypoint, *(args or cmd)]
    if not line:
        raise ConfigError("no command specified")
    return line


def _expanded(words: Iterable[str], environment: Mapping[str, str]) -> list[str]:
    line: list[str] = []
    size = 0
    for word in words:
        line.append(expand(word, environment))
        size += len(line[-1])
        if size > MOST:
            raise _too_long()
    return line


def build(
    container: Obj, context: PodContext, sources: Sources, *, services: Iterable[Obj] = ()
) -> dict[str, str]:
    """The variables of a container. Raises ConfigError."""
    links = service_variables(context.pod, services)
    result: dict[str, str] = {}
    reader = _Reader(sources, context.pod["metadata"].get("namespace", ""))
    size = 0
    for source in container.get("envFrom") or ():
        found = _all_of(source, reader)
        size += sum(len(name) + len(value) for name, value in found.items())
        if size > MOST:
            raise _too_long()
        result |= found
    for entry in container.get("env") or ():
        value = _value(entry, container, context, reader, scopes=(result, links))
        if value is not None:
            result[entry["name"]] = value
            size += len(value)
            if size > MOST:
                raise _too_long()
    return links | result


class _Reader:
    def __init__(self, sources: Sources, namespace: str) -> None:
        self._sources = sources
        self._namespace = namespace
        self._secrets: dict[str, Mapping[str, str]] = {}
        """As they are read: a container may name one a thousand times."""

    def config_map(self, name: str, *, optional: bool) -> Mapping[str, str] | None:
        found = self._sources.config_map(name)
        if found is None:
            if optional:
                return None
            raise ConfigError(f'configmap "{name}" not found')
        return found.get("data") or {}

    def secret(self, name: str, *, optional: bool) -> Mapping[str, str] | None:
        if name in self._secrets:
            return self._secrets[name]
        found = self._sources.secret(name)
        if found is None:
            if optional:
                return None
            raise ConfigError(f'secret "{name}" not found')
        data = found.get("data") or {}
        self._secrets[name] = {
            k: base64.b64decode(v).decode("utf-8", "surrogateescape") for k, v in data.items()
        }
        return self._secrets[name]

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
