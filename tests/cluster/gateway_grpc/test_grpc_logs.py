"""Logs of a training that really runs: the same bytes as over REST, and a place to go on from."""

from __future__ import annotations

from datetime import UTC, datetime

from corral.v1 import jobs_pb2 as pb
from corral.v1 import training_job_pb2 as training
from tests.cluster.gateway_grpc.both_views import Views
from tests.cluster.objects import Objects, eventually
from tests.cluster.trainingjob.operating import Jobs, Operator

COUNT = 500


def test_logs_are_whole_the_same_and_can_be_gone_on_with(
    admin: Views, objects: Objects, namespace: str, kubeconfig: str, operator: Operator
) -> None:
    jobs = Jobs(objects, kubeconfig)
    script = f"i=0; while [ $i -lt {COUNT} ]; do echo $REPLICA_ID line $i; i=$((i+1)); done"
    jobs.create("talks", script, replicas=2)
    request = training.GetTrainingJobLogsRequest(namespace=namespace, name="talks", follow=True)
    followed = list(admin.ask(admin.training.GetTrainingJobLogs, request))
    assert jobs.phase("talks", "Succeeded")
    for index in range(2):
        own = b"".join(answer.data for answer in followed if answer.index == index)
        assert [line.split()[-1] for line in own.splitlines()] == [
            b"%d" % at for at in range(COUNT)
        ]
    # Pods of this very second count as made after the question: all of their lines are given.
    made = max(pod["metadata"]["creationTimestamp"] for pod in jobs.pods("talks"))
    eventually(lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}" > made)
    one = pb.GetLogsRequest(
        kind="tj", namespace=namespace, name="talks", role="replica", index=1, tail_lines=7
    )
    lines = b"".join(answer.data for answer in admin.ask(admin.any.GetLogs, one))
    path = f"/namespaces/{namespace}/trainingjobs/talks/logs?role=replica&index=1&tailLines=7"
    assert lines == admin.rest("GET", path).body
    assert lines.count(b"\n") == 7
    middle = followed[len(followed) // 2]
    request.position = middle.position
    rest = list(admin.ask(admin.training.GetTrainingJobLogs, request))
    before = followed[: len(followed) // 2 + 1]
    for index in range(2):
        whole = b"".join(a.data for a in (*before, *rest) if a.index == index)
        assert whole.count(b"\n") == COUNT
