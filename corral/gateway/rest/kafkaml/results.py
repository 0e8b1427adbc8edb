"""Results: one for each model of a deployment, as its status says; and the models themselves."""

from __future__ import annotations

from starlette.responses import Response

from corral.client.errors import NotFound
from corral.client.phases import section, sections, status_of, text
from corral.gateway.problems import Refused
from corral.gateway.rest.answers import Flow, json_answer
from corral.gateway.rest.asks import Ask, checked_name
from corral.gateway.rest.kafkaml import bodies, rows, views
from corral.gateway.rest.kafkaml.views import worded
from corral.kube.types import Obj

__all__ = [
    "delete_result",
    "get_chart",
    "get_confusion_matrix",
    "get_metrics",
    "get_trained",
    "get_untrained",
    "list_results",
    "model_of",
    "model_of_result",
    "post_inference",
    "result_of",
    "results_of_deployment",
    "stop_result",
    "suggested_inference",
]


async def result_of(ask: Ask) -> tuple[Obj, Obj]:
    """The deployment and the result of an id: ``DEPLOYMENT.N``, or N where only one has it.

    Raises:
        Refused: there is none, or more than one.
    """
    name, _, number = ask.name.rpartition(".")
    if not number.isdecimal():
        raise Refused("not-found", f"there is no result {ask.name}: ids are DEPLOYMENT.N")
    if name:
        deployments = [await views.one(ask, "federateddeployments", checked_name("name", name))]
    else:
        deployments = await views.every(ask, "federateddeployments")
    found = [
        (obj, result)
        for obj in deployments
        for result in sections(status_of(obj), "results")
        if str(result.get("id")) == number.lstrip("0")
    ]
    if not found:
        raise Refused("not-found", f"there is no result {ask.name}; it may not have begun yet")
    if len(found) > 1:
        detail = f"{len(found)} deployments have a result {number}: name it as DEPLOYMENT.{number}"
        raise Refused("bad-request", detail)
    return found[0]


async def list_results(ask: Ask) -> Response:
    found = await views.every(ask, "federateddeployments")
    return json_answer([row for obj in found for row in rows.results_of(obj)])


async def results_of_deployment(ask: Ask) -> Response:
    return json_answer(rows.results_of(await views.one(ask, "federateddeployments", ask.name)))


@worded
async def delete_result(ask: Ask) -> Response:
    deployment, _ = await result_of(ask)
    name = text(section(deployment, "metadata").get("name"))
    if len(sections(status_of(deployment), "results")) > 1:
        detail = f"{ask.name} is one of several results of {name}: delete the deployment"
        raise Refused("bad-request", detail)
    return await views.delete(ask, "federateddeployments", name)


@worded
async def stop_result(ask: Ask) -> Response:
    """Suspends the deployment: all of its results rest."""
    deployment, result = await result_of(ask)
    if result.get("status") in ("finished", "stopped"):
        raise Refused("bad-request", f"{ask.name} is {result['status']} already")
    name = text(section(deployment, "metadata").get("name"))
    await views.change(ask, "federateddeployments", name, {"suspend": True})
    return Response(status_code=200)


@worded
async def get_metrics(ask: Ask) -> Response:
    _, result = await result_of(ask)
    return json_answer(rows.metrics_of(result))


@worded
async def get_chart(ask: Ask) -> Response:
    _, result = await result_of(ask)
    return json_answer(rows.chart(result))


@worded
async def get_confusion_matrix(ask: Ask) -> Response:
    _, result = await result_of(ask)
    found = rows.confusion_matrix(result)
    if found is None:
        detail = f"{ask.name} has no confusion matrix: its training reports none"
        raise Refused("not-found", detail)
    return json_answer({"confusion_matrix": found})


# --- models --------------------------------------------------------------------------------------


async def model_of(ask: Ask, result: Obj) -> Obj:
    name = text(result.get("model"))
    try:
        return await views.one(ask, "mlmodels", name)
    except NotFound:
        raise Refused("not-found", f"model {name} of {ask.name} was deleted") from None


@worded
async def model_of_result(ask: Ask) -> Response:
    _, result = await result_of(ask)
    return json_answer(rows.model_row(await model_of(ask, result)))


@worded
async def get_trained(ask: Ask) -> Response:
    """The last version, as it is in the registry."""
    _, result = await result_of(ask)
    reference = text(result.get("modelRef"))
    if not reference:
        detail = f"{ask.name} is {result.get('status') or 'created'}: there is no model yet"
        raise Refused("not-found", detail)
    try:
        framework = rows.model_row(await model_of(ask, result))["framework"]
    except Refused:
        framework = ""
    return await _file(ask, reference, framework)


@worded
async def get_untrained(ask: Ask) -> Response:
    """The first weights of the model of a result."""
    _, result = await result_of(ask)
    model = await model_of(ask, result)
    reference = text(status_of(model).get("weightsRef"))
    if not reference:
        raise Refused("not-found", f"model {result.get('model')} is not checked yet")
    return await _file(ask, reference, rows.model_row(model)["framework"])


async def _file(ask: Ask, reference: str, framework: str) -> Response:
    model = await ask.gateway.models.open(ask.caller, reference)
    flow = Flow(
        model.content,
        media_type="application/octet-stream",
        seconds=ask.limits.log_seconds,
        flows=ask.flows,
        headers={
            "ML-Framework": framework,
            "Content-Disposition": f'attachment; filename="{ask.name}.safetensors"',
        },
    )
    # said beforehand: a body that ends early is seen to be no whole one
    flow.headers["Content-Length"] = str(model.size)
    return flow


# --- inferences ----------------------------------------------------------------------------------


@worded
async def suggested_inference(ask: Ask) -> Response:
    deployment, _ = await result_of(ask)
    return json_answer(await views.suggested(ask, deployment))


@worded
async def post_inference(ask: Ask) -> Response:
    body = await ask.object()
    deployment, result = await result_of(ask)
    name = text(section(deployment, "metadata").get("name"))
    made = bodies.inference_object(body, deployment=name, model=text(result.get("model")))
    return await views.create(ask, "inferences", made)
