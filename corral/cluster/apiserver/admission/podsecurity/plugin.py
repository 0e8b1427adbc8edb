"""PodSecurity: the Pod Security Standards, chosen per namespace by labels.

``enforce`` refuses pods, ``warn`` warns about pods and about the workloads that make them. There
is no audit log, so ``audit`` only has its labels checked. Without labels everything is allowed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from corral.cluster.apiserver import errors as say
from corral.cluster.apiserver.admission.chain import Plugin
from corral.cluster.apiserver.admission.podsecurity.checks import LATEST, Finding, checks_for
from corral.cluster.apiserver.admission.refusals import refuse
from corral.cluster.apiserver.crud.core import AdmissionRequest
from corral.cluster.apiserver.store import Store
from corral.kube.types import Obj

__all__ = ["PodSecurity"]

PREFIX = "pod-security.kubernetes.io/"
PODS, NAMESPACES = "/pods", "/namespaces"
TEMPLATES: dict[str, tuple[str, ...]] = {
    "/replicationcontrollers": ("spec", "template"),
    "/podtemplates": ("template",),
    "apps/deployments": ("spec", "template"),
    "apps/replicasets": ("spec", "template"),
    "apps/statefulsets": ("spec", "template"),
    "apps/daemonsets": ("spec", "template"),
    "batch/jobs": ("spec", "template"),
    "batch/cronjobs": ("spec", "jobTemplate", "spec", "template"),
}
"""Where workloads keep the template of their pods."""

_IGNORED = frozenset(
    {"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"}
)
_RANKS = {"privileged": 0, "baseline": 1, "restricted": 2}
_VERSION = re.compile(r"v1\.([0-9]|[1-9][0-9]*)", re.ASCII)
_MAX_PODS = 3000


class Level(NamedTuple):
    """A level of the standards at a minor version."""

    name: str = "privileged"
    minor: int = LATEST

    def __str__(self) -> str:
        return f"{self.name}:{'latest' if self.minor == LATEST else f'v1.{self.minor}'}"


class Policy(NamedTuple):
    """What a namespace asks for, and what is wrong with its labels."""

    enforce: Level = Level()
    audit: Level = Level()
    warn: Level = Level()
    problems: tuple[say.FieldError, ...] = ()


NO_POLICY = Policy()


def policy(labels: dict[str, str]) -> Policy:
    """Read a namespace's labels; wrong ones enforce the most and warn the least."""
    if not any(key.startswith(PREFIX) for key in labels):
        return NO_POLICY
    problems: list[say.FieldError] = []
    found: dict[str, Level] = {}
    for mode in ("enforce", "audit", "warn"):
        name, minor = "privileged", LATEST
        level = labels.get(PREFIX + mode)
        if level is not None:
            name = level
            if level not in _RANKS:
                problems.append(
                    _wrong(mode, level, "must be one of privileged, baseline, restricted")
                )
                name = "restricted" if mode == "enforce" else "privileged"
        version = labels.get(f"{PREFIX}{mode}-version")
        if version is not None and version != "latest":
            match = _VERSION.fullmatch(version)
            if match is None:
                problems.append(_wrong(f"{mode}-version", version, 'must be "latest" or "v1.x"'))
            else:
                minor = int(match[1])
        found[mode] = Level(name, minor)
    enforce = found["enforce"]
    if f"{PREFIX}warn" not in labels and labels.get(f"{PREFIX}enforce") in _RANKS:
        versioned = f"{PREFIX}warn-version" in labels
        if enforce.name != "privileged":
            minor = found["warn"].minor if versioned else enforce.minor
            found["warn"] = Level(enforce.name, minor)
    return Policy(enforce, found["audit"], found["warn"], tuple(problems))


def _wrong(label: str, value: str, detail: str) -> say.FieldError:
    return say.invalid_value(f"metadata.labels[{PREFIX}{label}]", value, detail)


def evaluate(level: Level, meta: Obj, spec: Obj) -> list[Finding]:
    """What a pod violates."""
    if level.name == "privileged":
        return []
    found = (check(meta, spec) for check in checks_for(level.name, level.minor))
    return [finding for finding in found if finding is not None]


def describe(findings: Iterable[Finding]) -> str:
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in findings)


