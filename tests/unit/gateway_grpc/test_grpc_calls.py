"""What happens to calls: tokens, refusals, limits, time, cancellation, streams, slow readers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import grpc
import orjson
import pytest

from corral.client import Change, ListQuery, LogChunk, Role, errors
from corral.gateway.limits import LimitSettings
from corral.gateway.service import Created
from corral.gateway.warnings import note
from corral.v1 import jobs_pb2 as pb
from corral.v1.jobs_pb2_grpc import JobServiceStub
from corral.v1.mpi_job_pb2 import CreateMPIJobRequest, GetMPIJobRequest, MPIJob, MPIJobSpec
from corral.v1.mpi_job_pb2_grpc import MPIJobServiceStub
from corral.v1.objects_pb2 import Object
from corral.v1.value_pb2 import Value
from tests.unit.gateway_grpc.grpc_stage import BEARER, OBJECT, TOKEN, Stage, details, stage

GET = pb.GetRequest(kind="mpijobs", namespace="n", name="pi")
LOGS = pb.GetLogsRequest(kind="mpijobs", namespace="n", name="pi", follow=True)
JSON = orjson.dumps(OBJECT)


@pytest.fixture
async def running() -> AsyncGenerator[Stage, None]:
    async with stage() as running:
        yield running


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """How a call, or a stream, is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        if isinstance(call, grpc.aio.UnaryStreamCall):
            await to_its_end(call)
        else:
            await call
    return caught.value


async def to_its_end(call: Any) -> list[Any]:
    """What a stream still gives."""
    answers = []
    while (answer := await call.read()) is not grpc.aio.EOF:
        answers.append(answer)
    return answers


# --- what is asked, and what is answered ---------------------------------------------------------


async def test_the_callers_token_goes_to_the_gateway_and_nowhere_else(running: Stage) -> None:
    answer = await JobServiceStub(running.channel).Get(GET, metadata=BEARER)
    assert orjson.loads(answer.object.json) == OBJECT
    assert answer.etag == '"u.7"'
    assert running.gateway.callers[0].token == TOKEN
    assert running.gateway.asked == [("get", {"kind": "mpijobs", "namespace": "n", "name": "pi"})]
    (line,) = await running.audited(1)
    assert line["protocol"] == "grpc" and line["user"] == "somebody"
    assert (line["verb"], line["resource"], line["name"]) == ("get", "mpijobs", "pi")
    assert (line["code"], line["result"], line["address"]) == (200, "ok", "127.0.0.1")
    assert TOKEN not in str(running.lines)


async def test_warnings_of_the_api_server_come_with_the_answer(running: Stage) -> None:
    async def warned(**asked: Any) -> Any:
        note("slotsPerWorker is probably not meant")
        return OBJECT

    running.gateway.answers["get"] = warned
    call = JobServiceStub(running.channel).Get(GET, metadata=BEARER)
    await call
    trailers = dict(await call.trailing_metadata())
    assert trailers["warning"] == '299 - "slotsPerWorker is probably not meant"'
    assert trailers["x-request-id"]


async def test_typed_services_are_faces_of_the_same_methods(running: Stage) -> None:
    stub = MPIJobServiceStub(running.channel)
    got = await stub.GetMPIJob(GetMPIJobRequest(namespace="n", name="pi"), metadata=BEARER)
    assert got.object.spec.slots_per_worker == 2
    assert "tomorrow" in got.object.spec.other_fields
    spec = MPIJobSpec(slots_per_worker=4, other_fields={"x": Value()})
    job = MPIJob(spec=spec)
    job.metadata.name = "new"
    request = CreateMPIJobRequest(namespace="n", object=job, idempotency_key="k", dry_run=True)
    running.gateway.answers["create"] = Created(OBJECT, repeated=True)
    made = await stub.CreateMPIJob(request, metadata=BEARER)
    assert made.already_created and made.etag == '"u.7"'
    _, asked = running.gateway.asked[-1]
    assert asked["obj"] == {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": "new", "namespace": "n"},
        "spec": {"slotsPerWorker": 4, "x": None},
    }
    assert (asked["idempotency_key"], asked["dry_run"]) == ("k", True)


