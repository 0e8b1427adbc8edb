"""Which pod a failure of an MPIJob is due to, and why: ``status.failure``. No I/O.

A launcher fails whenever anything does, so its own end explains little. A worker that has died, or
whose container was restarted while the launcher ran, is the cause; without one it is the pod of the
process that the launcher's log names; else the launcher.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from corral.api.mpi.kinds import LAUNCHER, WORKER
from corral.families.mpijob import names
from corral.kube.types import Obj
from corral.runtime.pods.failures import (
    exit_of,
    failed_container,
    first_container,
    pod_failure,
    shortened,
)
from corral.runtime.pods.states import moment

__all__ = [
    "REASON_PROCESS",
    "Blame",
    "Trouble",
    "blamed",
    "describe",
    "is_evicted",
    "is_failed",
    "launcher_trouble",
    "named_failure",
    "worker_trouble",
]

REASON_PROCESS: Final = "ProcessFailed"
"""A process on a worker failed, and the worker itself did not."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A pod that explains a failure."""

    pod: Obj
    failure: Obj
    """``status.failure``, without the end of a log."""
    container: str
    previous: bool = False
    """Whether what failed is the container's life before the present one."""


def is_failed(pod: Obj) -> bool:
    return (pod.get("status") or {}).get("phase") == "Failed"


def is_evicted(pod: Obj) -> bool:
    return is_failed(pod) and (pod.get("status") or {}).get("reason") == "Evicted"


# --- pods ----------------------------------------------------------------------------------------


def worker_trouble(job: str, workers: Iterable[Obj], *, since: float = 0.0) -> Trouble | None:
    """The worker that died first; else one whose container ended after ``since``."""
    pods = list(workers)
    dead = [pod for pod in pods if is_failed(pod)]
    if dead:
        return _ended(job, min(dead, key=_end_rank))
    again = [
        (moment(end.get("finishedAt")) or 0.0, pod, name, end)
        for pod in pods
        for name, end, _ in _restarted(pod)
    ]
    late = [found for found in again if found[0] >= since]
    if not late:
        return None
    _, pod, name, end = min(late, key=lambda found: found[0])
    return _restart(job, pod, name, end)


def launcher_trouble(job: str, pods: Iterable[Obj]) -> Trouble | None:
    """The last failure of a launcher's pod."""
    known = list(pods)
    failed = [pod for pod in known if is_failed(pod)]
    if failed:
        return _ended(job, max(failed, key=lambda pod: pod["metadata"]["creationTimestamp"]))
    for pod in known:
        for name, end, _ in _restarted(pod):
            return _restart(job, pod, name, end)
    return None


def _ended(job: str, pod: Obj) -> Trouble:
    container = failed_container(pod)[0] or first_container(pod)
    return Trouble(pod, {**pod_failure(pod), **_identity(job, pod)}, container)


def _restart(job: str, pod: Obj, container: str, end: Obj) -> Trouble:
    out: Obj = {**_identity(job, pod), "reason": str(end.get("reason") or "Error")}
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        out["node"] = node
    out |= exit_of(end)
    count = max(found for name, _, found in _restarted(pod) if name == container)
    said = str(end.get("message") or "").strip()
    out["message"] = shortened(f"container {container} has ended {count} times{_after(said)}")
    return Trouble(pod, out, container, previous=True)


def _after(text: str) -> str:
    return f": {text}" if text else ""


def _identity(job: str, pod: Obj) -> Obj:
    name = pod["metadata"]["name"]
    index = names.worker_index(job, name)
    out: Obj = {"replica": LAUNCHER if index is None else WORKER, "pod": name}
    return out if index is None else {**out, "index": index}


def _restarted(pod: Obj) -> Iterator[tuple[str, Obj, int]]:
    """Name, last end and number of ends of containers that failed and were started again."""
    for container in (pod.get("status") or {}).get("containerStatuses") or ():
        end = (container.get("lastState") or {}).get("terminated") or {}
        if end.get("exitCode"):
            yield str(container.get("name", "")), end, int(container.get("restartCount") or 1)


