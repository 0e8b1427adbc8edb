"""Why a job waits, or why it failed, in plain words with what to do about it.

`explained` is a pure function of the evidence (`corral.client.explain.evidence`). It says
one thing first: what is wrong with the job itself, else the pod that matters most, else where it
stands. What the caller may not see is said too, so that nobody takes silence for health.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from corral.client.events import event_time
from corral.client.explain.causes import Cause, cause_of, ending
from corral.client.explain.evidence import Evidence
from corral.client.explain.podstates import PodSummary
from corral.client.explain.wording import listed, plural, role_words, span
from corral.client.phases import condition, is_true, section, status_of, text
from corral.client.summary import Diagnosis, diagnosis_of, summarized_progress, wants_suspension
from corral.client.times import parse_time
from corral.kube.printable import printable
from corral.kube.types import Obj

__all__ = ["Explanation", "explained"]

_MAX_REASONS: Final = 8
_UNSEEN_SECONDS: Final = 20
"""How long a controller may take before its silence is worth a word."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """One sentence, what it rests on, and what to do."""

    phase: str
    headline: str
    """``MPIJob pi waits for a node with enough free nvidia.com/gpu.``"""
    reasons: tuple[str, ...] = ()
    """What was seen, most important first."""
    hints: tuple[str, ...] = ()
    """Commands and changes that would help."""

    def as_object(self) -> Obj:
        return {
            "phase": self.phase,
            "headline": self.headline,
            "reasons": list(self.reasons),
            "hints": list(self.hints),
        }

    def __str__(self) -> str:
        lines = [self.headline]
        lines += [f"  - {reason}" for reason in self.reasons]
        lines += [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(map(printable, lines))


@dataclass(slots=True)
class _Account:
    """An explanation in the making."""

    seen: Evidence
    headline: str = ""
    reasons: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)

    @property
    def who(self) -> str:
        return f"{self.seen.kind.kind} {_name(self.seen.job)}"

    def tell(self, headline: str, reason: str = "", *hints: str) -> None:
        """The first headline stays; reasons and hints add up."""
        self.headline = self.headline or f"{self.who} {headline}."
        if reason:
            self.reasons.append(reason)
        self.hints += hints

    def finished(self) -> Explanation:
        seen = self.seen
        notes = [f"not everything could be seen: {said}" for said in seen.unread]
        reasons = list(dict.fromkeys(self.reasons))
        if len(reasons) > _MAX_REASONS:
            more = len(reasons) - _MAX_REASONS
            reasons = [*reasons[:_MAX_REASONS], f"… and {more} more of the kind"]
        named = f"{seen.kind.singular}/{_name(seen.job)}"
        hints = (hint.replace("JOB", named) for hint in self.hints)
        return Explanation(
            seen.kind.phase(seen.job),
            self.headline,
            (*reasons, *notes),
            tuple(dict.fromkeys(hints)),
        )


def explained(seen: Evidence) -> Explanation:
    """Put what was seen into words."""
    account = _Account(seen)
    _deletion(account)
    if seen.kind.finished(seen.job):
        _end(account)
    else:
        _validity(account)
        _management(account)
        _suspension(account)
        _attention(account)
        _nodes(account)
        _pods(account)
        _creation(account)
        _restart_delay(account)
        _standing(account)
    return account.finished()


# --- the job itself ------------------------------------------------------------------------------


def _deletion(account: _Account) -> None:
    metadata = section(account.seen.job, "metadata")
    if "deletionTimestamp" not in metadata:
        return
    held = metadata.get("finalizers") or ()
    waits = f"waits for {', '.join(map(str, held))}" if held else "is almost gone"
    account.tell("is being deleted", f"its deletion {waits}")
    if held and account.seen.operator == "away":
        account.tell("", "the operator that would finish this is not running", _START_OPERATOR)


_START_OPERATOR: Final = (
    "start the operator: `corral operator`, or look at `kubectl get pods -n corral-system`"
)


def _end(account: _Account) -> None:
    seen = account.seen
    kind, job = seen.kind, seen.job
    if kind.succeeded(job):
        phase = kind.phase(job).lower()
        verb = "is" if phase == "ready" else "has"
        account.tell(f"{verb} {phase}: it did what it should")
        return
    found = diagnosis_of(job)
    if found is not None:
        _diagnosed(account, found)
    failed = _first_true(job, "Failed")
    said = text(failed.get("message")) or kind.message(job)
    if failed.get("reason") in ("InvalidSpec", "ValidationError"):
        account.tell("was refused: its spec is wrong", said, "correct the spec and apply it again")
        return
    for pod, cause in _causes(seen):
        if cause.severity == 3 and (found is None or pod.name != found.pod):
            account.tell(f"failed: {_pod_name(pod)} {cause.short}", _line(pod, cause), *cause.hints)
    overall = ending(text(failed.get("reason")), None, None, message=said)
    account.tell(f"{kind.phase(job).lower()}: {said}" if said else "failed", said, *overall.hints)


def _diagnosed(account: _Account, found: Diagnosis) -> None:
    cause = ending(found.reason, found.exit_code, found.signal, message=found.message)
    who = role_words(found.role, found.index)
    where = f" on node {found.node}" if found.node else ""
    pod = f" (pod {found.pod})" if found.pod and found.pod != who else ""
    account.tell(f"failed: {who} {cause.short}", f"{who}{pod}{where} {cause.detail}", *cause.hints)
    if found.log_tail:
        last = found.log_tail.strip().splitlines()[-3:]
        account.reasons.append(f"it wrote last: {' | '.join(line.strip() for line in last)}")


def _validity(account: _Account) -> None:
    valid = condition(account.seen.job, "Valid")
    if valid is not None and valid.get("status") == "False":
        said = text(valid.get("message"))
        account.tell("cannot begin: its spec is wrong", said, "correct the spec and apply it again")


def _management(account: _Account) -> None:
    policy = section(section(account.seen.job, "spec"), "runPolicy")
    manager = text(policy.get("managedBy"))
    if manager and manager != "kubeflow.org/mpi-operator":
        account.tell(f"is left to {manager}", "spec.runPolicy.managedBy names another controller")


def _suspension(account: _Account) -> None:
    seen = account.seen
    if not wants_suspension(seen.kind, seen.job):
        return
    labels = section(section(seen.job, "metadata"), "labels")
    queue = next((text(labels[name]) for name in _QUEUES if text(labels.get(name))), "")
    queue = queue or text(section(section(seen.job, "spec"), "scheduling").get("queue"))
    if queue:
        account.tell(
            f"waits for its turn in queue {queue}",
            "it is suspended until the queue has room for all of it",
            "resume it yourself to pass the queue by: `corral resume JOB`",
        )
        return
    account.tell("is suspended", "spec.runPolicy.suspend is set", "`corral resume JOB` lets it run")


_QUEUES: Final = ("corral.dev/queue-name", "kueue.x-k8s.io/queue-name")


def _attention(account: _Account) -> None:
    """Has a controller looked at it?"""
    seen = account.seen
    if status_of(seen.job) and not _stale(seen.job):
        if seen.operator == "away":
            account.reasons.append(f"{_AWAY}, so nothing changes until it is back")
            account.hints.append(_START_OPERATOR)
        return
    age = _age(seen)
    if seen.operator == "away":
        account.tell("waits for the operator, which is not running", _AWAY, _START_OPERATOR)
    elif age is not None and age >= _UNSEEN_SECONDS:
        what = "its last change" if status_of(seen.job) else "it"
        reason = f"no controller has looked at {what} in {span(age)}"
        account.tell("waits for its controller", reason, _START_OPERATOR)
    elif not status_of(seen.job):
        account.tell("was just created", "its controller has yet to look at it")


_AWAY: Final = "the lease of the operator has run out"


def _stale(job: Obj) -> bool:
    observed = status_of(job).get("observedGeneration")
    generation = section(job, "metadata").get("generation")
    return isinstance(observed, int) and isinstance(generation, int) and observed < generation


def _age(seen: Evidence) -> float | None:
    created = parse_time(section(seen.job, "metadata").get("creationTimestamp"))
    if created is None or seen.now is None:
        return None
    return (seen.now - created).total_seconds()


# --- its pods ------------------------------------------------------------------------------------


def _nodes(account: _Account) -> None:
    for node, state in account.seen.lost_nodes.items():
        there = [pod.name for pod in account.seen.pods if pod.node == node]
        account.tell(
            f"waits: node {node} {state}",
            f"node {node} {state}; pods on it: {', '.join(there)}",
            f"if it is off for good, say so: `kubectl taint node {node} "
            "node.kubernetes.io/out-of-service=off:NoExecute`"
            if state != "is gone"
            else "its pods are made anew elsewhere as soon as this is noticed",
        )


def _causes(seen: Evidence) -> list[tuple[PodSummary, Cause]]:
    """What is the matter with which pod, the worst first."""
    found = [(pod, cause) for pod in seen.pods if (cause := cause_of(pod)) is not None]
    return sorted(found, key=lambda entry: (-entry[1].severity, entry[0].order))


def _pods(account: _Account) -> None:
    alike: dict[str, list[PodSummary]] = {}
    causes: dict[str, Cause] = {}
    for pod, cause in _causes(account.seen):
        alike.setdefault(cause.detail, []).append(pod)
        causes.setdefault(cause.detail, cause)
    for detail, pods in alike.items():
        cause = causes[detail]
        who = _pod_name(pods[0]) if len(pods) == 1 else f"{len(pods)} pods"
        verb = "has a pod that" if cause.severity == 3 else ""
        headline = cause.short if not verb and len(pods) == len(account.seen.pods) else ""
        headline = headline or f"waits: {who} {plural(cause.short, len(pods))}"
        names = listed([pod.name for pod in pods])
        account.tell(headline, f"{names} {plural(detail, len(pods))}", *cause.hints)


_REFUSED: Final = ("FailedCreate", "QuotaExceeded", "MPIJobFailed", "ErrResourceExists")


def _creation(account: _Account) -> None:
    """Pods that could not even be made, and other warnings of controllers."""
    seen = account.seen
    running = condition(seen.job, "Running") or {}
    said = text(running.get("message"))
    if running.get("status") == "False" and running.get("reason") == "QuotaExceeded":
        _quota(account, said)
    for event in list(_warnings(seen))[:3]:
        message, reason = text(event.get("message")), text(event.get("reason"))
        involved = section(event, "involvedObject")
        about = f"{text(involved.get('kind'))} {text(involved.get('name'))}"
        if "exceeded quota" in message:
            _quota(account, message)
        elif reason in _REFUSED:
            account.tell("waits: its objects cannot be made", f"{about}: {message}")
        elif not account.reasons:
            account.reasons.append(f"{about}: {reason}: {message}")


def _quota(account: _Account, said: str) -> None:
    namespace = text(section(account.seen.job, "metadata").get("namespace"))
    account.tell(
        "waits for room in the quota of its namespace",
        said,
        f"`kubectl describe quota -n {namespace}` shows what is used; ask for less, or wait",
    )


def _warnings(seen: Evidence) -> Iterator[Obj]:
    """The newest of each kind, newest first, of the present run only."""
    began = parse_time(status_of(seen.job).get("startTime"))
    told: set[tuple[str, str]] = set()
    for event in reversed(seen.events):
        key = text(event.get("reason")), text(section(event, "involvedObject").get("kind"))
        if event.get("type") != "Warning" or key in told or key[0] in _TOLD_BY_PODS:
            continue
        if began is not None and event_time(event) < began and key[0] not in _REFUSED:
            continue
        told.add(key)
        yield event


_TOLD_BY_PODS: Final = ("FailedScheduling", "BackOff", "Failed")
"""Pods say the same themselves, and whether it still holds."""


def _restart_delay(account: _Account) -> None:
    seen = account.seen
    found = diagnosis_of(seen.job)
    if seen.kind.phase(seen.job) == "Restarting" or (found and found.exit_code is not None):
        if found is not None:
            cause = ending(found.reason, found.exit_code, found.signal, message=found.message)
            who = role_words(found.role, found.index)
            account.reasons.append(f"{who} ({found.pod}) {cause.detail}")
            account.hints += cause.hints
        after = parse_time(status_of(seen.job).get("nextAttemptTime"))
        if after is not None and seen.now is not None and after > seen.now:
            seconds = (after - seen.now).total_seconds()
            account.tell("waits before it is restarted", f"the next attempt is in {span(seconds)}")
        elif seen.kind.phase(seen.job) == "Restarting":
            account.tell("is being restarted after a failure")


def _standing(account: _Account) -> None:
    """Nothing is wrong: say where it stands."""
    seen = account.seen
    kind, job = seen.kind, seen.job
    phase = kind.phase(job)
    said = kind.message(job)
    running = condition(job, "Running") or {}
    if phase in ("Pending", "Created") and running.get("status") == "False":
        said = text(running.get("message")) or said
    progress = summarized_progress(job)
    if progress:
        account.reasons.append(progress)
    if seen.pods:
        ready = sum(pod.phase == "Running" for pod in seen.pods)
        account.reasons.append(f"{ready} of its {len(seen.pods)} pods run")
    words = {
        "Running": "is running",
        "Pending": "waits for its pods",
        "Created": "waits for its pods",
    }
    if kind.pod_selector is None and phase == "Pending":
        words = {"Pending": "waits for its controller"}
    told = bool(account.headline)
    account.tell(words.get(phase, f"is {phase.lower()}"), "" if told else said)


# --- words ---------------------------------------------------------------------------------------


def _first_true(job: Obj, *types: str) -> Obj:
    return next((condition(job, t) or {} for t in types if is_true(job, t)), {})


def _name(obj: Obj) -> str:
    return text(section(obj, "metadata").get("name"))


def _pod_name(pod: PodSummary) -> str:
    return role_words(pod.role.name, pod.role.index)


def _line(pod: PodSummary, cause: Cause) -> str:
    where = f" on node {pod.node}" if pod.node else ""
    return f"{pod.name}{where} {cause.detail}"