async def test_lists_have_the_filters_and_pages_of_rest(running: Stage) -> None:
    stub = JobServiceStub(running.channel)
    request = pb.ListRequest(
        kind="mpi", label_selector="a=b", phases=["Running", "Failed"], name="p*",
        since="2026-01-31T12:00:00Z", sort="-created", limit=7, page_token="t",
    )  # fmt: skip
    answer = await stub.List(request, metadata=BEARER)
    assert (answer.next_page_token, answer.total, len(answer.objects)) == ("next", 2, 1)
    _, asked = running.gateway.asked[-1]
    query: ListQuery = asked["query"]
    assert asked["namespace"] is None and query.since is not None
    assert (query.labels, query.phases, query.name) == ("a=b", ("Running", "Failed"), "p*")
    assert (query.sort, query.limit, query.token) == ("-created", 7, "t")
    await stub.List(pb.ListRequest(kind="mpi", namespace="n"), metadata=BEARER)
    _, asked = running.gateway.asked[-1]
    assert asked["namespace"] == "n" and asked["query"] == ListQuery(limit=100)


async def test_every_other_method_asks_the_gateway(running: Stage) -> None:
    stub, where = (
        JobServiceStub(running.channel),
        {"kind": "mpijob", "namespace": "n", "name": "pi"},
    )
    calls = [
        stub.Restart(pb.RestartRequest(**where, force=True), metadata=BEARER),
        stub.Suspend(pb.SuspendRequest(**where, if_match='"u.7"'), metadata=BEARER),
        stub.Resume(pb.ResumeRequest(**where), metadata=BEARER),
        stub.Scale(pb.ScaleRequest(**where, replicas=3), metadata=BEARER),
        stub.Explain(pb.ExplainRequest(**where), metadata=BEARER),
        stub.Replace(pb.ReplaceRequest(**where, object=Object(json=JSON)), metadata=BEARER),
        stub.Delete(pb.DeleteRequest(**where, propagation=2), metadata=BEARER),
    ]  # fmt: skip
    answers = [await call for call in calls]
    assert answers[4].explanation.headline == "waits"
    assert answers[6].object.name == "pi"
    asked = dict(running.gateway.asked)
    assert asked["restart"]["force"] is True
    assert asked["suspend"]["if_match"].tags == ('"u.7"',)
    assert asked["resume"]["if_match"] is None
    assert asked["scale"]["replicas"] == 3
    assert asked["replace"]["obj"] == OBJECT
    assert asked["delete"]["propagation"] == "Foreground"


WRONG: dict[str, tuple[str, Any, str]] = {
    "no name": ("Get", pb.GetRequest(kind="mpijobs", namespace="n"), "name"),
    "a path": ("Get", pb.GetRequest(kind="mpijobs", namespace="n", name="../x"), "name"),
    "no namespace": ("Get", pb.GetRequest(kind="mpijobs", name="x"), "namespace"),
    "no object": ("Create", pb.CreateRequest(kind="mpijobs", namespace="n"), "object"),
    "no json": (
        "Create",
        pb.CreateRequest(kind="mpijobs", namespace="n", object=Object(json=b"{")),
        "object.json",
    ),
    "other namespace": (
        "Create",
        pb.CreateRequest(kind="mpijobs", namespace="m", object=Object(json=JSON)),
        "metadata.namespace",
    ),
    "other kind": (
        "Create",
        pb.CreateRequest(kind="trainingjobs", namespace="n", object=Object(json=JSON)),
        "kind",
    ),
    "bad key": (
        "Create",
        pb.CreateRequest(
            kind="mpi", namespace="n", object=Object(json=JSON), idempotency_key="a b"
        ),
        "idempotency_key",
    ),
    "bad time": ("List", pb.ListRequest(kind="mpi", since="yesterday"), "since"),
    "bad limit": ("List", pb.ListRequest(kind="mpi", limit=-1), "limit"),
    "bad order": ("List", pb.ListRequest(kind="mpi", sort="colour"), "sort"),
    "bad replicas": (
        "Scale",
        pb.ScaleRequest(kind="mpi", namespace="n", name="x", replicas=-1),
        "replicas",
    ),
    "no role": (
        "GetLogs",
        pb.GetLogsRequest(kind="mpi", namespace="n", name="x", index=1),
        "index",
    ),
    "bad lines": (
        "GetLogs",
        pb.GetLogsRequest(kind="mpi", namespace="n", name="x", tail_lines=-1),
        "tail_lines",
    ),
}


