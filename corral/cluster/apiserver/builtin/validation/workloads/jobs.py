"""Jobs and CronJobs."""

from __future__ import annotations

import re

from corral.cluster.apiserver.builtin.validation.fields import check
from corral.cluster.apiserver.builtin.validation.fields.errors import Errors, int_of, same
from corral.cluster.apiserver.builtin.validation.fields.names import dns_label
from corral.cluster.apiserver.builtin.validation.fields.prefixes import check_domain_prefixed_path
from corral.cluster.apiserver.builtin.validation.fields.rules import Kinds, Rules
from corral.cluster.apiserver.builtin.validation.fields.selectors import (
    check_selector,
    matches,
    well_formed,
)
from corral.cluster.apiserver.builtin.validation.fields.structs import capitalised
from corral.cluster.apiserver.builtin.validation.pods.pods import check_pod_template
from corral.cluster.apiserver.builtin.validation.workloads.cron import known_zone, schedule_error
from corral.cluster.apiserver.builtin.validation.workloads.job_policies import (
    check_pod_failure_policy,
    check_success_policy,
)
from corral.cluster.apiserver.builtin.validation.workloads.job_status import validate_job_status
from corral.kube.types import Obj

__all__ = ["KINDS"]

_COUNTS = check.counts(
    "parallelism completions activeDeadlineSeconds backoffLimit ttlSecondsAfterFinished "
    "backoffLimitPerIndex maxFailedIndexes"
)
_DEADLINE = check.counts("startingDeadlineSeconds")
_HISTORY = check.counts("successfulJobsHistoryLimit failedJobsHistoryLimit")
_SOFT, _HIGH = 100_000, 10_000
_INDEXED = "requires indexed completion mode"
_ZONE_PART = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch


def _check_has_label(errs: Errors, labels: dict[str, str], key: str, value: str) -> None:
    where = f"spec.template.metadata.labels[{key}]"
    if key not in labels:
        errs.required(where, f"must be '{value}'")
    elif labels[key] != value:
        errs.invalid(where, labels, f"must be '{value}'")


def _check_generated_selector(errs: Errors, obj: Obj) -> None:
    meta, spec = obj.get("metadata") or {}, obj.get("spec") or {}
    if spec.get("manualSelector") or spec.get("selector") is None:
        return
    uid, name = meta.get("uid") or "", meta.get("name") or ""
    if not uid:
        errs.required("metadata.uid")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    expected = {
        "controller-uid": uid,
        "job-name": name,
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
    }
    for key, value in expected.items():
        _check_has_label(errs, labels, key, value)
    if well_formed(spec["selector"]) and not matches(spec["selector"], expected):
        errs.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _check_name_fits(errs: Errors, obj: Obj) -> None:
    """The pods of an indexed job carry its name and the index in their host name."""
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    completions = spec.get("completions") or 0
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return
    host = f"{name}-{completions - 1}"
    if dns_label(host):
        why = f"will not able to create pod with invalid DNS label: {host}"
        errs.invalid("metadata.name", name, why)


def _check_indexed(errs: Errors, spec: Obj, path: str) -> None:
    completions, parallel = spec.get("completions"), spec.get("parallelism")
    failed = spec.get("maxFailedIndexes")
    if completions is None:
        errs.required(f"{path}.completions", "when completion mode is Indexed")
    if parallel is not None and parallel > _SOFT:
        why = f"must be less than or equal to {_SOFT} when completion mode is Indexed"
        errs.invalid(f"{path}.parallelism", parallel, why)
    where = f"{path}.maxFailedIndexes"
    if completions is not None and failed is not None and failed > completions:
        errs.invalid(where, failed, "must be less than or equal to completions")
    if failed is not None and failed > _SOFT:
        errs.invalid(where, failed, f"must be less than or equal to {_SOFT}")
    if completions is None or completions <= _SOFT or spec.get("backoffLimitPerIndex") is None:
        return
    why = (
        f"must be less than or equal to {_HIGH} when completions are above {_SOFT} and used with "
        "backoff limit per index"
    )
    if failed is None:
        errs.required(where, f"must be specified when completions is above {_SOFT}")
    if parallel is not None and parallel > _HIGH:
        errs.invalid(f"{path}.parallelism", parallel, why)
    if failed is not None and failed > _HIGH:
        errs.invalid(where, failed, why)


