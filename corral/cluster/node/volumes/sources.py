"""What containers take values from: other objects, and fields of their own pod.

``Sources`` is what the agent gives to :mod:`environment` and :mod:`volumes`; ``ConfigError`` is how
both say that a container cannot be made as its pod describes it (a kubelet reports
CreateContainerConfigError).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from corral.kube.quantity import Quantity
from corral.kube.types import Obj


class ConfigError(Exception):
    """A reference that leads nowhere; the words are a kubelet's."""


class Sources(Protocol):
    """The objects of the pod's namespace; None for those that do not exist."""

    def config_map(self, name: str) -> Obj | None: ...

    def secret(self, name: str) -> Obj | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """What is known about a pod on its node, beyond the pod itself."""

    pod: Obj
    pod_ips: Sequence[str] = ()
    host_ips: Sequence[str] = ()
    allocatable: Mapping[str, str] = field(default_factory=dict)
    """Of the node: what a container without a limit may use."""


def field_value(path: str, context: PodContext) -> str:
    """A field of the pod as text. Raises ConfigError."""
    metadata, spec = context.pod["metadata"], context.pod.get("spec", {})
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.partition(".")[2], ""))
        case "metadata.labels" | "metadata.annotations":
            return _format_map(metadata.get(path.partition(".")[2]) or {})
        case "spec.nodeName" | "spec.serviceAccountName":
            return str(spec.get(path.partition(".")[2], ""))
        case "spec.host":
            return str(spec.get("nodeName", ""))
        case "status.podIP":
            return context.pod_ips[0] if context.pod_ips else ""
        case "status.podIPs":
            return ",".join(context.pod_ips)
        case "status.hostIP":
            return context.host_ips[0] if context.host_ips else ""
        case "status.hostIPs":
            return ",".join(context.host_ips)
    name, bracket, subscript = path.partition("['")
    if bracket and subscript.endswith("']"):
        if name not in ("metadata.labels", "metadata.annotations"):
            raise ConfigError(f'fieldPath "{path}" does not support subscript')
        return str((metadata.get(name.partition(".")[2]) or {}).get(subscript[:-2], ""))
    raise ConfigError(f"unsupported fieldPath: {path}")


def _format_map(values: Mapping[str, str]) -> str:
    return "\n".join(f"{key}={_quote(values[key])}" for key in sorted(values))


def _quote(text: str) -> str:
    """As Go prints a string: JSON, but for a few letters that JSON need not escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\x7f")


def resource_value(reference: Obj, container: Obj, context: PodContext) -> str:
    """A request or limit, in units of the divisor, rounded up. Raises ConfigError."""
    if name := reference.get("containerName"):
        container = _container(name, context.pod)
    which, _, resource = reference["resource"].partition(".")
    known = ("cpu", "memory", "ephemeral-storage")
    if which not in ("limits", "requests") or not (
        resource in known or resource.startswith("hugepages-")
    ):
        raise ConfigError(f"unsupported container resource : {reference['resource']}")
    values = container.get("resources", {}).get(which) or {}
    amount = Quantity.parse(str(values.get(resource, "0")))
    if which == "limits" and not amount and resource in context.allocatable:
        amount = Quantity.parse(context.allocatable[resource])
    divisor = Quantity.parse(str(reference.get("divisor") or "0")) or Quantity.parse("1")
    if resource == "cpu":
        return str(-(-amount.milli() // max(divisor.milli(), 1)))
    return str(-(-amount.to_int() // max(divisor.to_int(), 1)))


def _container(name: str, pod: Obj) -> Obj:
    spec = pod["spec"]
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        if container["name"] == name:
            found: Obj = container
            return found
    raise ConfigError(f"container {name} not found")
