"""Area 2, slots: how many processes there is room for, and on how many workers."""

from __future__ import annotations

from itertools import pairwise

from corral.api.mpi import rules
from corral.api.mpi.spec import LAUNCHER, WORKER
from corral.api.mpi.template import Container
from corral.families.mpijob.validation.findings import (
    Findings,
    PlacedContainer,
    Subject,
    advice,
    errors,
    policy,
)
from corral.families.mpijob.validation.formats import amount
from corral.families.mpijob.validation.resources import is_extended
from corral.kube.problems import invalid_value

__all__ = ["check"]

_PATH = "spec.slotsPerWorker"
_COUNT_FLAGS = ("-n", "-np", "--n", "--np")


def check(subject: Subject) -> Findings:
    yield from errors(
        problem
        for problem in rules.replica_problems(subject.spec)
        if problem.field.endswith(".replicas")
    )
    yield from errors(rules.slots_problems(subject.spec))
    slots = subject.spec.slots_per_worker
    if slots is None or slots < 0:
        return
    if slots == 0:
        yield advice(_PATH, "0 leaves no room for a process on any worker")
    elif first := _first(subject, WORKER):
        yield from _fitting(slots, first.container)
    yield from _launched(subject, slots)


def _first(subject: Subject, role: str) -> PlacedContainer | None:
    pod = subject.pod(role)
    return next(iter(pod.containers), None) if pod is not None else None


def _fitting(slots: int, worker: Container) -> Findings:
    limits = (worker.resources.limits if worker.resources is not None else None) or {}
    cpu = amount(limits.get("cpu"))
    if cpu is not None and cpu.milli() < slots * 1000:
        why = f"must not exceed the cpu limit of a worker, {cpu}"
        yield policy(invalid_value(_PATH, slots, why))
    for name, text in limits.items():
        devices = amount(text)
        if is_extended(name) and "gpu" in name and devices and devices.to_int() != slots:
            yield advice(_PATH, f"{slots} processes share {devices} {name} of a worker")


def _launched(subject: Subject, slots: int) -> Findings:
    """The launcher's command asks for no more processes than there is room for."""
    first = _first(subject, LAUNCHER)
    if first is None or (subject.spec.worker is not None and subject.spec.workers <= 0):
        return
    hosts = subject.spec.workers + int(subject.spec.run_launcher_as_worker)
    for name in ("command", "args"):
        words: list[str] = getattr(first.container, name) or []
        asked = _asked(words)
        if asked is not None and asked > hosts * slots:
            text = f"{asked} processes are asked for, and there is room for {hosts * slots}"
            yield advice(f"{first.path}.{name}", text)


def _asked(words: list[str]) -> int | None:
    """The number of processes in a command line of mpirun."""
    for flag, value in pairwise(words):
        if flag in _COUNT_FLAGS and value.isascii() and value.isdigit():
            return int(value[:9])
    return None
