"""The two policies of a job: what a failed pod means, and which successes are enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from corral.cluster.workloads.job.indexes import IndexSet
from corral.kube.types import Obj

__all__ = ["FailureMatch", "match_failure", "match_success"]


@dataclass(frozen=True, slots=True)
class FailureMatch:
    """What the pod failure policy says about one failed pod."""

    action: str | None = None
    """FailJob, FailIndex, Ignore or Count; None when no rule matched."""
    message: str | None = None
    """Why the job fails; only with FailJob."""

    @property
    def counts(self) -> bool:
        """The failure goes towards the back-off limits."""
        return self.action != "Ignore"


_NO_MATCH = FailureMatch()


def match_failure(policy: Obj | None, pod: Obj) -> FailureMatch:
    """The first rule that matches decides."""
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        if rule.get("onExitCodes") is not None:
            found = _matching_container(pod, rule["onExitCodes"])
            why = found and (
                f"Container {found.get('name', '')} for pod {_path(pod)} failed with exit code "
                f"{found['state']['terminated']['exitCode']} matching "
            )
        else:
            matched = _matching_condition(pod, rule.get("onPodConditions") or ())
            why = matched and f"Pod {_path(pod)} has condition {matched['type']} matching "
        action = rule.get("action")
        if why and action == "FailJob":
            return FailureMatch(action, f"{why}FailJob rule at index {position}")
        if why and action in ("FailIndex", "Ignore", "Count"):
            return FailureMatch(action)
    return _NO_MATCH


def _path(pod: Obj) -> str:
    return f"{pod['metadata'].get('namespace', '')}/{pod['metadata'].get('name', '')}"


def _matching_container(pod: Obj, requirement: Obj) -> Obj | None:
    status, wanted = pod.get("status") or {}, requirement.get("containerName")
    for field in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(field) or ():
            ended = (container.get("state") or {}).get("terminated")
            if ended is None or (wanted is not None and wanted != container.get("name")):
                continue
            code = ended.get("exitCode", 0)
            if code != 0 and _code_matches(code, requirement):
                return dict(container)
    return None


def _code_matches(code: int, requirement: Obj) -> bool:
    values = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return code in values
        case "NotIn":
            return code not in values
        case _:
            return False


def _matching_condition(pod: Obj, patterns: Any) -> Obj | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        for pattern in patterns:
            # The status of a pattern is defaulted to True by the server.
            wanted = pattern.get("status") or "True"
            if condition.get("type") == pattern.get("type") and condition.get("status") == wanted:
                return dict(condition)
    return None


def match_success(policy: Obj | None, completions: int, succeeded: IndexSet) -> str | None:
    """The message of the first rule that is met, or None."""
    if not succeeded.intervals:
        return None
    for position, rule in enumerate((policy or {}).get("rules") or ()):
        if _success_rule_met(rule, completions, succeeded):
            return f"Matched rules at index {position}"
    return None


def _success_rule_met(rule: Obj, completions: int, succeeded: IndexSet) -> bool:
    count = rule.get("succeededCount")
    if rule.get("succeededIndexes") is None:
        return count is not None and len(succeeded) >= count
    required = IndexSet.parse(rule["succeededIndexes"], completions)
    if not required.intervals:
        return False
    done = required.overlap(succeeded)
    return done == len(required) or (count is not None and done >= count)
