"""Whether a container that has ended is started again."""

from __future__ import annotations

from corral.kube.types import Obj


def is_sidecar(container: Obj, *, init: bool) -> bool:
    """An init container that runs as long as the pod does."""
    return init and container.get("restartPolicy") == "Always"


def should_restart(container: Obj, pod_spec: Obj, exit_code: int) -> bool:
    """By the container's own rules and policy where it has them, else by the pod's."""
    policy = container.get("restartPolicy")
    if policy:
        for rule in container.get("restartPolicyRules") or ():
            if _matches(rule, exit_code):
                return bool(rule.get("action") == "Restart")
    policy = policy or pod_spec.get("restartPolicy") or "Always"
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _matches(rule: Obj, exit_code: int) -> bool:
    codes = rule.get("exitCodes")
    if not codes:
        return False
    within = exit_code in (codes.get("values") or ())
    return within if codes.get("operator") == "In" else not within
