"""The metrics of federated jobs over gRPC: what REST answers, member by member."""

from __future__ import annotations

import grpc
import pytest
from google.protobuf.message import Message

from corral.client.learning import learned
from corral.gateway.grpc.messages import read_message, write_message
from corral.v1 import federated_job_pb2 as federated
from corral.v1 import jobs_pb2 as pb
from corral.v1 import model_checkpoint_pb2, training_round_pb2, wasm_task_pb2
from corral.v1.federated_job_pb2_grpc import FederatedJobServiceStub
from corral.v1.jobs_pb2_grpc import JobServiceStub
from tests.unit.client.learning_objects import (
    federated_job,
    job_status,
    round_status,
    training_round,
)
from tests.unit.gateway_grpc import grpc_stage

METADATA = (("authorization", "Bearer x"),)
FOUND = learned(
    {**federated_job(), "status": job_status()},
    [{**training_round(2), "status": round_status()}],
)


def no_field(message: Message) -> list[str]:
    """What went to other_fields, at any depth."""
    found = list(message.other_fields)
    for field, value in message.ListFields():
        if field.is_repeated and field.message_type is not None and hasattr(value, "add"):
            found += [name for item in value for name in no_field(item)]
    return found


async def test_both_services_give_what_rest_gives() -> None:
    async with grpc_stage.stage() as stage:
        stage.gateway.answers["metrics"] = FOUND
        where = {"namespace": "a", "name": "digits"}
        any_kind = await JobServiceStub(stage.channel).GetMetrics(
            pb.GetMetricsRequest(kind="fj", **where), metadata=METADATA
        )
        typed = await FederatedJobServiceStub(stage.channel).GetFederatedJobMetrics(
            federated.GetFederatedJobMetricsRequest(**where), metadata=METADATA
        )
        for answer in (any_kind, typed):
            assert read_message(answer.metrics) == FOUND
        assert no_field(any_kind.metrics) == ["participants"]  # of the round that is gone: []


async def test_only_federated_jobs_have_the_method() -> None:
    service = training_round_pb2.DESCRIPTOR.services_by_name["TrainingRoundService"]
    assert "GetTrainingRoundMetrics" not in {method.name for method in service.methods}
    own = federated.DESCRIPTOR.services_by_name["FederatedJobService"]
    names = {method.name for method in own.methods}
    assert {"GetFederatedJobMetrics", "SuspendFederatedJob", "GetFederatedJobLogs"} <= names


async def test_a_kind_without_metrics_is_refused() -> None:
    from corral.client.errors import NotSupported

    async with grpc_stage.stage() as stage:
        stage.gateway.answers["metrics"] = NotSupported("MPIJobs have no metrics of rounds")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await JobServiceStub(stage.channel).GetMetrics(
                pb.GetMetricsRequest(kind="mpijobs", namespace="a", name="x"), metadata=METADATA
            )
        assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize(
    ("message", "obj"),
    [
        (federated.FederatedJob, {**federated_job(), "status": job_status()}),
        (training_round_pb2.TrainingRound, {**training_round(2), "status": round_status()}),
        (
            model_checkpoint_pb2.ModelCheckpoint,
            {
                "metadata": {"name": "m"},
                "spec": {
                    "federatedJobRef": {"name": "digits"},
                    "modelRef": "oci://x/y",
                    "algorithm": "fedavg",
                    "metadata": {"totalSamples": 30, "metrics": {"loss": 0.5}},
                },
                "status": {"phase": "Ready", "sizeBytes": 1 << 40},
            },
        ),
        (
            wasm_task_pb2.WasmTask,
            {
                "metadata": {"name": "t"},
                "spec": {"imageUrl": "oci://x/y", "env": {"A": "b"}, "inputs": [1, 2]},
                "status": {"phase": "Completed", "results": {"any": [1, {"json": None}]}},
            },
        ),
    ],
)
def test_objects_of_the_family_are_typed(message: type, obj: dict) -> None:
    out = message()
    write_message(out, obj)
    assert read_message(out) == obj
    for part in ("spec", "status"):
        assert not getattr(out, part).other_fields
