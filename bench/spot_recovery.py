"""Spot machines of this computer are killed again and again: how long until the job trains again.

One copy, so that nothing goes on meanwhile. Each kill is the power going, without notice; measured
is the time from there to the first step after the restore, and which part of it goes where:
`detect` until the operator's status says that the machine is gone, `decide` until another one is
wished, `create` until that is there, `ready` until its node is, `pod` until the copy's program
says its first word, `restore` until it has its weights back, `step` for its first step.
`ratio` is the 5 s that it may take over the median.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from common import arguments, report

from tests.backends import EmbeddedBackend
from tests.cluster.objects import Objects
from tests.cluster.spot_faults.journals import Start
from tests.cluster.spot_faults.spot_stage import API, Operator, SpotJobs, SpotRun
from tests.cluster.training.training_stage import install

TARGET = 5.0
PHASES = ("detect", "decide", "create", "ready", "pod", "restore", "step")
LOOK = 0.01


class Watcher:
    """When each thing was first seen to be true."""

    def __init__(self, checks: dict[str, Callable[[], bool]]) -> None:
        self.seen: dict[str, float] = {}
        self._checks = checks
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(LOOK):
            for name, check in self._checks.items():
                if name not in self.seen:
                    if not check():
                        break  # they come one after the other
                    self.seen[name] = time.time()


def recover(run: SpotRun, number: int) -> dict[str, float]:
    """Kill the machine; seconds of each phase."""
    run.running(0, after=number, steps=3)
    old = run.cloud.machine(run.name, 0)
    assert old is not None
    cluster = Objects(run.jobs.objects.backend)

    def placement(name: str = "") -> dict[str, Any] | None:
        for each in run.status().get("placements") or ():
            if each["instance"] == name if name else each["instance"] != old.name:
                if name or not each.get("endTime"):
                    return dict(each)
        return None

    def is_detected() -> bool:
        vm = run.jobs.objects.get(API, "spotinstancevms", "here")
        entries = (vm.get("status") or {}).get("provisionedInstances") or ()
        state = {each["name"]: each.get("state") for each in entries}.get(old.name)
        return state in (None, "TERMINATED") or bool((placement(old.name) or {}).get("endTime"))

    def is_ready() -> bool:
        new = run.cloud.machine(run.name, 0)
        node = cluster.find("v1", "nodes", new.name) if new is not None else None
        conditions = ((node or {}).get("status") or {}).get("conditions") or ()
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    checks: dict[str, Callable[[], bool]] = {
        "detect": is_detected,
        "decide": lambda: placement() is not None,
        "create": lambda: run.cloud.machine(run.name, 0) is not None,
        "ready": is_ready,
    }
    began = time.time()
    with Watcher(checks) as watcher:
        run.cloud.kill(old)
        start: Start = run.running(0, after=number + 1, steps=1)
    ends = [*(watcher.seen[name] for name in checks), start.began, start.restored_at]
    times = [began, *ends, start.step_times[0]]
    spent = {
        phase: max(end - begin, 0.0)
        for phase, (begin, end) in zip(PHASES, pairwise(times), strict=True)
    }
    return {**spent, "total": start.step_times[0] - began}


def measure(kills: int) -> list[dict[str, float]]:
    with tempfile.TemporaryDirectory(prefix="corral-recovery-") as name:
        folder = Path(name)
        folder.chmod(0o711)
        backend = EmbeddedBackend(folder / "cluster")
        operator = Operator(backend, folder)
        try:
            backend.start()
            install(backend)
            operator.start()
            (folder / "journals").mkdir(mode=0o711)
            jobs = SpotJobs(Objects(backend, "default"), operator, folder / "journals")
            run = jobs.create("recovery", replicas=1, steps=10**6)
            found = []
            for number in range(kills):
                found.append(recover(run, number))
                print(" ".join(f"{key} {value:.2f}" for key, value in found[-1].items()))
                sys.stdout.flush()
            jobs.close()
            return found
        finally:
            operator.stop()
            operator.end_machines()
            backend.stop()


def main() -> None:
    options = arguments(__doc__ or "")
    kills = options.repeats or (3 if options.quick else 15)
    found = measure(kills)
    totals = sorted(each["total"] for each in found)
    p50 = statistics.median(totals)
    report(
        {
            "name": "spot_recovery",
            "ratio": round(TARGET / p50, 3),
            "p50_s": round(p50, 3),
            "p90_s": round(totals[int(0.9 * (len(totals) - 1))], 3),
            "max_s": round(totals[-1], 3),
            "phases_s": {
                phase: round(statistics.median(each[phase] for each in found), 3)
                for phase in PHASES
            },
            "kills": kills,
        }
    )


if __name__ == "__main__":
    main()