class PodSecurity(Plugin):
    """Checks pods, workloads and the labels of namespaces."""

    tables = frozenset({PODS, NAMESPACES, *TEMPLATES})

    def __init__(self, store: Store) -> None:
        self._store = store

    async def validate(self, request: AdmissionRequest) -> None:
        if request.object is None or request.operation not in ("CREATE", "UPDATE"):
            return
        table = request.kind.info.table
        if table == NAMESPACES:
            self._check_namespace(request, request.object)
            return
        entry = self._store.head(NAMESPACES, request.namespace)
        if entry is None or not entry.labels:
            return
        wanted = policy(entry.labels)
        if wanted is NO_POLICY:
            return
        if table == PODS:
            self._check_pod(request, request.object, wanted)
        elif not request.subresource:
            self._check_template(request, request.object, wanted)

    def _check_pod(self, request: AdmissionRequest, pod: Obj, wanted: Policy) -> None:
        if request.subresource in _IGNORED:
            return
        if request.old is not None and not _significant(pod["spec"], request.old["spec"]):
            return
        findings = evaluate(wanted.enforce, pod["metadata"], pod["spec"])
        if findings:
            raise refuse(request, f'violates PodSecurity "{wanted.enforce}": {describe(findings)}')
        self._warn(request, pod["metadata"], pod["spec"], wanted.warn)

    def _check_template(self, request: AdmissionRequest, obj: Obj, wanted: Policy) -> None:
        template: Obj = obj
        for key in TEMPLATES[request.kind.info.table]:
            template = template.get(key) or {}
        if template.get("spec"):
            self._warn(request, template.get("metadata") or {}, template["spec"], wanted.warn)

    def _warn(self, request: AdmissionRequest, meta: Obj, spec: Obj, level: Level) -> None:
        findings = evaluate(level, meta, spec)
        if findings:
            request.context.warn(f'would violate PodSecurity "{level}": {describe(findings)}')

    # -- namespaces ------------------------------------------------------------------------

    def _check_namespace(self, request: AdmissionRequest, namespace: Obj) -> None:
        if request.subresource:
            return
        new = policy(namespace["metadata"].get("labels") or {})
        old = policy(((request.old or {}).get("metadata") or {}).get("labels") or {})
        if new.problems and (request.old is None or new.problems != old.problems):
            raise say.invalid("", "Namespace", request.name, new.problems)
        if request.old is None or new.enforce == old.enforce:
            return
        if new.enforce.name == "privileged":
            return
        lower = _RANKS[new.enforce.name] <= _RANKS[old.enforce.name]
        if new.enforce.minor == old.enforce.minor and lower:
            return
        for text in self._violations(request.name, new.enforce):
            request.context.warn(text)

    def _violations(self, namespace: str, level: Level) -> list[str]:
        """Warnings about the pods that are already there."""
        pods = _by_importance([e.decode() for e in self._store.scan(PODS, f"{namespace}/")])
        counts: Counter[str] = Counter()
        first: dict[str, str] = {}
        for pod in pods[:_MAX_PODS]:
            findings = evaluate(level, pod["metadata"], pod["spec"])
            if findings:
                reasons = ", ".join(reason for reason, _ in findings)
                counts[reasons] += 1
                name = pod["metadata"]["name"]
                first[reasons] = min(name, first.get(reasons, name))
        out = []
        if len(pods) > _MAX_PODS:
            out.append(
                "new PodSecurity enforce level only checked against the first "
                f"{_MAX_PODS} of {len(pods)} existing pods"
            )
        if counts:
            out.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce '
                f'level "{level}"'
            )
        return out + sorted(
            f"{first[reasons]}{_others(count)}: {reasons}" for reasons, count in counts.items()
        )


def _others(count: int) -> str:
    match count:
        case 1:
            return ""
        case 2:
            return " (and 1 other pod)"
        case _:
            return f" (and {count - 1} other pods)"


def _by_importance(pods: list[Obj]) -> list[Obj]:
    """One pod of every controller first."""
    seen: set[str] = set()
    front, rest = [], []
    for pod in pods:
        owners = pod["metadata"].get("ownerReferences") or ()
        controller = next((o["uid"] for o in owners if o.get("controller")), None)
        if controller in seen:
            rest.append(pod)
            continue
        front.append(pod)
        if controller is not None:
            seen.add(controller)
    return front + rest


def _significant(new: Obj, old: Obj) -> bool:
    """Other images or containers; nothing else that matters can change in a pod."""
    for field in ("containers", "initContainers"):
        images = [[c.get("image") for c in spec.get(field) or ()] for spec in (new, old)]
        if images[0] != images[1]:
            return True
    before = {c.get("name"): c.get("image") for c in old.get("ephemeralContainers") or ()}
    return any(
        c.get("name") not in before or before[c.get("name")] != c.get("image")
        for c in new.get("ephemeralContainers") or ()
    )
