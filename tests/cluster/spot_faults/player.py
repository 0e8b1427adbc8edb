"""Plays a schedule against a job that runs."""

from __future__ import annotations

import time

from corral.clouds.local import Fault
from tests.cluster.spot_faults.schedules import Act, Blow
from tests.cluster.spot_faults.spot_cloud import kill_program
from tests.cluster.spot_faults.spot_stage import SpotRun

__all__ = ["play"]

FAULTS = {
    "refuse": Fault(operation="create", zone="local-a", error="StockOut", code="NO_ROOM"),
    "lose create": Fault(operation="create", lose=True),
    "slow create": Fault(operation="create", delay_s=1.0),
    "lose delete": Fault(operation="delete", lose=True),
    "slow delete": Fault(operation="delete", delay_s=1.0),
}


def play(run: SpotRun, blows: list[Blow]) -> None:
    """Do all of it; what comes too late for the job, comes not at all."""
    for blow in blows:
        run.wait(lambda at=blow.at: run.is_done or run.progress() >= at)
        for act in blow.acts:
            until = time.monotonic() + act.after
            run.wait(lambda until=until: run.is_done or time.monotonic() >= until)
            if run.is_done:
                return
            _do(run, act)


def _do(run: SpotRun, act: Act) -> None:
    machine = run.cloud.machine(run.name, act.replica)
    match act.kind:
        case "kill" if machine is not None:
            run.cloud.kill(machine)
        case "kill all":
            for each in run.cloud.machines(run.name):
                run.cloud.kill(each)
        case "notice" if machine is not None:
            run.cloud.preempt(machine, notice_s=act.notice)
        case "agent" if machine is not None:
            run.cloud.crash_agent(machine)
        case "program":
            for start in run.starts():
                if start.replica == act.replica:
                    kill_program(run.uid, start.pod)
        case "operator":
            run.operator.kill()
            run.operator.spawn()
        case kind if kind in FAULTS:
            run.cloud.plan(FAULTS[kind])
        case _:
            return  # there is no machine that it could happen to
