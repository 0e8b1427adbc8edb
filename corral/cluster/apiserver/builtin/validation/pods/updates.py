"""What may change in a pod once it exists."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.builtin.validation.fields.addresses import check_ip, dual_stack
from corral.cluster.apiserver.builtin.validation.fields.differences import difference
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, same
from corral.cluster.apiserver.builtin.validation.fields.meta import validate_object_meta_update
from corral.cluster.apiserver.builtin.validation.fields.names import (
    dns_subdomain,
    in_range,
    qualified_name,
)
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules, same_again
from corral.cluster.apiserver.builtin.validation.pods.containers import check_image_spaces
from corral.cluster.apiserver.builtin.validation.pods.pods import (
    MIRROR,
    check_pod_annotations,
    check_pod_body,
    validate_pod,
    validate_pod_template,
)
from corral.cluster.apiserver.builtin.validation.pods.scheduling import check_tolerations
from corral.cluster.apiserver.errors import FieldError
from corral.kube.types import Obj

__all__ = ["KINDS", "validate_ephemeral_containers"]

_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_MAX_INT32 = 2**31 - 1
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously "
        "negative)",
    )
)


def _check_annotations(errs: Errors, new: Obj, old: Obj) -> None:
    after: dict[str, str] = (new.get("metadata") or {}).get("annotations") or {}
    before: dict[str, str] = (old.get("metadata") or {}).get("annotations") or {}
    path = "metadata.annotations"
    for key, value in before.items():
        if after.get(key) == value:
            continue
        if key.startswith(_APPARMOR):
            errs.forbidden(f"{path}[{key}]", "may not remove or update AppArmor annotations")
        if key == MIRROR:
            errs.forbidden(f"{path}[{key}]", "may not remove or update mirror pod annotation")
    for key in after.keys() - before.keys():
        if key.startswith(_APPARMOR):
            errs.forbidden(f"{path}[{key}]", "may not add AppArmor annotations")
        if key == MIRROR:
            errs.forbidden(f"{path}[{key}]", "may not add mirror pod annotation")
    check_pod_annotations(errs, after, new.get("spec") or {}, path)


def _check_containers(errs: Errors, new: Obj, old: Obj, kind: str) -> bool:
    after, before = new.get(kind) or (), old.get(kind) or ()
    if len(after) != len(before):
        errs.forbidden(f"spec.{kind}", "pod updates may not add or remove containers")
        return False
    for i, container in enumerate(after):
        if not container.get("image"):
            errs.required(f"spec.{kind}[{i}].image")
        check_image_spaces(errs, container, f"spec.{kind}[{i}]")
    return True


def _check_deadline(errs: Errors, new: Obj, old: Obj) -> bool:
    after, before = new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds")
    where = "spec.activeDeadlineSeconds"
    if after is not None:
        if found := in_range(after, 0, _MAX_INT32):
            errs.invalid_each(where, after, found)
            return False
        if before is not None and before < after:
            errs.invalid(where, after, "must be less than or equal to previous value")
            return False
    elif before is not None:
        errs.invalid(where, None, "must not update from a positive integer to nil value")
    return True


def _toleration_key(item: Obj) -> frozenset[tuple[str, Any]]:
    return frozenset((k, v) for k, v in item.items() if k != "tolerationSeconds")


def _check_tolerations(errs: Errors, new: Obj, old: Obj) -> None:
    after = new.get("tolerations") or []
    kept = set(map(_toleration_key, after))
    for item in old.get("tolerations") or ():
        if _toleration_key(item) not in kept:
            why = "existing toleration can not be modified except its tolerationSeconds"
            errs.forbidden("spec.tolerations", why)
            return
    check_tolerations(errs, after, "spec.tolerations")


def _check_gates(errs: Errors, new: Obj, old: Obj) -> None:
    known = {g.get("name") for g in old.get("schedulingGates") or ()}
    for i, gate in enumerate(new.get("schedulingGates") or ()):
        if gate.get("name") not in known:
            why = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            errs.forbidden(f"spec.schedulingGates[{i}].name", why)


def _with_old_images(new: list[Obj] | None, old: list[Obj] | None) -> list[Obj]:
    pairs = zip(new or (), old or (), strict=False)
    return [{**after, "image": before.get("image")} for after, before in pairs]


def _put(spec: Obj, name: str, value: Any) -> None:
    if value is None:
        spec.pop(name, None)
    else:
        spec[name] = value


def _munge(errs: Errors, new: Obj, old: Obj) -> Obj:
    """The new spec with everything that may change set back."""
    spec = dict(new)
    for kind in ("containers", "initContainers"):
        if spec.get(kind):
            spec[kind] = _with_old_images(spec[kind], old.get(kind))
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        _put(spec, name, old.get(name))
    grace = old.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        spec["terminationGracePeriodSeconds"] = grace
    if old.get("schedulingGates"):
        _munge_gated(errs, spec, old)
    return spec


def _munge_gated(errs: Errors, spec: Obj, old: Obj) -> None:
    after, before = spec.get("nodeSelector") or {}, old.get("nodeSelector") or {}
    if after != before:
        if any(after.get(k) != v for k, v in before.items()):
            why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            errs.invalid("spec.nodeSelector", after, why)
        _put(spec, "nodeSelector", old.get("nodeSelector"))
    old_affinity = old.get("affinity") or {}
    old_node = old_affinity.get("nodeAffinity")
    new_node = (spec.get("affinity") or {}).get("nodeAffinity")
    if not same(new_node, old_node):
        _check_node_affinity(errs, new_node or {}, old_node or {})
        affinity = dict(spec.get("affinity") or {})
        _put(affinity, "nodeAffinity", old_node)
        _put(spec, "affinity", affinity or None)


def _check_node_affinity(errs: Errors, new: Obj, old: Obj) -> None:
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    before = (old.get(name) or {}).get("nodeSelectorTerms") or []
    after = (new.get(name) or {}).get("nodeSelectorTerms") or []
    path = f"spec.affinity.nodeAffinity.{name}.nodeSelectorTerms"
    if not before:
        return
    if len(before) != len(after):
        why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        errs.invalid(path, after, why)
        return
    for i, (b, a) in enumerate(zip(before, after, strict=True)):
        if not _only_adds(a, b):
            why = "only additions are allowed (no mutations or deletions)"
            errs.invalid(f"{path}[{i}]", a, why)


def _only_adds(new: Obj, old: Obj) -> bool:
    kinds = ("matchExpressions", "matchFields")
    if not any(old.get(k) for k in kinds):
        return not any(new.get(k) for k in kinds)
    return all((new.get(k) or [])[: len(old.get(k) or [])] == (old.get(k) or []) for k in kinds)


def validate_pod_update(errs: Errors, new: Obj, old: Obj) -> None:
    check_pod_body(errs, new)
    _check_annotations(errs, new, old)
    after, before = new.get("spec") or {}, old.get("spec") or {}
    if not all(_check_containers(errs, after, before, k) for k in ("containers", "initContainers")):
        return
    if not _check_deadline(errs, after, before):
        return
    _check_tolerations(errs, after, before)
    _check_gates(errs, after, before)
    if after == before:
        return
    munged = _munge(errs, after, before)
    if not same(munged, before):
        why = f"pod updates may not change fields other than {_UPDATABLE}\n"
        errs.forbidden("spec", why + difference("core.PodSpec", before, munged))


def validate_ephemeral_containers(new: Obj, old: Obj) -> list[FieldError]:
    """An update through the ``ephemeralcontainers`` subresource."""
    errs = validate_object_meta_update(new, old)
    check_pod_body(errs, new)
    if MIRROR in ((old.get("metadata") or {}).get("annotations") or {}):
        errs.clear()
        errs.forbidden("", "static pods do not support ephemeral containers")
        return errs
    path = "spec.ephemeralContainers"
    after = {c.get("name"): c for c in (new.get("spec") or {}).get("ephemeralContainers") or ()}
    for container in (old.get("spec") or {}).get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in after:
            errs.forbidden(path, f'existing ephemeral containers "{name}" may not be removed\n')
        elif not same(after[name], container):
            why = f'existing ephemeral containers "{name}" may not be changed\n'
            shown = difference("core.EphemeralContainer", container, after[name])
            errs.forbidden(path, why + shown)
    return errs


def _may_restart(spec: Obj, container: Obj | None, code: int) -> bool:
    if not container:
        return False
    policy = container.get("restartPolicy")
    if policy is not None and _rule_restarts(container, code):
        return True
    policy = policy or spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and code != 0)


def _rule_restarts(container: Obj, code: int) -> bool:
    for rule in container.get("restartPolicyRules") or ():
        codes = rule.get("exitCodes") or {}
        listed = code in (codes.get("values") or ())
        if listed == (codes.get("operator") == "In"):
            return rule.get("action") in ("Restart", "RestartAllContainers")
    return False


def _any_restarts_all(spec: Obj) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for kind in ("containers", "initContainers")
        for container in spec.get(kind) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def _check_transitions(errs: Errors, new: Obj, old: Obj, spec: Obj) -> None:
    free = _any_restarts_all(spec)
    for statuses, kind in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ):
        after = {s.get("name"): s for s in new.get(statuses) or ()}
        containers = {c.get("name"): c for c in reversed(spec.get(kind) or ())}  # the first counts
        for i, status in enumerate(old.get(statuses) or ()):
            ended = (status.get("state") or {}).get("terminated")
            current = after.get(status.get("name"))
            if ended is None or current is None or (current.get("state") or {}).get("terminated"):
                continue
            code = ended.get("exitCode") or 0
            named = containers.get(status.get("name") or "")
            if kind and (free or _may_restart(spec, named, code)):
                continue
            why = "may not be transitioned to non-terminated state"
            errs.forbidden(f"status.{statuses}[{i}].state", why)


def _check_ips(errs: Errors, new: Obj, old: Obj, kind: str) -> None:
    name, path = f"{kind}s", f"status.{kind}s"
    entries = new.get(name) or []
    first, single = (entries[0].get("ip") or "" if entries else ""), new.get(kind) or ""
    if kind == "hostIP":
        if not entries:
            return
        if single != first:
            errs.invalid(f"{path}[0].ip", first, "must be equal to `hostIP`")
    known = {e.get("ip") or "" for e in old.get(name) or ()}
    ips = [e.get("ip") or "" for e in entries]
    for i, ip in enumerate(ips):
        check_ip(errs, ip, f"{path}[{i}]", known)
    if len(ips) > 1 and (not dual_stack(ips) or len(ips) > 2):
        shown = [{"IP": ip} for ip in ips]
        errs.invalid(path, shown, "may specify no more than one IP for each IP family")
    if kind == "podIP":
        if bool(single) != bool(ips):
            why = "podIP and podIPs must either both be set or both be unset"
            errs.invalid(path, [{"IP": ip} for ip in ips] or None, why)
        elif ips and single != first:
            errs.invalid(f"{path}[0].ip", first, "must be equal to `podIP`")


def validate_pod_status(errs: Errors, new: Obj, old: Obj) -> None:
    _check_annotations(errs, new, old)
    after, before = new.get("status") or {}, old.get("status") or {}
    for i, condition in enumerate(after.get("conditions") or ()):
        generation, kind = condition.get("observedGeneration") or 0, condition.get("type") or ""
        if generation < 0:
            where = f"status.conditions[{i}].observedGeneration"
            errs.invalid(where, generation, "must be a non-negative integer")
        if kind not in ("PodScheduled", "Ready", "Initialized"):
            errs.format(f"status.conditions[{i}].Type", kind, qualified_name)
    bound = (old.get("spec") or {}).get("nodeName") or ""
    if ((new.get("spec") or {}).get("nodeName") or "") != bound:
        errs.forbidden("status.nodeName", "may not be changed directly")
    nominated = after.get("nominatedNodeName") or ""
    if nominated and nominated != (before.get("nominatedNodeName") or ""):
        where = "status.nominatedNodeName"
        errs.format(where, nominated, dns_subdomain)
        if bound:
            errs.forbidden(where, "may not be set on pods that are already bound to a node")
    generation = after.get("observedGeneration") or 0
    if generation < 0:
        errs.invalid("status.observedGeneration", generation, "must be a non-negative integer")
    errs.immutable("status.qosClass", after.get("qosClass") or "", before.get("qosClass") or "")
    _check_transitions(errs, after, before, old.get("spec") or {})
    _check_ips(errs, after, before, "podIP")
    _check_ips(errs, after, before, "hostIP")


KINDS: Kinds = {
    ("", "Pod"): Rules(validate_pod, validate_pod_update, validate_pod_status),
    ("", "PodTemplate"): same_again(validate_pod_template),
}  # fmt: skip
