"""Containers of pods: what is common to all, and the rules of each sort."""

from __future__ import annotations

from dataclasses import dataclass

from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    port_name,
    port_number,
)
from corral.cluster.apiserver.builtin.validation.pods.environment import check_env, check_env_from
from corral.cluster.apiserver.builtin.validation.pods.mounts import check_devices, check_mounts
from corral.cluster.apiserver.builtin.validation.pods.probes import check_lifecycle, check_probes
from corral.cluster.apiserver.builtin.validation.pods.resources import (
    ClaimNames,
    check_requirements,
)
from corral.cluster.apiserver.builtin.validation.pods.security import check_container_security
from corral.cluster.apiserver.builtin.validation.pods.volumes import PULL_POLICIES
from corral.kube.types import Obj

__all__ = [
    "PodContext",
    "check_containers",
    "check_ephemeral_containers",
    "check_image_spaces",
    "check_init_containers",
]

PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES = ("Always", "Never", "OnFailure")
_RULE_ACTIONS = ("Restart", "RestartAllContainers")
_NEVER_EPHEMERAL = (
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
)


@dataclass(slots=True)
class PodContext:
    """What the checks of a container need to know about its pod."""

    spec: Obj
    volumes: dict[str, Obj]
    claim_names: ClaimNames
    grace: int | None
    host_users: bool
    restart_policy: str


def _check_ports(errs: Errors, ports: list[Obj], path: str) -> None:
    names: set[str] = set()
    for i, port in enumerate(ports):
        if name := port.get("name"):
            if found := port_name(name):
                errs.invalid_each(f"{path}[{i}].name", name, found)
            elif name in names:
                errs.duplicate(f"{path}[{i}].name", name)
            else:
                names.add(name)
        number = port.get("containerPort") or 0
        if number == 0:
            errs.required(f"{path}[{i}].containerPort")
        elif found := port_number(number):
            errs.invalid_each(f"{path}[{i}].containerPort", number, found)
        if (host := port.get("hostPort")) and (found := port_number(host)):
            errs.invalid_each(f"{path}[{i}].hostPort", host, found)
        if port.get("protocol") not in PROTOCOLS:
            errs.one_of(f"{path}[{i}].protocol", port.get("protocol"), PROTOCOLS)


