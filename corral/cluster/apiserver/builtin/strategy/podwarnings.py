"""Warnings about pods and pod templates: things that are accepted and rarely meant."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from itertools import islice

from corral.kube.quantity import Quantity
from corral.kube.types import Obj

from .netwarnings import ip_warnings
from .volumewarnings import (
    MOST_CLASHES,
    claim_spec_warnings,
    overlapping_path_warnings,
    plugin_warnings,
)

__all__ = [
    "DEPRECATED_NODE_LABELS",
    "app_armor_profile",
    "containers_of",
    "name_warnings",
    "node_term_warnings",
    "pod_warnings",
    "template_warnings",
]

DEPRECATED_NODE_LABELS = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
_DEPRECATED_ANNOTATIONS = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
    "security.alpha.kubernetes.io/unsafe-sysctls": (
        'non-functional in v1.11+; use the "sysctls" field instead'
    ),
}
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_ADVICE = 'non-functional in v1.27+; use the "seccompProfile" field instead'
APP_ARMOR_CONTAINER = "container.apparmor.security.beta.kubernetes.io/"
APP_ARMOR_ADVICE = 'deprecated since v1.30; use the "appArmorProfile" field instead'
_NO_SELECTOR = "a null labelSelector results in matching no pod"
_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL = re.compile(_LABEL)
_DNS_SUBDOMAIN = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_LABEL_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    " or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_DNS_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
    " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used"
    " for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_WHOLE_BYTES = ("memory", "ephemeral-storage")


def name_warnings(name: str, used_in: str) -> list[str]:
    """Warn of a name that makes a poor host name."""
    problems = []
    if len(name) > 63:
        problems.append("must be no more than 63 characters")
    if not _DNS_LABEL.fullmatch(name):
        dotted = _DNS_SUBDOMAIN.fullmatch(name)
        problems.append("must not contain dots" if dotted else _DNS_LABEL_RULE)
    if not problems:
        return []
    return [
        f"metadata.name: this is used in {used_in}, which can result in surprising behavior; "
        f"a DNS label is recommended: [{' '.join(problems)}]"
    ]


def template_warnings(path: tuple[str, ...], obj: Obj) -> list[str]:
    """Warnings about the pod template that an object keeps at a path."""
    template: Obj | None = obj
    for key in path:
        template = (template or {}).get(key)
    return _warnings(".".join(path) + ".", template) if template else []


def pod_warnings(pod: Obj) -> list[str]:
    return _warnings("", pod)


def containers_of(spec: Obj, path: str = "spec.") -> Iterator[tuple[str, Obj]]:
    """Every container of a pod with its path, in the order they are validated."""
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            yield f"{path}{kind}[{index}]", container


def app_armor_profile(annotation: str) -> Obj | None:
    """The field that a deprecated annotation stands for; None if it means nothing."""
    if annotation == "unconfined":
        return {"type": "Unconfined"}
    if annotation == "runtime/default":
        return {"type": "RuntimeDefault"}
    profile = annotation.removeprefix("localhost/")
    if profile and profile != annotation:
        return {"type": "Localhost", "localhostProfile": profile}
    return None


def _warnings(prefix: str, pod: Obj) -> list[str]:
    spec = pod.get("spec") or {}
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    warnings: list[str] = []
    if "nodeSelector" in spec or "affinity" in spec or "topologySpreadConstraints" in spec:
        warnings += _placement(f"{prefix}spec.", spec)
    if annotations:
        at = f"{prefix}metadata.annotations"
        warnings += [
            f"{at}[{key}]: {advice}"
            for key, advice in _DEPRECATED_ANNOTATIONS.items()
            if key in annotations
        ]
    if spec.get("volumes"):
        warnings += _volumes(f"{prefix}spec.volumes", spec["volumes"])
    if "hostAliases" in spec:
        warnings += _duplicates(f"{prefix}spec.hostAliases", spec["hostAliases"], "ip")
    if "imagePullSecrets" in spec:
        secrets = spec["imagePullSecrets"]
        warnings += _duplicates(f"{prefix}spec.imagePullSecrets", secrets, "name")
        warnings += [
            f'{prefix}spec.imagePullSecrets[{i}].name: invalid empty name ""'
            for i, item in enumerate(secrets)
            if not item.get("name")
        ]
    if "overhead" in spec:
        warnings += _fractional(f"{prefix}spec.overhead", spec["overhead"])
    if annotations and _SECCOMP_POD in annotations:
        if not (spec.get("securityContext") or {}).get("seccompProfile"):
            warnings.append(f"{prefix}metadata.annotations[{_SECCOMP_POD}]: {_SECCOMP_ADVICE}")
    containers = list(containers_of(spec, f"{prefix}spec."))
    for path, container in containers:
        if annotations:
            warnings += _annotated_container(prefix, spec, container, annotations)
        warnings += _container(path, container)
    warnings += _ports(containers)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        warnings.append(
            f"{prefix}spec.terminationGracePeriodSeconds: must be >= 0; negative values are "
            "invalid and will be treated as 1"
        )
    if "affinity" in spec:
        warnings += _pod_affinity(f"{prefix}spec.affinity.", spec["affinity"])
    for i, server in enumerate((spec.get("dnsConfig") or {}).get("nameservers") or ()):
        warnings += ip_warnings(f"{prefix}spec.dnsConfig.nameservers[{i}]", server)
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        warnings += ip_warnings(f"{prefix}spec.hostAliases[{i}].ip", alias.get("ip") or "")
    return warnings


def _placement(path: str, spec: Obj) -> list[str]:
    warnings = [
        f"{path}nodeSelector[{key}]: {DEPRECATED_NODE_LABELS[key]}"
        for key in spec.get("nodeSelector") or ()
        if key in DEPRECATED_NODE_LABELS
    ]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    at = f"{path}affinity.nodeAffinity."
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for i, term in enumerate(required.get("nodeSelectorTerms") or ()):
        where = f"{at}requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[{i}]"
        warnings += node_term_warnings(where, term)
    for i, weighted in enumerate(
        affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    ):
        where = f"{at}preferredDuringSchedulingIgnoredDuringExecution[{i}].preference"
        warnings += node_term_warnings(where, weighted.get("preference") or {}, check_values=True)
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}topologySpreadConstraints[{i}]", constraint.get("topologyKey")
        if key in DEPRECATED_NODE_LABELS:
            warnings.append(f"{where}.topologyKey: {key} is {DEPRECATED_NODE_LABELS[key]}")
        if constraint.get("labelSelector") is None:
            warnings.append(f"{where}.labelSelector: {_NO_SELECTOR}")
    return warnings


def node_term_warnings(path: str, term: Obj, *, check_values: bool = False) -> list[str]:
    """Deprecated labels (and values that no label can have) in one node selector term."""
    warnings: list[str] = []
    for i, expression in enumerate(term.get("matchExpressions") or ()):
        where, key = f"{path}.matchExpressions[{i}]", expression.get("key")
        if key in DEPRECATED_NODE_LABELS:
            warnings.append(f"{where}.key: {key} is {DEPRECATED_NODE_LABELS[key]}")
        for j, value in enumerate((expression.get("values") or ()) if check_values else ()):
            if len(value) > 63:
                rule = "must be no more than 63 characters"
                warnings.append(f"{where}.values[{j}]: {value} is invalid, {rule}")
            if not _LABEL_VALUE.fullmatch(value):
                warnings.append(f"{where}.values[{j}]: {value} is invalid, {_LABEL_VALUE_RULE}")
    return warnings


def _volumes(path: str, volumes: list[Obj]) -> list[str]:
    warnings: list[str] = []
    for i, volume in enumerate(volumes):
        warnings += plugin_warnings(f"{path}[{i}].", volume)
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            where = f"{path}[{i}].ephemeral.volumeClaimTemplate.spec"
            warnings += claim_spec_warnings(where, template.get("spec") or {})
    return warnings + overlapping_path_warnings(volumes)


def _duplicates(path: str, items: list[Obj], key: str) -> list[str]:
    seen: set[str] = set()
    warnings = []
    for i, item in enumerate(items):
        value = item.get(key) or ""
        if value in seen:
            warnings.append(f'{path}[{i}].{key}: duplicate {key} "{value}"')
        seen.add(value)
    return warnings


def _annotated_container(
    prefix: str, spec: Obj, container: Obj, annotations: dict[str, str]
) -> list[str]:
    context, name = container.get("securityContext") or {}, container.get("name") or ""
    warnings = []
    key = _SECCOMP_CONTAINER + name
    if key in annotations and not context.get("seccompProfile"):
        warnings.append(f"{prefix}metadata.annotations[{key}]: {_SECCOMP_ADVICE}")
    key = APP_ARMOR_CONTAINER + name
    # Pods say this while they are prepared, before the annotation becomes a field.
    if prefix and key in annotations and not context.get("appArmorProfile"):
        pod_wide = (spec.get("securityContext") or {}).get("appArmorProfile")
        if pod_wide is None or pod_wide != app_armor_profile(annotations[key]):
            warnings.append(f"{prefix}metadata.annotations[{key}]: {APP_ARMOR_ADVICE}")
    return warnings


def _container(path: str, container: Obj) -> list[str]:
    warnings: list[str] = []
    resources = container.get("resources")
    if resources:
        for name in _WHOLE_BYTES:
            for kind in ("limits", "requests"):
                warnings += _fractional(f"{path}.resources.{kind}", resources.get(kind), name)
    variables = container.get("env")
    if variables and len(variables) > 1:
        warnings += _hidden_variables(path, variables)
    return warnings


def _fractional(path: str, resources: Obj | None, *names: str) -> list[str]:
    warnings = []
    for name in names or _WHOLE_BYTES:
        value = (resources or {}).get(name)
        # Only the small decimal suffixes can leave a fraction of a byte.
        if not isinstance(value, str) or value[-1:] not in ("m", "u", "n"):
            continue
        if Quantity.parse(value).nano % 10**9:
            warnings.append(
                f'{path}[{name}]: fractional byte value "{value}" is invalid, must be an integer'
            )
    return warnings


def _hidden_variables(path: str, variables: list[Obj]) -> list[str]:
    seen: set[str] = set()
    warnings = []
    for i, variable in enumerate(variables):
        name, value = variable.get("name") or "", variable.get("value") or ""
        reference = f"$({name})"
        extends = "valueFrom" not in variable and reference in value and value != reference
        if name in seen and not extends:
            warnings.append(
                f'{path}.env[{i}]: hides previous definition of "{name}", '
                "which may be dropped when using apply"
            )
        seen.add(name)
    return warnings


def _ports(containers: list[tuple[str, Obj]]) -> list[str]:
    ports = [
        (f"{path}.ports[{i}]", port)
        for path, container in containers
        for i, port in enumerate(container.get("ports") or ())
    ]
    if not ports:
        return []
    warnings: list[str] = []
    groups: dict[tuple[object, object], _SamePort] = {}
    room = MOST_CLASHES
    for index, (where, port) in enumerate(ports):
        if port.get("hostIP") and not port.get("hostPort"):
            warnings.append(f"{where}: hostIP set without hostPort: {_printed(port)}")
        key = (port.get("containerPort"), port.get("protocol"))
        others = groups.setdefault(key, _SamePort())
        clashes = [
            f"{where}: {_port_clash(port, ports[other][1])} port definition with {ports[other][0]}"
            for other in islice(others.clashing(port), room)
        ]
        warnings += clashes
        room -= len(clashes)
        others.add(index, port)
    return warnings + _port_names(ports)


class _SamePort:
    """Definitions of one container port by index, so that those that clash are found at once."""

    def __init__(self) -> None:
        self._every: list[int] = []
        self._unbound: list[int] = []
        """Those without a host port."""
        self._bound: dict[tuple[int, str | None], list[int]] = {}
        """By host port and address; without an address: those of the port that have one."""

    def add(self, index: int, port: Obj) -> None:
        host, address = port.get("hostPort") or 0, port.get("hostIP") or ""
        self._every.append(index)
        if not host:
            self._unbound.append(index)
            return
        self._bound.setdefault((host, address), []).append(index)
        if address:
            self._bound.setdefault((host, None), []).append(index)

    def clashing(self, port: Obj) -> Iterator[int]:
        """Those that ``_port_clash`` has a word for, in their order."""
        host, address = port.get("hostPort") or 0, port.get("hostIP") or ""
        if not host:
            return iter(self._every)
        ambiguous = "" if address else None
        alike = [self._bound.get((host, other), ()) for other in (address, ambiguous)]
        return heapq.merge(self._unbound, *alike)


def _port_clash(port: Obj, other: Obj) -> str:
    address, other_address = port.get("hostIP") or "", other.get("hostIP") or ""
    host, other_host = port.get("hostPort") or 0, other.get("hostPort") or 0
    if address == other_address and host == other_host:
        return "duplicate"
    if not host or not other_host:
        return "overlapping"
    if host == other_host and bool(address) != bool(other_address):
        return "dangerously ambiguous"
    return ""


def _printed(port: Obj) -> str:
    return (
        f"{{Name:{port.get('name') or ''} HostPort:{port.get('hostPort') or 0} "
        f"ContainerPort:{port.get('containerPort') or 0} Protocol:{port.get('protocol') or ''} "
        f"HostIP:{port.get('hostIP') or ''}}}"
    )


def _port_names(ports: list[tuple[str, Obj]]) -> list[str]:
    first: dict[str, str] = {}
    warnings = []
    for where, port in ports:
        name = port.get("name")
        if not name:
            continue
        if name in first:
            warnings.append(
                f'{where}: duplicate port name "{name}" with {first[name]}, services and probes '
                f"that select ports by name will use {first[name]}"
            )
        else:
            first[name] = where
    return warnings


def _pod_affinity(path: str, affinity: Obj) -> list[str]:
    warnings = []
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        key = "requiredDuringSchedulingIgnoredDuringExecution"
        warnings += [
            f"{path}{kind}.{key}[{i}].labelSelector: {_NO_SELECTOR}"
            for i, term in enumerate(terms.get(key) or ())
            if term.get("labelSelector") is None
        ]
        key = "preferredDuringSchedulingIgnoredDuringExecution"
        warnings += [
            f"{path}{kind}.{key}[{i}].podAffinityTerm.labelSelector: {_NO_SELECTOR}"
            for i, term in enumerate(terms.get(key) or ())
            if (term.get("podAffinityTerm") or {}).get("labelSelector") is None
        ]
    return warnings
