"""Pods and pod templates."""

from __future__ import annotations

import re

from corral.cluster.apiserver.builtin.validation.fields.addresses import check_ip
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors
from corral.cluster.apiserver.builtin.validation.fields.meta import check_annotations, check_labels
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_label,
    dns_subdomain,
    dns_subdomain_underscore,
    in_range,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.fields.structs import capitalised
from corral.cluster.apiserver.builtin.validation.pods.aggregates import check_pod_resources
from corral.cluster.apiserver.builtin.validation.pods.containers import (
    PodContext,
    check_containers,
    check_ephemeral_containers,
    check_image_spaces,
    check_init_containers,
)
from corral.cluster.apiserver.builtin.validation.pods.environment import check_file_refs
from corral.cluster.apiserver.builtin.validation.pods.resources import (
    NO_CLAIMS,
    ClaimNames,
    check_requirements,
)
from corral.cluster.apiserver.builtin.validation.pods.scheduling import (
    check_affinity,
    check_spread,
    check_tolerations,
)
from corral.cluster.apiserver.builtin.validation.pods.security import check_os, check_pod_security
from corral.cluster.apiserver.builtin.validation.pods.volumes import check_volumes
from corral.kube.types import Obj

__all__ = ["check_pod_annotations", "check_pod_body", "check_pod_spec", "check_pod_template",
           "validate_pod", "validate_pod_template"]  # fmt: skip

MIRROR = "kubernetes.io/config.mirror"
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_INT32 = 2**31 - 1
_COST = re.compile(r"0|-?[1-9][0-9]*").fullmatch


def check_pod_annotations(
    errs: Errors, annotations: dict[str, str] | None, spec: Obj, path: str
) -> None:
    """Annotations of pods that mean something to the API."""
    if not annotations:
        return
    if MIRROR in annotations and not spec.get("nodeName"):
        why = "must set spec.nodeName if mirror pod annotation is set"
        errs.invalid(f"{path}[{MIRROR}]", annotations[MIRROR], why)
    cost = annotations.get(DELETION_COST)
    if cost is not None and not (_COST(cost) and -(2**31) <= int(cost) <= _MAX_INT32):
        errs.invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer")
    names: set[str | None] | None = None
    for key, value in annotations.items():
        if key == _SECCOMP_POD or key.startswith(_SECCOMP_CONTAINER):
            _check_seccomp(errs, value, f"{path}.{key}")
        elif key.startswith(_APPARMOR):
            if names is None:
                kinds = ("containers", "initContainers", "ephemeralContainers")
                names = {c.get("name") for kind in kinds for c in spec.get(kind) or ()}
            _check_apparmor(errs, key, value, names, f"{path}[{key}]")


def _check_seccomp(errs: Errors, value: str, path: str) -> None:
    if value not in ("runtime/default", "docker/default", "unconfined") and not value.startswith(
        "localhost/"
    ):
        errs.invalid(path, value, "must be a valid seccomp profile")


def _check_apparmor(errs: Errors, key: str, value: str, names: set[str | None], path: str) -> None:
    name = key[len(_APPARMOR) :]
    if name not in names:
        errs.invalid(path, name, "container not found")
    if value not in ("", "runtime/default", "unconfined") and not value.startswith("localhost/"):
        errs.invalid(path, value, f'invalid AppArmor profile name: "{value}"')


def _check_claims(errs: Errors, claims: list[Obj], path: str) -> ClaimNames:
    names: set[str] = set()
    for i, claim in enumerate(claims):
        where, name = f"{path}[{i}]", claim.get("name") or ""
        if not name:
            errs.required(f"{where}.name")
        elif name in names:
            errs.duplicate(f"{where}.name", name)
        else:
            errs.format(f"{where}.name", name, dns_label)
            names.add(name)
        direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
        if direct is not None and template is not None:
            why = (
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            )
            errs.invalid(where, _printed_claim(claim), why)
        if direct is None and template is None:
            why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            errs.invalid(where, _printed_claim(claim), why)
        if direct is not None:
            errs.format(f"{where}.resourceClaimName", direct, dns_subdomain)
        if template is not None:
            errs.format(f"{where}.resourceClaimTemplateName", template, dns_subdomain)
    return ClaimNames(names)