def _check_common(errs: Errors, container: Obj, pod: PodContext, path: str) -> None:
    name = container.get("name")
    if not name:
        errs.required(f"{path}.name")
    elif found := dns_label(name):
        errs.invalid_each(f"{path}.name", name, found)
    if not container.get("image"):
        errs.required(f"{path}.image")
    policy = container.get("terminationMessagePolicy")
    if policy not in _MESSAGE_POLICIES:
        errs.one_of(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    if ports := container.get("ports"):
        _check_ports(errs, ports, f"{path}.ports")
    if env := container.get("env"):
        check_env(errs, env, f"{path}.env")
    if sources := container.get("envFrom"):
        check_env_from(errs, sources, f"{path}.envFrom")
    if container.get("volumeMounts"):
        check_mounts(errs, container, pod.volumes, f"{path}.volumeMounts")
    if container.get("volumeDevices"):
        check_devices(errs, container, pod.volumes, f"{path}.volumeDevices")
    if container.get("imagePullPolicy") not in PULL_POLICIES:
        errs.one_of(f"{path}.imagePullPolicy", container.get("imagePullPolicy"), PULL_POLICIES)
    if resources := container.get("resources"):
        check_requirements(errs, resources, pod.claim_names, f"{path}.resources")
    if resize := container.get("resizePolicy"):
        _check_resize(errs, resize, pod.restart_policy, f"{path}.resizePolicy")
    if context := container.get("securityContext"):
        where = f"{path}.securityContext"
        check_container_security(errs, context, where, host_users=pod.host_users)


def _check_resize(errs: Errors, policies: list[Obj], pod_policy: str, path: str) -> None:
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        name, restart = policy.get("resourceName") or "", policy.get("restartPolicy") or ""
        if name in seen:
            errs.duplicate(f"{path}[{i}]", name)
        seen.add(name)
        errs.one_of(path, name, ("cpu", "memory"))
        errs.one_of(path, restart, ("NotRequired", "RestartContainer"))
        if pod_policy == "Never" and restart != "NotRequired":
            errs.invalid(path, restart, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _check_restart(errs: Errors, container: Obj, path: str) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if not rules:
            return
        why = "must specify restartPolicy when restart rules are used"
        errs.required(f"{path}.restartPolicy", why)
    elif policy not in _RESTART_POLICIES:
        errs.not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    if len(rules) > 20:
        errs.too_many(f"{path}.restartPolicyRules", len(rules), 20)
    for i, rule in enumerate(rules):
        _check_restart_rule(errs, rule, f"{path}.restartPolicyRules[{i}]")


def _check_restart_rule(errs: Errors, rule: Obj, path: str) -> None:
    if (action := rule.get("action") or "") not in _RULE_ACTIONS:
        errs.not_supported(f"{path}.action", action, _RULE_ACTIONS)
    codes = rule.get("exitCodes")
    if codes is None:
        errs.required(f"{path}.exitCodes", "must be specified")
        return
    if (operator := codes.get("operator") or "") not in ("In", "NotIn"):
        errs.not_supported(f"{path}.exitCodes.operator", operator, ("In", "NotIn"))
    if len(values := codes.get("values") or ()) > 255:
        errs.too_many(f"{path}.exitCodes.values", len(values), 255)


def _check_host_ports(errs: Errors, containers: list[Obj], path: str) -> None:
    seen: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if number := port.get("hostPort"):
                key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
                if key in seen:
                    errs.duplicate(f"{path}[{i}].ports[{j}].hostPort", key)
                seen.add(key)


def check_containers(errs: Errors, containers: list[Obj], pod: PodContext, path: str) -> None:
    if not containers:
        errs.required(path)
        return
    names: set[str] = set()
    for i, container in enumerate(containers):
        where = f"{path}[{i}]"
        _check_common(errs, container, pod, where)
        name = container.get("name") or ""
        if name in names:
            errs.duplicate(f"{where}.name", name)
        names.add(name)
        if lifecycle := container.get("lifecycle"):
            check_lifecycle(errs, lifecycle, pod.grace, f"{where}.lifecycle")
        check_probes(errs, container, pod.grace, where)
        _check_restart(errs, container, where)
    _check_host_ports(errs, containers, path)


def check_init_containers(errs: Errors, containers: list[Obj], pod: PodContext, path: str) -> None:
    names = {c.get("name") or "" for c in pod.spec.get("containers") or ()}
    for i, container in enumerate(containers):
        where = f"{path}[{i}]"
        _check_common(errs, container, pod, where)
        _check_restart(errs, container, where)
        name = container.get("name") or ""
        if name in names:
            errs.duplicate(f"{where}.name", name)
        elif name:
            names.add(name)
        _check_host_ports(errs, [container], path)
        sidecar = container.get("restartPolicy") == "Always"
        if sidecar:
            if lifecycle := container.get("lifecycle"):
                check_lifecycle(errs, lifecycle, pod.grace, f"{where}.lifecycle")
            check_probes(errs, container, pod.grace, where)
        else:
            _forbid_sidecar_fields(errs, container, where)


def _forbid_sidecar_fields(errs: Errors, container: Obj, path: str) -> None:
    why = "may not be set for init containers without restartPolicy=Always"
    for name in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
        if container.get(name) is not None:
            errs.forbidden(f"{path}.{name}", why)
    for j, policy in enumerate(container.get("resizePolicy") or ()):
        if policy.get("restartPolicy") == "RestartContainer":
            why = "must not be set to 'RestartContainer' for non-sidecar initContainers"
            errs.invalid(f"{path}.resizePolicy[{j}].restartPolicy", "RestartContainer", why)


def check_ephemeral_containers(
    errs: Errors, containers: list[Obj], pod: PodContext, path: str
) -> None:
    others = {
        c.get("name") or ""
        for kind in ("containers", "initContainers")
        for c in pod.spec.get(kind) or ()
    }
    names = set(others)
    why = "cannot be set for an Ephemeral Container"
    for i, container in enumerate(containers):
        where = f"{path}[{i}]"
        _check_common(errs, container, pod, where)
        check_image_spaces(errs, container, where)
        name = container.get("name") or ""
        if name in names:
            errs.duplicate(f"{where}.name", name)
        names.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            errs.not_found(f"{where}.targetContainerName", target)
        for unwanted in _NEVER_EPHEMERAL:
            if container.get(unwanted):
                errs.forbidden(f"{where}.{unwanted}", why)
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for unwanted in ("subPath", "subPathExpr"):
                if mount.get(unwanted):
                    errs.forbidden(f"{where}.volumeMounts[{j}].{unwanted}", why)


def check_image_spaces(errs: Errors, container: Obj, path: str) -> None:
    image = container.get("image") or ""
    if image != image.strip():
        errs.invalid(f"{path}.image", image, "must not have leading or trailing whitespace")