def _printed_success(policy: Obj) -> Obj:
    names = ("succeededIndexes", "succeededCount")
    rules = policy.get("rules")
    shown = rules and [{n[0].upper() + n[1:]: rule.get(n) for n in names} for rule in rules]
    return {"Rules": shown}


def _check_modes(errs: Errors, spec: Obj, path: str) -> None:
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errs.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        _check_indexed(errs, spec, path)
    elif mode in (None, "NonIndexed"):
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                errs.invalid(f"{path}.{name}", spec[name], _INDEXED)
    if spec.get("podFailurePolicy") is not None:
        check_pod_failure_policy(errs, spec, f"{path}.podFailurePolicy")
    success = spec.get("successPolicy")
    if success is not None:
        if mode == "Indexed":
            check_success_policy(errs, spec, f"{path}.successPolicy")
        else:
            errs.invalid(f"{path}.successPolicy", _printed_success(success), _INDEXED)
    replacement = spec.get("podReplacementPolicy")
    if replacement is not None:
        allowed = ("Failed",) if spec.get("podFailurePolicy") else ("Failed", "TerminatingOrFailed")
        if replacement not in allowed:
            errs.not_supported(f"{path}.podReplacementPolicy", replacement, allowed)


def _check_restart(errs: Errors, spec: Obj, path: str) -> None:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy") or ""
    where = f"{path}.template.spec.restartPolicy"
    if policy in ("Always", ""):
        errs.required(where, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        errs.not_supported(where, policy, ("OnFailure", "Never"))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        errs.invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified')


def check_job_spec(errs: Errors, spec: Obj, path: str) -> None:
    """What jobs and the templates of cron jobs have in common."""
    _COUNTS(errs, spec, path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        why = "when maxFailedIndexes is specified"
        errs.required(f"{path}.backoffLimitPerIndex", why)
    manager = spec.get("managedBy")
    if manager is not None:
        check_domain_prefixed_path(errs, manager, f"{path}.managedBy")
        if len(manager) > 63:
            errs.too_long(f"{path}.managedBy", 63)
    _check_modes(errs, spec, path)
    check_pod_template(errs, spec.get("template") or {}, f"{path}.template")
    _check_restart(errs, spec, path)


def _check_full_spec(errs: Errors, spec: Obj) -> None:
    check_job_spec(errs, spec, "spec")
    selector = spec.get("selector")
    if selector is None:
        errs.required("spec.selector")
    else:
        check_selector(errs, selector, "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if well_formed(selector) and not matches(selector, labels):
        why = "`selector` does not match template `labels`"
        errs.invalid("spec.template.metadata.labels", labels, why)


def validate_job(errs: Errors, obj: Obj) -> None:
    _check_generated_selector(errs, obj)
    _check_full_spec(errs, obj.get("spec") or {})
    _check_name_fits(errs, obj)


def _check_completions(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("completions"), old.get("completions")
    if new.get("completionMode") != "Indexed":
        errs.immutable("spec.completions", after, before)
    elif after is not None and after != before and after != new.get("parallelism"):
        why = "can only be modified in tandem with spec.parallelism"
        errs.invalid("spec.completions", after, why)


def _suspended(job: Obj) -> bool:
    """A suspended job none of whose pods runs: its template may still be tuned."""
    if not (job.get("spec") or {}).get("suspend"):
        return False
    status = job.get("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == "Suspended" and condition.get("status") == "True":
            return int_of(status.get("active")) == 0
    return status.get("startTime") is None


def _tuned(new: Obj, old: Obj) -> Obj:
    """The old template with the scheduling directives of the new one."""
    spec, wanted = dict(old.get("spec") or {}), new.get("spec") or {}
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        spec[name] = wanted.get(name)
    affinity = dict(spec.get("affinity") or {})
    affinity["nodeAffinity"] = (wanted.get("affinity") or {}).get("nodeAffinity")
    spec["affinity"] = affinity if any(affinity.values()) else wanted.get("affinity")
    for kind in ("containers", "initContainers"):
        after, before = wanted.get(kind) or [], spec.get(kind) or []
        if len(after) == len(before):
            spec[kind] = [
                {**b, "resources": a.get("resources")} if a.get("name") == b.get("name") else b
                for a, b in zip(after, before, strict=True)
            ]
    return spec


def _check_template(errs: Errors, new: Obj, old: Obj) -> None:
    after = (new.get("spec") or {}).get("template") or {}
    before = (old.get("spec") or {}).get("template") or {}
    if same(after, before):
        return
    if not _suspended(old):
        meta = after.get("metadata") or {}
        shown = {**meta, "Spec": capitalised(after.get("spec") or {})}
        errs.invalid("spec.template", shown, "field is immutable")
    elif not same(after.get("spec"), _tuned(after, before)):
        shown = capitalised(after.get("spec") or {})
        errs.invalid("spec.template.spec", shown, "field is immutable")


def validate_job_update(errs: Errors, new: Obj, old: Obj) -> None:
    after, before = new.get("spec") or {}, old.get("spec") or {}
    _check_full_spec(errs, after)
    _check_completions(errs, after, before)
    errs.immutable("spec.selector", after.get("selector"), before.get("selector"))
    _check_template(errs, new, old)
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy",
                 "successPolicy"):  # fmt: skip
        if not same(after.get(name), before.get(name)):
            errs.invalid(f"spec.{name}", capitalised(after.get(name)), "field is immutable")
    _check_name_fits(errs, new)


def _check_schedule(errs: Errors, spec: Obj, old: Obj | None) -> None:
    text, path = spec.get("schedule") or "", "spec.schedule"
    if not text:
        return
    if why := schedule_error(text):
        errs.invalid(path, text, why)
    if "TZ" not in text:
        return
    if old is not None and "TZ" in (old.get("schedule") or ""):
        if spec.get("timeZone") is not None:
            errs.invalid(path, text, "cannot use both timeZone field and TZ or CRON_TZ in schedule")
    else:
        errs.invalid(path, text, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead")


def _check_zone(errs: Errors, zone: str | None) -> None:
    path = "spec.timeZone"
    if zone is None:
        return
    if not zone:
        errs.invalid(path, zone, "timeZone must be nil or non-empty string")
        return
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE_PART(part):
            errs.invalid(path, zone, f"unknown time zone {zone}")
            return
    if zone.lower() == "local":
        why = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errs.invalid(path, zone, why)
    if not known_zone(zone):
        errs.invalid(path, zone, f"unknown time zone {zone}")


def _check_cron(errs: Errors, spec: Obj, old: Obj | None) -> None:
    _check_schedule(errs, spec, old)
    _DEADLINE(errs, spec, "spec")
    if old is None or old.get("timeZone") != spec.get("timeZone"):
        _check_zone(errs, spec.get("timeZone"))
    policy = spec.get("concurrencyPolicy")
    errs.one_of("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    path = "spec.jobTemplate.spec"
    check_job_spec(errs, job, path)
    if job.get("selector") is not None:
        errs.invalid(f"{path}.selector", job["selector"], "`selector` will be auto-generated")
    if job.get("manualSelector"):
        errs.not_supported(f"{path}.manualSelector", True, ("nil", "false"))
    _HISTORY(errs, spec, "spec")


def _check_schedule_given(errs: Errors, spec: Obj) -> None:
    if not spec.get("schedule"):
        errs.required("spec.schedule")


def validate_cron_job(errs: Errors, obj: Obj) -> None:
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name") or ""
    _check_cron(errs, spec, None)
    if len(name) > 52:
        errs.invalid("metadata.name", name, "must be no more than 52 characters")
    _check_schedule_given(errs, spec)


def validate_cron_job_update(errs: Errors, new: Obj, old: Obj) -> None:
    spec = new.get("spec") or {}
    _check_cron(errs, spec, old.get("spec") or {})
    _check_schedule_given(errs, spec)


KINDS: Kinds = {
    ("batch", "Job"): Rules(validate_job, validate_job_update, validate_job_status),
    ("batch", "CronJob"): Rules(validate_cron_job, validate_cron_job_update),
}  # fmt: skip