def _printed_claim(claim: Obj) -> Obj:
    return {
        "Name": claim.get("name") or "",
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def _check_host_network(errs: Errors, spec: Obj, path: str, is_pod: bool) -> None:
    for i, container in enumerate(spec.get("containers") or ()):
        for j, port in enumerate(container.get("ports") or ()):
            host = port.get("hostPort") or 0
            if (is_pod or host) and host != (port.get("containerPort") or 0):
                why = "must match `containerPort` when `hostNetwork` is true"
                errs.invalid(f"{path}.containers[{i}].ports[{j}].hostPort", host, why)


def _check_dns_config(errs: Errors, config: Obj | None, policy: str, path: str) -> None:
    if policy == "None":
        if config is None:
            errs.required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.get("nameservers"):
            why = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            errs.required(f"{path}.nameservers", why)
            return
    if config is None:
        return
    servers, searches = config.get("nameservers") or [], config.get("searches") or []
    if len(servers) > 3:
        errs.invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers")
    for i, server in enumerate(servers):
        check_ip(errs, server, f"{path}.nameservers[{i}]")
    if len(searches) > 32:
        errs.invalid(f"{path}.searches", searches, "must not have more than 32 search paths")
    if len(" ".join(searches)) > 2048:
        why = "must not have more than 2048 characters (including spaces) in the search list"
        errs.invalid(f"{path}.searches", searches, why)
    for i, search in enumerate(searches):
        if search != ".":
            name = search.removesuffix(".")
            errs.format(f"{path}.searches[{i}]", name, dns_subdomain_underscore)
    for i, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            errs.required(f"{path}.options[{i}]", "must not be empty")


def _check_gates(errs: Errors, spec: Obj, path: str) -> None:
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType") or ""
        errs.format(f"{path}.readinessGates[{i}].conditionType", kind, qualified_name)
    seen: set[str] = set()
    for i, gate in enumerate(spec.get("schedulingGates") or ()):
        name, where = gate.get("name") or "", f"{path}.schedulingGates[{i}]"
        errs.format(where, name, qualified_name)
        if name in seen:
            errs.duplicate(where, name)
        seen.add(name)


def _check_host_users(errs: Errors, spec: Obj, path: str) -> None:
    why = "when `hostUsers` is false"
    for name, shown in (
        ("hostNetwork", "hostNetwork"),
        ("hostPID", "HostPID"),
        ("hostIPC", "HostIPC"),
    ):
        if spec.get(name):
            errs.forbidden(f"{path}.{shown}", why)
    for kind in ("initContainers", "containers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            if container.get("volumeDevices"):
                errs.forbidden(f"{path}.{kind}[{i}].volumeDevices", why)


def _check_hostname_override(errs: Errors, spec: Obj, name: str, path: str) -> None:
    if spec.get("setHostnameAsFQDN"):
        errs.forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        errs.forbidden(path, "may not be specified when hostNetwork is true")
    if len(name) > 64:
        errs.too_long(path, 64)
    errs.format(path, name, dns_subdomain)


def _check_names(errs: Errors, spec: Obj, path: str) -> None:
    account = spec.get("serviceAccountName") or ""
    if account and (found := dns_subdomain(account)):
        errs.invalid_each(f"{path}.serviceAccountName", account, found)
    old = spec.get("serviceAccount") or ""
    if old != account:
        why = f'must be the same as serviceAccountName: "{account}"'
        errs.invalid(f"{path}.deprecatedServiceAccount", old, why)
    if (node := spec.get("nodeName")) and (found := dns_subdomain(node)):
        errs.invalid_each(f"{path}.nodeName", node, found)
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None:
        found = in_range(deadline, 1, _MAX_INT32)
        errs.invalid_each(f"{path}.activeDeadlineSeconds", deadline, found)
    for name in ("hostname", "subdomain"):
        if (value := spec.get(name)) and (found := dns_label(value)):
            errs.invalid_each(f"{path}.{name}", value, found)


def _check_aliases(errs: Errors, aliases: list[Obj], path: str) -> None:
    for i, alias in enumerate(aliases):
        check_ip(errs, alias.get("ip") or "", f"{path}[{i}].ip")
        for j, name in enumerate(alias.get("hostnames") or ()):
            errs.format(f"{path}[{i}].hostnames[{j}]", name, dns_subdomain)


def _check_tail(errs: Errors, spec: Obj, path: str) -> None:
    if tolerations := spec.get("tolerations"):
        check_tolerations(errs, tolerations, f"{path}.tolerations")
    if aliases := spec.get("hostAliases"):
        _check_aliases(errs, aliases, f"{path}.hostAliases")
    if name := spec.get("priorityClassName"):
        errs.format(f"{path}.priorityClassName", name, dns_subdomain)
    name = spec.get("runtimeClassName")
    if name is not None:
        errs.format(f"{path}.runtimeClassName", name, dns_subdomain)
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        errs.one_of(f"{path}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never"))
    if overhead := spec.get("overhead"):
        check_requirements(errs, {"limits": overhead}, NO_CLAIMS, f"{path}.overhead")
    if spec.get("os") is not None:
        check_os(errs, spec, path)
    check_file_refs(errs, spec, path)


def _check_middle(errs: Errors, spec: Obj, path: str, is_pod: bool) -> None:
    if spec.get("resources") is not None:
        check_pod_resources(errs, spec, path)
    if spec.get("hostNetwork"):
        _check_host_network(errs, spec, path, is_pod)
    policy = spec.get("restartPolicy") or ""
    if policy not in _RESTART_POLICIES:
        errs.one_of(f"{path}.restartPolicy", policy, _RESTART_POLICIES)
    dns = spec.get("dnsPolicy") or ""
    if dns not in _DNS_POLICIES:
        errs.one_of(f"{path}.dnsPolicy", dns, _DNS_POLICIES)
    if selector := spec.get("nodeSelector"):
        check_labels(errs, selector, f"{path}.nodeSelector")
    if context := spec.get("securityContext"):
        check_pod_security(errs, context, spec, f"{path}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        why = "ShareProcessNamespace and HostPID cannot both be enabled"
        errs.invalid(f"{path}.shareProcessNamespace", True, why)
    for i, secret in enumerate(spec.get("imagePullSecrets") or ()):
        if set(secret) - {"name"}:
            where = f"{path}.imagePullSecrets[{i}]"
            errs.invalid(where, capitalised(secret), "only name may be set")
    if affinity := spec.get("affinity"):
        check_affinity(errs, affinity, f"{path}.affinity")
    config = spec.get("dnsConfig")
    if config is not None or dns == "None":
        _check_dns_config(errs, config, dns, f"{path}.dnsConfig")
    if "readinessGates" in spec or "schedulingGates" in spec:
        _check_gates(errs, spec, path)
    if constraints := spec.get("topologySpreadConstraints"):
        check_spread(errs, constraints, f"{path}.topologySpreadConstraints")
    if spec.get("hostUsers") is False:
        _check_host_users(errs, spec, path)
    override = spec.get("hostnameOverride")
    if override is not None:
        _check_hostname_override(errs, spec, override, f"{path}.hostnameOverride")


def check_pod_spec(
    errs: Errors, spec: Obj, path: str, *, pod_name: str = "", is_pod: bool = False
) -> None:
    """The spec of a pod, or of a template when ``is_pod`` is false."""
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        errs.required(f"{path}.terminationGracePeriodSeconds")
    volumes = spec.get("volumes")
    sound = check_volumes(errs, volumes, pod_name, f"{path}.volumes") if volumes else {}
    claims = spec.get("resourceClaims")
    names = _check_claims(errs, claims, f"{path}.resourceClaims") if claims else NO_CLAIMS
    pod = PodContext(
        spec=spec,
        volumes=sound,
        claim_names=names,
        grace=grace,
        host_users=spec.get("hostUsers") is not False,
        restart_policy=spec.get("restartPolicy") or "",
    )
    check_containers(errs, spec.get("containers") or [], pod, f"{path}.containers")
    if init := spec.get("initContainers"):
        check_init_containers(errs, init, pod, f"{path}.initContainers")
    if ephemeral := spec.get("ephemeralContainers"):
        check_ephemeral_containers(errs, ephemeral, pod, f"{path}.ephemeralContainers")
    _check_middle(errs, spec, path, is_pod)
    _check_names(errs, spec, path)
    _check_tail(errs, spec, path)


def check_pod_body(errs: Errors, pod: Obj) -> None:
    """Everything of a pod but its metadata: for creation and for updates."""
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    if annotations := meta.get("annotations"):
        check_pod_annotations(errs, annotations, spec, "metadata.annotations")
    check_pod_spec(errs, spec, "spec", pod_name=meta.get("name") or "", is_pod=True)
    if not spec.get("serviceAccountName"):
        _forbid_tokens(errs, spec)
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0:
        where = "spec.terminationGracePeriodSeconds"
        errs.invalid(where, grace, "must be greater than or equal to 0")
    for kind in ("containers", "initContainers"):
        for i, container in enumerate(spec.get(kind) or ()):
            check_image_spaces(errs, container, f"spec.{kind}[{i}]")


def _forbid_tokens(errs: Errors, spec: Obj) -> None:
    why = "must not be specified when serviceAccountName is not set"
    for i, volume in enumerate(spec.get("volumes") or ()):
        for j, source in enumerate((volume.get("projected") or {}).get("sources") or ()):
            if source.get("serviceAccountToken") is not None:
                errs.forbidden(f"spec.volumes[{i}].projected.sources[{j}].serviceAccountToken", why)


def validate_pod(errs: Errors, pod: Obj) -> None:
    """A pod that is to be created."""
    check_pod_body(errs, pod)
    spec = pod.get("spec") or {}
    if spec.get("ephemeralContainers"):
        errs.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errs.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def check_pod_template(errs: Errors, template: Obj, path: str) -> None:
    """The template of a workload."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    if labels := meta.get("labels"):
        check_labels(errs, labels, f"{path}.labels")
    if annotations := meta.get("annotations"):
        check_annotations(errs, annotations, f"{path}.annotations")
        check_pod_annotations(errs, annotations, spec, f"{path}.annotations")
    check_pod_spec(errs, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        why = "ephemeral containers not allowed in pod template"
        errs.forbidden(f"{path}.spec.ephemeralContainers", why)


def validate_pod_template(errs: Errors, obj: Obj) -> None:
    check_pod_template(errs, obj.get("template") or {}, "template")


def reject_unless_always(errs: Errors, spec: Obj, path: str, kind: str) -> None:
    """Long-running workloads restart their pods for ever."""
    policy = spec.get("restartPolicy") or ""
    if policy != "Always":
        errs.not_supported(f"{path}.restartPolicy", policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        why = f"activeDeadlineSeconds in {kind} is not Supported"
        errs.forbidden(f"{path}.activeDeadlineSeconds", why)
