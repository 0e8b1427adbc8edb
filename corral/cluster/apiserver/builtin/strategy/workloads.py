"""Workloads: counters of generations, the selector of a Job, the revision of a DaemonSet."""

from __future__ import annotations

from corral.kube.types import Obj

from .base import Strategy, count_at
from .volumewarnings import claim_spec_warnings

__all__ = ["STRATEGIES"]

_IN_POD_NAMES = "Pod names and hostnames"
_TEMPLATE = ("spec", "template")
_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_MANY_INDEXES = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than "
    "10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
)


class DeploymentStrategy(Strategy):
    """Annotations are copied to replica sets, so that they count as a change too."""

    def is_new_generation(self, new: Obj, old: Obj) -> bool:
        return bool(
            new.get("spec") != old.get("spec")
            or (new["metadata"].get("annotations") or {})
            != (old["metadata"].get("annotations") or {})
        )


class DaemonSetStrategy(Strategy):
    """Counts changes of its template in an annotation that clients cannot set."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        generation = max(_template_generation(obj), 1)
        self._annotate(obj, generation)
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        changed = (new.get("spec") or {}).get("template") != (old.get("spec") or {}).get("template")
        self._annotate(new, _template_generation(old) + changed)

    def prepare_status_update(self, new: Obj, old: Obj) -> None:
        super().prepare_status_update(new, old)
        self._annotate(new, _template_generation(old))

    def template_changed(self, new: Obj, old: Obj) -> bool:
        return _template_generation(new) != _template_generation(old)

    @staticmethod
    def _annotate(obj: Obj, generation: int) -> None:
        annotations = dict(obj["metadata"].get("annotations") or {})
        annotations[_TEMPLATE_GENERATION] = str(generation)
        obj["metadata"]["annotations"] = annotations


def _template_generation(obj: Obj) -> int:
    value = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION) or "0"
    try:
        return int(value)
    except ValueError:
        return 0


class StatefulSetStrategy(Strategy):
    """Its claims and its history limit are looked at on every write."""

    def warnings_create(self, obj: Obj) -> list[str]:
        return super().warnings_create(obj) + self._limits(obj, "")

    def warnings_update(self, new: Obj, old: Obj) -> list[str]:
        return super().warnings_update(new, old) + self._limits(new, ".Spec")

    @staticmethod
    def _limits(obj: Obj, suffix: str) -> list[str]:
        spec = obj.get("spec") or {}
        warnings: list[str] = []
        for i, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
            path = f"spec.volumeClaimTemplates[{i}]{suffix}"
            warnings += claim_spec_warnings(path, claim.get("spec") or {})
        if (spec.get("revisionHistoryLimit") or 0) < 0:
            warnings.append(
                "spec.revisionHistoryLimit: a negative value retains all historical revisions; "
                "a value >= 0 is recommended"
            )
        return warnings


class JobStrategy(Strategy):
    """Generates the selector that ties pods to exactly this job."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        spec = obj["spec"]
        if not spec.get("manualSelector"):
            _generate_selector(obj["metadata"], spec)
        _own_labels(obj)
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        _own_labels(new)
        super().prepare_update(new, old)

    def warnings_create(self, obj: Obj) -> list[str]:
        name = self.warnings_name(obj)
        return name + _indexes("spec", obj["spec"]) + super().warnings_create(obj)[len(name) :]

    def warnings_update(self, new: Obj, old: Obj) -> list[str]:
        changed = self.template_changed(new, old)
        indexes = _indexes("spec", new["spec"]) if changed else []
        return indexes + super().warnings_update(new, old)


def _generate_selector(metadata: Obj, spec: Obj) -> None:
    name, uid = metadata.get("name") or "", metadata.get("uid") or ""
    template = spec.setdefault("template", {}).setdefault("metadata", {})
    given = template.get("labels")
    adopted = given is not None and metadata.get("labels") is given
    labels = template["labels"] = dict(given or {})
    for key, value in (
        ("job-name", name),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        (_CONTROLLER_UID, uid),
    ):
        labels.setdefault(key, value)
    if adopted or not metadata.get("labels"):
        metadata["labels"] = dict(labels)
    selector = spec.setdefault("selector", {})
    matches = selector["matchLabels"] = dict(selector.get("matchLabels") or {})
    matches.setdefault(_CONTROLLER_UID, uid)


def _own_labels(job: Obj) -> None:
    """Part labels that defaulting adopted from the template, so that writers can change them."""
    labels = job["metadata"].get("labels")
    if labels is not None and labels is job["spec"]["template"].get("metadata", {}).get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _indexes(path: str, spec: Obj) -> list[str]:
    many = (
        spec.get("completionMode") == "Indexed"
        and (spec.get("completions") or 0) > 100_000
        and (spec.get("parallelism") or 0) > 10_000
    )
    return [f"{path}: {_MANY_INDEXES}"] if many else []


