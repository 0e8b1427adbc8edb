"""What keeps a pod from running or ended it, in plain words, and what helps. Pure functions.

A cause is a sentence without a subject that fits after the name of a pod, and hints. Words of the
scheduler and of the node are kept: they have the figures.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from corral.client.explain.podstates import PodSummary

__all__ = ["Cause", "cause_of", "ending", "signal_name"]


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a pod does not run, or no longer does."""

    short: str
    """For a headline: ``waits for a node with enough nvidia.com/gpu``."""
    detail: str
    """With everything that was said."""
    hints: tuple[str, ...] = ()
    severity: int = 1
    """What is said first: 3 ended, 2 cannot start, 1 waits, 0 is only on its way."""


_SIGNALS: Final = {
    1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE",
    9: "SIGKILL", 10: "SIGUSR1", 11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM",
    15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
}  # fmt: skip


def signal_name(number: int) -> str:
    return _SIGNALS.get(number, f"signal {number}")


def cause_of(pod: PodSummary) -> Cause | None:
    """What is the matter with a pod; none where nothing is."""
    if pod.phase == "Succeeded":
        return None
    waiting = _WAITS.get(pod.reason)
    if waiting is not None:
        return waiting(pod)
    if pod.phase == "Failed" or pod.exit_code:
        return ending(pod.reason, pod.exit_code, pod.signal, message=pod.message)
    if pod.reason == "Unschedulable":
        return _unschedulable(pod)
    if pod.reason == "SchedulingGated":
        return Cause("is held back by a scheduling gate", _said("is held back", pod.message))
    if pod.phase == "Pending":
        return _on_its_way(pod)
    return None


def _on_its_way(pod: PodSummary) -> Cause:
    if not pod.node:
        return Cause(
            "waits for the scheduler",
            "has no node yet, and the scheduler has not said why",
            ("is a scheduler running? `kubectl get pods -n kube-system` shows it in a cluster",),
            severity=0,
        )
    return Cause("is starting", f"is being started on node {pod.node}", severity=0)


# --- no node -------------------------------------------------------------------------------------

_SHORT: Final = re.compile(r"Insufficient ([A-Za-z0-9./_-]+)")
_TAINT: Final = re.compile(r"untolerated taint\(?s?\)? \{([^}]*)\}")


def _unschedulable(pod: PodSummary) -> Cause:
    reported = pod.message.strip()
    short, hints = "waits for a node", []
    lacking = list(dict.fromkeys(_SHORT.findall(reported)))
    lacking = [name.rstrip(".,") for name in lacking]
    if lacking:
        short = f"waits for a node with enough free {' and '.join(lacking)}"
        hints += [_resource_hint(name) for name in lacking]
    if taint := _TAINT.search(reported):
        hints.append(f"add a toleration for the taint {taint.group(1)}, or remove it from the node")
    for words, hint in _PLACEMENT:
        if words in reported:
            hints.append(hint)
    if "no nodes available" in reported:
        short, hints = "waits for a node: the cluster has none", ["add a node: `corral node`"]
    if not hints:
        hints.append("`kubectl get nodes` shows the nodes, `kubectl describe node` what is free")
    return Cause(short, _said("has no node", reported), tuple(dict.fromkeys(hints)))


_PLACEMENT: Final = (
    ("node affinity/selector", "no node has the labels it asks for: compare its nodeSelector and "
     "affinity with `kubectl get nodes --show-labels`"),
    ("unschedulable", "nodes are cordoned: `kubectl uncordon NODE` lets pods onto one again"),
    ("Too many pods", "nodes have as many pods as they take: remove some, or add a node"),
    ("persistentvolumeclaim", "its volume is missing: look at `kubectl get pvc`"),
    ("PersistentVolumeClaims", "its volume is not there yet: look at `kubectl describe pvc`"),
    ("pod group", "all pods of the job are placed together or not at all: ask for fewer, or wait"),
    ("free ports", "another pod has the host port it asks for: leave hostPort out"),
)  # fmt: skip


def _resource_hint(name: str) -> str:
    if name in ("cpu", "memory", "ephemeral-storage"):
        return f"ask for less {name}, add a node, or wait until other pods end"
    return f"ask for less {name}; `kubectl describe nodes | grep {name}` shows what nodes have"


# --- cannot start --------------------------------------------------------------------------------


def _wait(short: str, *hints: str) -> Callable[[PodSummary], Cause]:
    def make(pod: PodSummary) -> Cause:
        return Cause(short, _said(f"{short} ({pod.reason})", pod.message), hints, severity=2)

    return make


def _crash_loop(pod: PodSummary) -> Cause:
    ended = ending("", pod.exit_code, pod.signal, message="")
    often = f"{pod.restarts} times" if pod.restarts else "again and again"
    return Cause(
        "fails again and again after it was started",
        _said(f"was restarted {often}; it {ended.short}", pod.message),
        ("read what it wrote before: `corral logs JOB --previous`", *ended.hints),
        severity=2,
    )


