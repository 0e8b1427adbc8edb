"""What pods are given by default in namespaces whose policy restricts them. No I/O.

In a namespace that enforces ``restricted`` a template without security contexts gets those that the
policy demands: not root, no new privileges, no capabilities, the runtime's seccomp profile. Under
``baseline`` it gets the seccomp profile. What the template says is never changed, even if the API
server then refuses the pod: that is its author's to decide.

The user of an image is not known here, and a pod that must not be root does not start with one that
is root. So a pod of a restricted namespace gets a user, and that user's group for its volumes, if
its template has none; except where OpenShift chooses users itself.
"""

from __future__ import annotations

from typing import Final

from corral.kube.types import Obj

__all__ = ["ENFORCE_LABEL", "harden"]

ENFORCE_LABEL: Final = "pod-security.kubernetes.io/enforce"
_OPENSHIFT: Final = "openshift.io/sa.scc.uid-range"


def harden(pod: Obj, namespace: Obj, *, user: int | None) -> None:
    """Complete the spec of a pod, in place, as the namespace (its metadata) demands."""
    level = (namespace.get("labels") or {}).get(ENFORCE_LABEL)
    if level not in ("restricted", "baseline") or (pod.get("os") or {}).get("name") == "windows":
        return
    context = pod["securityContext"] = dict(pod.get("securityContext") or {})
    context.setdefault("seccompProfile", {"type": "RuntimeDefault"})
    if level == "baseline":
        return
    context.setdefault("runAsNonRoot", True)
    chooses = _OPENSHIFT in (namespace.get("annotations") or {})
    if user is not None and not chooses and not _has_user(pod):
        context["runAsUser"] = user
        if "fsGroup" not in context:
            context |= {"fsGroup": user, "fsGroupChangePolicy": "OnRootMismatch"}
    for part in ("initContainers", "containers"):
        for container in pod.get(part) or ():
            _restrict(container)


def _has_user(pod: Obj) -> bool:
    holders = [pod, *(pod.get("containers") or ()), *(pod.get("initContainers") or ())]
    return any((each.get("securityContext") or {}).get("runAsUser") is not None for each in holders)


def _restrict(container: Obj) -> None:
    context = container["securityContext"] = dict(container.get("securityContext") or {})
    if not context.get("privileged"):  # the two contradict each other
        context.setdefault("allowPrivilegeEscalation", False)
    capabilities = context["capabilities"] = dict(context.get("capabilities") or {})
    capabilities.setdefault("drop", ["ALL"])