class CronJobStrategy(Strategy):
    """Warns about time zones inside a schedule, on updates only."""

    def warnings_create(self, obj: Obj) -> list[str]:
        name = self.warnings_name(obj)
        job = ((obj.get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
        indexes = _indexes("spec.jobTemplate.spec", job)
        return name + indexes + super().warnings_create(obj)[len(name) :]

    def warnings_update(self, new: Obj, old: Obj) -> list[str]:
        warnings = super().warnings_update(new, old)
        if "TZ" in ((new.get("spec") or {}).get("schedule") or ""):
            warnings.append(
                "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see "
                "https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ "
                "for more details"
            )
        return warnings


class DisruptionBudgetStrategy(Strategy):
    """Drops the marker that an older version of the API wrote into selectors."""

    def prepare_create(self, obj: Obj) -> tuple[str, ...]:
        _strip_marker(obj, None)
        return super().prepare_create(obj)

    def prepare_update(self, new: Obj, old: Obj) -> None:
        super().prepare_update(new, old)
        _strip_marker(new, old)


_MARKER = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def _strip_marker(new: Obj, old: Obj | None) -> None:
    selector = (new.get("spec") or {}).get("selector")
    expressions = (selector or {}).get("matchExpressions")
    if not selector or not expressions:
        return
    if old is not None and (old.get("spec") or {}).get("selector") == selector:
        return
    match_none = {"matchExpressions": [{"key": _MARKER, "operator": "Exists"}]}
    kept = [e for e in expressions if e.get("key") != _MARKER]
    if selector != match_none and len(kept) < len(expressions):
        selector["matchExpressions"] = kept
        if not kept:
            del selector["matchExpressions"]


_REPLICAS = {"replicas": 0}
_HPA_STATUS = {"currentMetrics": None, "desiredReplicas": 0}

STRATEGIES: list[Strategy] = [
    DeploymentStrategy(
        group="apps",
        kind="Deployment",
        initial_status={},
        first_generation=True,
        generation_of=("spec",),
        status_metadata="labels",
        template_path=_TEMPLATE,
        name_becomes=_IN_POD_NAMES,
    ),
    Strategy(
        group="apps",
        kind="ReplicaSet",
        initial_status=_REPLICAS,
        first_generation=True,
        generation_of=("spec",),
        template_path=_TEMPLATE,
        name_becomes=_IN_POD_NAMES,
    ),
    DaemonSetStrategy(
        group="apps",
        kind="DaemonSet",
        initial_status={
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
        first_generation=True,
        generation_of=("spec",),
        template_path=_TEMPLATE,
    ),
    StatefulSetStrategy(
        group="apps",
        kind="StatefulSet",
        initial_status={"replicas": 0, "availableReplicas": 0},
        first_generation=True,
        generation_of=("spec",),
        template_path=_TEMPLATE,
    ),
    Strategy(group="apps", kind="ControllerRevision"),
    Strategy(
        group="",
        kind="ReplicationController",
        initial_status=_REPLICAS,
        first_generation=True,
        generation_of=("spec",),
        orphans_by_default_in="v1",
        template_path=_TEMPLATE,
        name_becomes=_IN_POD_NAMES,
        selectors={"status.replicas": count_at("status", "replicas")},
        selector_refusal="field label not supported: {}",
    ),
    Strategy(
        group="",
        kind="PodTemplate",
        first_generation=True,
        generation_of=("template",),
        template_path=("template",),
    ),
    JobStrategy(
        group="batch",
        kind="Job",
        initial_status={},
        first_generation=True,
        generation_of=("spec",),
        orphans_by_default_in="batch/v1",
        template_path=_TEMPLATE,
        name_becomes=_IN_POD_NAMES,
        selectors={"status.successful": count_at("status", "succeeded")},
        selector_refusal='field label "{}" not supported for Job',
    ),
    CronJobStrategy(
        group="batch",
        kind="CronJob",
        initial_status={},
        first_generation=True,
        generation_of=("spec",),
        template_path=("spec", "jobTemplate", "spec", "template"),
        name_becomes=_IN_POD_NAMES,
    ),
    Strategy(
        group="autoscaling",
        kind="HorizontalPodAutoscaler",
        initial_status=_HPA_STATUS,
        first_generation=True,
        generation_of=("spec",),
    ),
    DisruptionBudgetStrategy(
        group="policy",
        kind="PodDisruptionBudget",
        initial_status={
            "disruptionsAllowed": 0,
            "currentHealthy": 0,
            "desiredHealthy": 0,
            "expectedPods": 0,
        },
        first_generation=True,
        generation_of=("spec",),
        allow_unconditional_update=False,
    ),
]