_image = _wait(
    "cannot get its image",
    "check the name of the image and its tag",
    "if the registry wants a login, name the secret in imagePullSecrets",
)
_config = _wait(
    "cannot be set up",
    "a ConfigMap, a Secret or a key that it refers to is missing: the message names it",
)
_start = _wait(
    "cannot be started",
    "check command, args and workingDir: the program must exist where the pod runs",
)
_WAITS: Final[dict[str, Callable[[PodSummary], Cause]]] = {
    "ImagePullBackOff": _image,
    "ErrImagePull": _image,
    "ErrImageNeverPull": _wait(
        "cannot get its image",
        "nodes that run processes know only the images of their map: use one of those, or add this "
        "one to the map (docs/node.md)",
    ),
    "ImageInspectError": _image,
    "RegistryUnavailable": _image,
    "InvalidImageName": _wait("has an image name that is none", "correct the image of the job"),
    "CreateContainerConfigError": _config,
    "CreateContainerError": _start,
    "RunContainerError": _start,
    "StartError": _start,
    "ContainerCannotRun": _start,
    "CrashLoopBackOff": _crash_loop,
}


# --- ended ---------------------------------------------------------------------------------------


def ending(reason: str, exit_code: int | None, signal: int | None, *, message: str = "") -> Cause:
    """How a pod or a job ended, from what its container left behind."""
    known = _ENDS.get(reason)
    if known is not None:
        short, hints = known
        return Cause(short, _said(_with_code(short, exit_code), message), hints, severity=3)
    if exit_code is not None and exit_code in _CODES:
        short, hints = _CODES[exit_code]
        return Cause(short, _said(_with_code(short, exit_code), message), hints, severity=3)
    if signal:
        short = f"was ended by {signal_name(signal)}"
        return Cause(short, _said(_with_code(short, exit_code), message), _BY_SIGNAL, severity=3)
    short = f"failed with exit code {exit_code}" if exit_code is not None else "failed"
    short = f"{short} ({reason})" if reason and reason != "Error" else short
    return Cause(short, _said(short, message), _LOOK, severity=3)


def _with_code(short: str, exit_code: int | None) -> str:
    return f"{short} (exit code {exit_code})" if exit_code else short


_LOOK: Final = ("read what it wrote: `corral logs JOB`",)
_BY_SIGNAL: Final = ("read what it wrote last: `corral logs JOB`",)
_AGAIN: Final = ("nothing is wrong with the program: `corral restart JOB` runs it again",)
_ENDS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "OOMKilled": (
        "used more memory than its limit and was killed",
        ("raise resources.limits.memory, or use smaller batches",),
    ),
    "Evicted": (
        "was evicted from its node",
        ("the node ran out of something: set requests to what the job really uses", *_AGAIN),
    ),
    "DeadlineExceeded": (
        "ran longer than it may",
        ("raise activeDeadlineSeconds, or make it faster",),
    ),
    "NodeLost": ("was lost with its node", _AGAIN),
    "PodLost": ("was deleted, or lost with its node", _AGAIN),
    "NodeShutdown": ("ended when its node was shut down", _AGAIN),
    "Terminated": ("ended when its node was shut down", _AGAIN),
    "Preempting": (
        "had to make room for a pod of higher priority",
        ("give the job a higher priority class, or wait for a quieter time",),
    ),
    "UnexpectedAdmissionError": ("was not taken by its node", _AGAIN),
    "StartError": ("could not be started", ("check command, args and workingDir",)),
    "ContainerCannotRun": ("could not be started", ("check command, args and workingDir",)),
    "MPIJobEvicted": ("lost workers by eviction", _AGAIN),
    "BackoffLimitExceeded": (
        "failed more often than it may",
        ("read what it wrote: `corral logs JOB`", "raise backoffLimit if failures are expected"),
    ),
    "DisruptionLimitExceeded": (
        "lost its pods again and again",
        ("look at the nodes: `kubectl get nodes`, `kubectl get events`",),
    ),
}
_CODES: Final[dict[int, tuple[str, tuple[str, ...]]]] = {
    126: (
        "has a command that may not be run",
        ("make the program executable, or start it with its interpreter",),
    ),
    127: (
        "has a command that was not found",
        ("check the command and PATH: is the program where the pod runs?",),
    ),
    137: (
        "was killed (SIGKILL)",
        ("often memory: raise resources.limits.memory; else the node or a person killed it",),
    ),
    139: ("crashed (SIGSEGV)", ("native code failed: check the versions of its libraries",)),
    143: (
        "was asked to end (SIGTERM)",
        ("its node or a person ended it: `corral restart JOB` runs it again",),
    ),
}


def _said(sentence: str, message: str) -> str:
    text = " ".join(message.split())
    return f"{sentence}: {text}" if text else sentence