@pytest.mark.parametrize("case", WRONG)
async def test_wrong_requests_are_refused_with_the_field(running: Stage, case: str) -> None:
    method, request, field = WRONG[case]
    error = await refused(
        getattr(JobServiceStub(running.channel), method)(request, metadata=BEARER)
    )
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    wrong = details(error)["google.rpc.BadRequest"].field_violations
    assert field in {violation.field for violation in wrong}
    assert running.gateway.asked == []


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metadata", [(), (("authorization", "Basic x"),), (("authorization", "Bearer "),)]
)
async def test_without_a_token_nothing_is_asked(running: Stage, metadata: Any) -> None:
    error = await refused(JobServiceStub(running.channel).Get(GET, metadata=metadata))
    assert error.code() is grpc.StatusCode.UNAUTHENTICATED
    assert details(error)["corral.v1.Problem"].status == 401
    assert running.gateway.asked == []
    (line,) = await running.audited(1)
    assert (line["code"], line["result"]) == (401, "refused")


REFUSALS = {
    grpc.StatusCode.NOT_FOUND: errors.NotFound("there is none", hint="look elsewhere"),
    grpc.StatusCode.PERMISSION_DENIED: errors.Forbidden("you may not", hint="ask somebody"),
    grpc.StatusCode.ALREADY_EXISTS: errors.AlreadyExists("there is one"),
    grpc.StatusCode.FAILED_PRECONDITION: errors.Conflict("it still runs"),
    grpc.StatusCode.ABORTED: errors.PreconditionFailed("it has changed"),
    grpc.StatusCode.OUT_OF_RANGE: errors.Expired("no longer kept"),
    grpc.StatusCode.UNIMPLEMENTED: errors.NotSupported("cannot be suspended"),
    grpc.StatusCode.UNAVAILABLE: errors.Unavailable("not now", retry_after=3),
    grpc.StatusCode.RESOURCE_EXHAUSTED: errors.TooManyRequests("slowly", retry_after=2),
    grpc.StatusCode.INVALID_ARGUMENT: errors.Invalid(
        "wrong", fields=(errors.FieldProblem("spec.a", "must be b", "FieldValueInvalid"),)
    ),
}


@pytest.mark.parametrize("code", REFUSALS, ids=lambda code: code.name)
async def test_refusals_have_canonical_codes_and_details(
    running: Stage, code: grpc.StatusCode
) -> None:
    running.gateway.answers["get"] = REFUSALS[code]
    metadata = (*BEARER, ("x-request-id", "mine-1"))
    error = await refused(JobServiceStub(running.channel).Get(GET, metadata=metadata))
    assert error.code() is code
    found = details(error)
    problem = found["corral.v1.Problem"]
    assert problem.status == REFUSALS[code].code
    assert problem.type.startswith("urn:corral:problem:")
    assert problem.other_fields["requestId"].string_value == "mine-1"
    assert problem.instance == "/corral.v1.JobService/Get"
    assert found["google.rpc.ErrorInfo"].metadata["requestId"] == "mine-1"
    if REFUSALS[code].retry_after:
        assert found["google.rpc.RetryInfo"].retry_delay.seconds == REFUSALS[code].retry_after
    if REFUSALS[code].fields:
        (violation,) = found["google.rpc.BadRequest"].field_violations
        assert (violation.field, violation.description) == ("spec.a", "must be b")