def _end_rank(pod: Obj) -> tuple[float, bool]:
    """The first to end; what the kernel ended where they ended at once."""
    end = failed_container(pod)[1]
    return moment(end.get("finishedAt")) or math.inf, end.get("reason") != "OOMKilled"


# --- what the launcher's log says ----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Blame:
    """The process that an MPI's own words name."""

    pod: str
    line: str
    rank: int | None = None
    exit_code: int | None = None
    signal: int | None = None


_RANK = re.compile(r"\brank[ :]*(\d+)|\[[^\[\]\s]*,(\d+)\]\s*$", re.IGNORECASE)
_CODE = re.compile(r"(?:exit(?:ed)?(?: with)?(?: a)?(?: non-zero)? ?(?:code|status)|error ?code)"
                   r"[ :]*(-?\d+)", re.IGNORECASE)  # fmt: skip
_SIGNAL = re.compile(r"\bsignal[ :]+(\d+)", re.IGNORECASE)
_FAILURE = re.compile(
    r"exited|exit code|terminat|abort|killed|signal|running at|lost|failed|invoked|errorcode"
    r"|unreachable|corral rsh",
    re.IGNORECASE,
)  # fmt: skip
_LONGEST: Final = 2000
"""Characters of a line that are read: an MPI's own have fewer, a program's may have millions."""
_NEAR: Final = 6
"""Lines around the one that names a pod that are about the same process."""


def blamed(job: str, lines: Sequence[str]) -> Blame | None:
    """The worker that the last lines of a launcher name as the one where a process failed."""
    lines = [line[:_LONGEST] for line in lines]
    host = re.compile(rf"(?<![\w.-])({re.escape(job)}-worker-\d+)(?![\w-])")
    for number, line in enumerate(lines):
        found = host.search(line)
        if found is None:
            continue
        near = lines[max(0, number - _NEAR) : number + _NEAR + 1]
        if not any(_FAILURE.search(text) for text in near):
            continue
        if not _FAILURE.search(line) and not _is_labelled(line):
            continue
        # The words on the line itself come first: others may be about another process.
        order = [line, *lines[number + 1 : number + _NEAR + 1], *lines[:number][-_NEAR:][::-1]]
        return Blame(
            found[1],
            line.strip(" =\t-"),
            rank=_number(_RANK, order),
            exit_code=_number(_CODE, order),
            signal=_number(_SIGNAL, order),
        )
    return None


def _is_labelled(line: str) -> bool:
    """``Node: name`` and the like, in the tables that Open MPI writes."""
    return bool(re.match(r"\s*(local |remote )?(host|node)(name)?\s*[:=]", line, re.IGNORECASE))


def _number(pattern: re.Pattern[str], lines: Iterable[str]) -> int | None:
    for line in lines:
        found = pattern.search(line)
        if found is not None:
            return int(next(group for group in found.groups() if group is not None))
    return None


def named_failure(job: str, blame: Blame, workers: Iterable[Obj], launcher: Obj) -> Obj:
    """``status.failure`` for the worker that a log names; ``launcher`` is the launcher's."""
    pod = next((pod for pod in workers if pod["metadata"]["name"] == blame.pod), None)
    node = ((pod or {}).get("spec") or {}).get("nodeName")
    index = names.worker_index(job, blame.pod)
    out: Obj = {"replica": WORKER, "index": index, "pod": blame.pod, "reason": REASON_PROCESS}
    if node:
        out["node"] = node
    if blame.signal is not None:
        out |= {"signal": blame.signal, "exitCode": 128 + blame.signal}
    code = blame.exit_code if blame.exit_code is not None else launcher.get("exitCode")
    if code is not None:
        out["exitCode"] = code
    rank = f"rank {blame.rank}: " if blame.rank is not None else ""
    return {**out, "message": shortened(f"{rank}{blame.line}")}


def describe(failure: Obj) -> str:
    """In one line: ``pod foo-worker-1 failed (OOMKilled, exit code 137) on node a``."""
    facts = [str(failure.get("reason") or "")]
    if failure.get("exitCode") is not None:
        facts.append(f"exit code {failure['exitCode']}")
    where = f" on node {failure['node']}" if failure.get("node") else ""
    known = ", ".join(filter(None, facts))
    return f"pod {failure.get('pod')} failed ({known}){where}"
