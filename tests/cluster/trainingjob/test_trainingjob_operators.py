"""Operators die and are started anew: jobs go on as if nothing had happened."""

from __future__ import annotations

from tests.cluster.objects import eventually
from tests.cluster.trainingjob.operating import Jobs, Operator


def test_operator_that_dies_between_steps(orphans: Jobs) -> None:
    operator = Operator(orphans.kubeconfig)
    script = "[ $CORRAL_REPLICA = 1 ] && [ $CORRAL_REPLICA_ATTEMPT = 1 ] && exit 3; sleep 2"
    orphans.create("steady", script, replicas=3)
    for _ in range(6):
        operator.start()
        changed = orphans.find("steady")
        assert changed is not None
        version = changed["metadata"]["resourceVersion"]
        if (changed.get("status") or {}).get("completionTime"):
            operator.kill()
            break
        eventually(
            lambda version=version: orphans.get("steady")["metadata"]["resourceVersion"] != version
        )
        operator.kill()
    operator.start()
    try:
        status = orphans.phase("steady", "Succeeded")
    finally:
        operator.kill()
    assert status["replicas"]["restarts"] <= 1
    assert status["replicas"]["succeeded"] == 3


def test_nothing_is_missed_while_no_operator_runs(orphans: Jobs) -> None:
    operator = Operator(orphans.kubeconfig).start()
    orphans.create("alone", "sleep 1", replicas=2)
    orphans.running("alone")
    operator.kill()
    eventually(lambda: {p["status"]["phase"] for p in orphans.pods("alone")} == {"Succeeded"})
    assert orphans.get("alone")["status"]["phase"] == "Running"
    operator.start()
    try:
        assert orphans.phase("alone", "Succeeded")["attempt"] == 1
    finally:
        operator.kill()