async def test_what_nobody_foresaw_says_nothing_of_the_inside(
    running: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    running.gateway.answers["get"] = RuntimeError("secret")
    error = await refused(JobServiceStub(running.channel).Get(GET, metadata=BEARER))
    assert error.code() is grpc.StatusCode.INTERNAL
    assert "secret" not in str(error) and "secret" in caplog.text
    assert TOKEN not in caplog.text


async def test_a_thousand_wrong_fields_fit_into_the_headers(running: Stage) -> None:
    fields = tuple(errors.FieldProblem(f"spec.f{at}", "is wrong " * 100) for at in range(1000))
    running.gateway.answers["create"] = errors.Invalid("x" * 50_000, fields=fields)
    request = pb.CreateRequest(kind="mpi", namespace="n", object=Object(json=JSON))
    error = await refused(JobServiceStub(running.channel).Create(request, metadata=BEARER))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    wrong = details(error)["google.rpc.BadRequest"].field_violations
    assert wrong[0].field == "spec.f0" and 1 < len(wrong) < 1000


async def test_bytes_that_are_no_message_are_refused(running: Stage) -> None:
    call = running.channel.unary_unary("/corral.v1.JobService/Get")
    error = await refused(call(b"\xff\xff\xff", metadata=BEARER))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "corral.v1.GetRequest" in (error.details() or "")


async def test_unknown_kinds_are_told_with_those_alike(running: Stage) -> None:
    request = pb.GetRequest(kind="mpijbos", namespace="n", name="x")
    error = await refused(JobServiceStub(running.channel).Get(request, metadata=BEARER))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert "mpijobs" in str(details(error)["corral.v1.Problem"])


# --- limits --------------------------------------------------------------------------------------


async def test_the_rate_is_shared_with_rest() -> None:
    async with stage(limits=LimitSettings(rate=0.001, burst=3)) as running:
        stub = JobServiceStub(running.channel)
        await stub.Get(GET, metadata=BEARER)
        for _ in range(2):  # as REST does for every request of the user
            running.shared.rates.take("somebody")
        error = await refused(stub.Get(GET, metadata=BEARER))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert details(error)["google.rpc.RetryInfo"].retry_delay.seconds > 0
        await stub.Get(GET, metadata=(("authorization", "Bearer another"),))


async def test_messages_may_be_as_large_as_bodies_of_rest() -> None:
    async with stage(limits=LimitSettings(body_bytes=100_000)) as running:
        stub = JobServiceStub(running.channel)
        fits = Object(json=orjson.dumps({**OBJECT, "spec": {"a": "x" * 90_000}}))
        request = pb.CreateRequest(kind="mpi", namespace="n", object=fits)
        await stub.Create(request, metadata=BEARER)
        request.object.json = orjson.dumps({**OBJECT, "spec": {"a": "x" * 200_000}})
        error = await refused(stub.Create(request, metadata=BEARER))
        assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert len(running.gateway.asked) == 1


async def test_one_caller_cannot_have_all_streams() -> None:
    async with stage(limits=LimitSettings(streams_each=1)) as running:
        running.gateway.answers["logs"] = lambda: chunks(1, then=asyncio.Event())
        stub = JobServiceStub(running.channel)
        first = stub.GetLogs(LOGS, metadata=BEARER)
        await first.read()
        error = await refused(stub.GetLogs(LOGS, metadata=BEARER))
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        first.cancel()


# --- time and cancellation -----------------------------------------------------------------------


class Patience:
    """Waits for ever, and says when it was made to stop."""

    def __init__(self) -> None:
        self.begun, self.stopped = asyncio.Event(), asyncio.Event()

    async def __call__(self, **asked: Any) -> Any:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


async def test_the_callers_deadline_ends_the_work(running: Stage) -> None:
    stub = JobServiceStub(running.channel)
    await stub.Get(GET, metadata=BEARER)  # connected: the time below is the server's alone
    running.gateway.answers["get"] = waits = Patience()
    error = await refused(stub.Get(GET, metadata=BEARER, timeout=2))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(30):
        await waits.stopped.wait()


async def test_the_callers_deadline_ends_a_stream(running: Stage) -> None:
    ended = asyncio.Event()
    running.gateway.answers["logs"] = lambda: chunks(1, then=asyncio.Event(), ended=ended)
    stub = JobServiceStub(running.channel)
    await stub.Get(GET, metadata=BEARER)
    error = await refused(stub.GetLogs(LOGS, metadata=BEARER, timeout=2))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    async with asyncio.timeout(30):
        await ended.wait()


async def test_the_gateways_own_time_ends_the_work() -> None:
    async with stage(limits=LimitSettings(request_seconds=0.2)) as running:
        running.gateway.answers["get"] = waits = Patience()
        error = await refused(JobServiceStub(running.channel).Get(GET, metadata=BEARER))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert details(error)["corral.v1.Problem"].status == 504
        assert waits.stopped.is_set()


async def test_cancelling_a_call_ends_the_work(running: Stage) -> None:
    running.gateway.answers["get"] = waits = Patience()
    call = JobServiceStub(running.channel).Get(GET, metadata=BEARER)
    async with asyncio.timeout(30):
        await waits.begun.wait()
        call.cancel()
        await waits.stopped.wait()
    (line,) = await running.audited(1)
    assert line["result"] == "ended early"


async def test_cancelling_a_stream_ends_the_work(running: Stage) -> None:
    ended = asyncio.Event()
    running.gateway.answers["logs"] = lambda: chunks(1, then=asyncio.Event(), ended=ended)
    call = JobServiceStub(running.channel).GetLogs(LOGS, metadata=BEARER)
    await call.read()
    assert running.shared.streams.total == 1
    call.cancel()
    async with asyncio.timeout(30):
        await ended.wait()
    (line,) = await running.audited(1)
    assert (line["verb"], line["result"]) == ("logs", "ended early")
    assert running.shared.streams.total == 0


async def test_a_caller_who_goes_ends_the_work(running: Stage) -> None:
    ended = asyncio.Event()
    running.gateway.answers["logs"] = lambda: chunks(1, then=asyncio.Event(), ended=ended)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{running.server.port}") as channel:
        await JobServiceStub(channel).GetLogs(LOGS, metadata=BEARER).read()
    async with asyncio.timeout(30):
        await ended.wait()


@pytest.mark.parametrize("method", ["watch", "logs"])
async def test_a_stream_whose_time_is_over_says_to_go_on(method: str) -> None:
    limits = LimitSettings(log_seconds=0.2, watch_seconds=0.2)
    async with stage(limits=limits) as running:
        running.gateway.answers["logs"] = lambda: chunks(1, then=asyncio.Event())
        running.gateway.answers["watch"] = lambda: changes(1, then=asyncio.Event())
        stub = JobServiceStub(running.channel)
        call = (
            stub.GetLogs(LOGS, metadata=BEARER)
            if method == "logs"
            else stub.WatchStatus(pb.WatchStatusRequest(kind="mpi"), metadata=BEARER)
        )
        error = await refused(call)
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "go on where it ended" in (error.details() or "")


async def test_stopping_tells_streams_to_come_back_and_lets_calls_finish() -> None:
    async with stage() as running:
        running.gateway.answers["watch"] = lambda: changes(1, then=asyncio.Event())
        waits, goes_on = Patience(), asyncio.Event()

        async def slow(**asked: Any) -> Any:
            waits.begun.set()
            await goes_on.wait()
            return OBJECT

        running.gateway.answers["get"] = slow
        stub = JobServiceStub(running.channel)
        call = stub.Get(GET, metadata=BEARER)
        watch = stub.WatchStatus(pb.WatchStatusRequest(kind="mpi"), metadata=BEARER)
        await watch.read()
        async with asyncio.timeout(30):
            await waits.begun.wait()
            stopping = asyncio.create_task(running.server.stop())
            error = await refused(watch)
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            goes_on.set()
            assert (await call).object.name == "pi"
            await stopping
        assert {line["verb"] for line in running.lines} == {"get", "watch"}


# --- streams -------------------------------------------------------------------------------------


class Place(str):
    """Stands for a position."""


def chunk(at: int, data: bytes) -> Any:
    class Piece:
        pod, role, container = "pi-worker-0", Role("worker", 0), "main"
        position = Place(f"p{at}")

    piece: Any = Piece()
    piece.data = data
    return piece


async def chunks(
    count: int,
    *,
    size: int = 10,
    then: asyncio.Event | None = None,
    ended: asyncio.Event | None = None,
    made: list[int] | None = None,
) -> AsyncGenerator[LogChunk, None]:
    try:
        for at in range(count):
            if made is not None:
                made.append(at)
            yield chunk(at, b"%08d" % at + b"x" * (size - 9) + b"\n")
        if then is not None:
            await then.wait()
    finally:
        if ended is not None:
            ended.set()


async def changes(count: int, *, then: asyncio.Event | None = None) -> AsyncGenerator[Change, None]:
    for at in range(count):
        yield Change("MODIFIED" if at else "ADDED", OBJECT, "Running")
    if then is not None:
        await then.wait()


async def test_a_slow_reader_does_not_make_the_gateway_hoard() -> None:
    async with stage(limits=LimitSettings(burst=1000)) as running:
        await _slow_reader(running)


async def _slow_reader(running: Stage) -> None:
    made: list[int] = []
    count, size = 2000, 64 * 1024
    running.gateway.answers["logs"] = lambda: chunks(count, size=size, made=made)
    stub = JobServiceStub(running.channel)
    call = stub.GetLogs(LOGS, metadata=BEARER)
    first = await call.read()
    assert first.data.startswith(b"00000000")
    for _ in range(300):  # the server has all the time it wants
        await stub.Get(GET, metadata=BEARER)
    assert len(made) * size < 16 << 20, "more than any window of the transport was made"
    rest = [int(answer.data[:8]) for answer in await to_its_end(call)]
    assert rest == list(range(1, count))


async def test_long_pieces_of_log_come_in_parts_with_one_position(running: Stage) -> None:
    async def source() -> AsyncGenerator[LogChunk, None]:
        yield chunk(1, b"x" * (5 << 19))
        yield chunk(2, b"y\n")

    running.gateway.answers["logs"] = source
    call = JobServiceStub(running.channel).GetLogs(LOGS, metadata=BEARER)
    answers = [answer async for answer in call]
    assert [len(answer.data) for answer in answers] == [1 << 20, 1 << 20, 1 << 19, 2]
    assert [answer.position for answer in answers] == ["", "", "p1", "p2"]
    assert (answers[0].pod, answers[0].role, answers[0].index) == ("pi-worker-0", "worker", 0)


async def test_what_logs_are_asked_for(running: Stage) -> None:
    running.gateway.answers["logs"] = lambda: chunks(0)
    request = pb.GetLogsRequest(
        kind="mpi", namespace="n", name="pi", role="worker", index=0, container="c",
        tail_lines=0, since_time="2026-01-31T12:00:00Z", timestamps=True, previous=True,
    )  # fmt: skip
    async for _ in JobServiceStub(running.channel).GetLogs(request, metadata=BEARER):
        raise AssertionError("there is nothing")
    query = running.gateway.asked[0][1]["query"]
    assert (query.roles, query.container, query.tail_lines) == (("worker", 0), "c", 0)
    assert (query.timestamps, query.previous, query.follow) == (True, True, False)


async def test_a_refusal_in_the_middle_of_a_stream_has_details(running: Stage) -> None:
    async def source() -> AsyncGenerator[Change, None]:
        yield Change("ADDED", OBJECT, "Running")
        raise errors.Expired("no longer kept")

    running.gateway.answers["watch"] = source
    request = pb.WatchStatusRequest(kind="mpi", namespace="n", name="pi", since="5")
    call = JobServiceStub(running.channel).WatchStatus(request, metadata=BEARER)
    first = await call.read()
    assert (first.type, first.phase) == (pb.CHANGE_TYPE_ADDED, "Running")
    error = await refused(call)
    assert error.code() is grpc.StatusCode.OUT_OF_RANGE
    assert details(error)["corral.v1.Problem"].status == 410
    assert running.gateway.asked[0][1]["since"] == "5"
