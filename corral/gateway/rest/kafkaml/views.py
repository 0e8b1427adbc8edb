"""Models, configurations, deployments, inferences and datasources: views on their objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Final

from starlette.responses import Response

from corral.client.errors import Changed, JobError, NotFound
from corral.client.kinds import kind_of
from corral.client.phases import section, sections, status_of, text
from corral.gateway.problems import Refused, problem_of
from corral.gateway.rest.answers import json_answer
from corral.gateway.rest.asks import Ask
from corral.gateway.rest.kafkaml import bodies, rows
from corral.kube.types import Obj

__all__ = [
    "delete_configuration",
    "delete_deployment",
    "delete_inference",
    "delete_model",
    "deployments_of",
    "distributed_configuration",
    "distributed_models",
    "every",
    "fathers",
    "frameworks",
    "get_configuration",
    "get_inference",
    "get_model",
    "list_configurations",
    "list_datasources",
    "list_deployments",
    "list_inferences",
    "list_models",
    "one",
    "post_configuration",
    "post_datasource",
    "post_deployment",
    "post_model",
    "put_configuration",
    "put_model",
    "stop_inference",
    "worded",
]

View = Callable[[Ask], Awaitable[Response]]
_WORDED: Final = ("bad-request", "invalid", "already-exists", "conflict", "precondition-failed")
_ATTEMPTS: Final = 5
"""How often a change is made anew of what others have written meanwhile."""


def worded(view: View) -> View:
    """What is wrong with a request is a 400 with plain words, as callers of this interface know."""

    @wraps(view)
    async def answered(ask: Ask) -> Response:
        try:
            return await view(ask)
        except (Refused, JobError) as error:
            problem = problem_of(error)
            if problem.kind not in _WORDED:
                raise
            return Response(problem.detail, 400, media_type="text/plain")

    return answered


# --- what all have in common ---------------------------------------------------------------------


async def every(ask: Ask, plural: str) -> list[Obj]:
    page = await ask.gateway.list(ask.caller, kind_of(plural), namespace=ask.namespace)
    return page.items


async def one(ask: Ask, plural: str, name: str) -> Obj:
    return await ask.gateway.get(ask.caller, kind_of(plural), namespace=ask.namespace, name=name)


async def create(ask: Ask, plural: str, obj: Obj) -> Response:
    await ask.gateway.create(ask.caller, kind_of(plural), namespace=ask.namespace, obj=obj)
    return Response(status_code=201)


async def change(ask: Ask, plural: str, name: str, spec: Obj, *, notes: Obj | None = None) -> None:
    """Put fields into a spec, and into the annotations. Nobody else's change is lost."""
    for attempt in range(_ATTEMPTS):
        found = await one(ask, plural, name)
        metadata = section(found, "metadata")
        annotations = {**section(metadata, "annotations"), **(notes or {})}
        obj = {
            **kind_of(plural).resource.stamp(found),
            "metadata": {**metadata, "annotations": annotations},
            "spec": {**section(found, "spec"), **spec},
        }
        try:
            await ask.gateway.replace(
                ask.caller, kind_of(plural), namespace=ask.namespace, name=name, obj=obj
            )
            return
        except Changed:
            if attempt + 1 == _ATTEMPTS:
                raise


async def delete(ask: Ask, plural: str, name: str) -> Response:
    await ask.gateway.delete(ask.caller, kind_of(plural), namespace=ask.namespace, name=name)
    return Response(status_code=200)


def _used(what: str, name: str, by: str, users: list[str]) -> None:
    if users:
        reported = f"{what} {name} is used by {by} {', '.join(users[:5])}: delete that first"
        raise Refused("bad-request", reported)


def _names(objects: list[Obj]) -> list[str]:
    return [text(section(obj, "metadata").get("name")) for obj in objects]


# --- models --------------------------------------------------------------------------------------


async def list_models(ask: Ask) -> Response:
    return json_answer([rows.model_row(obj) for obj in await every(ask, "mlmodels")])


async def distributed_models(ask: Ask) -> Response:
    found = [rows.model_row(obj) for obj in await every(ask, "mlmodels")]
    return json_answer([row for row in found if row["distributed"]])


async def fathers(ask: Ask) -> Response:
    """Parts of models that are not part of another: a model can name them as its father."""
    found = [rows.model_row(obj) for obj in await every(ask, "mlmodels")]
    taken = {row["father"] for row in found if row["father"]}
    return json_answer([row for row in found if row["distributed"] and row["id"] not in taken])


@worded
async def post_model(ask: Ask) -> Response:
    return await create(ask, "mlmodels", bodies.model_object(await ask.object()))


async def get_model(ask: Ask) -> Response:
    return json_answer(rows.model_row(await one(ask, "mlmodels", ask.name)))


@worded
async def put_model(ask: Ask) -> Response:
    made = bodies.model_object(await ask.object())
    spec = {"father": "", **made["spec"]}
    await change(ask, "mlmodels", ask.name, spec, notes=section(made["metadata"], "annotations"))
    return Response(status_code=200)


@worded
async def delete_model(ask: Ask) -> Response:
    users = [
        obj
        for obj in await every(ask, "mlconfigurations")
        if ask.name in (section(obj, "spec").get("models") or ())
    ]
    _used("model", ask.name, "configuration", _names(users))
    users = [
        obj
        for obj in await every(ask, "federateddeployments")
        if section(obj, "spec").get("model") == ask.name
    ]
    _used("model", ask.name, "deployment", _names(users))
    return await delete(ask, "mlmodels", ask.name)


# --- configurations ------------------------------------------------------------------------------


async def list_configurations(ask: Ask) -> Response:
    found = await every(ask, "mlconfigurations")
    return json_answer([rows.configuration_row(obj) for obj in found])


async def _configuration(ask: Ask) -> Obj:
    """What the body says, with models that are there."""
    made = bodies.configuration_object(await ask.object())
    known = set(_names(await every(ask, "mlmodels")))
    missing = [name for name in made["spec"]["models"] if name not in known]
    if missing:
        raise bodies.refused("ml_models", f"there is no model {', '.join(missing[:5])[:200]}")
    return made


@worded
async def post_configuration(ask: Ask) -> Response:
    return await create(ask, "mlconfigurations", await _configuration(ask))


async def get_configuration(ask: Ask) -> Response:
    return json_answer(rows.configuration_row(await one(ask, "mlconfigurations", ask.name)))


@worded
async def put_configuration(ask: Ask) -> Response:
    made = await _configuration(ask)
    notes = section(made["metadata"], "annotations")
    await change(ask, "mlconfigurations", ask.name, made["spec"], notes=notes)
    return Response(status_code=200)


@worded
async def delete_configuration(ask: Ask) -> Response:
    users = await _deployments_with(ask, ask.name)
    _used("configuration", ask.name, "deployment", _names(users))
    return await delete(ask, "mlconfigurations", ask.name)


async def _models_of(ask: Ask) -> list[Obj]:
    found = await one(ask, "mlconfigurations", ask.name)
    names = section(found, "spec").get("models") or ()
    return [obj for obj in await every(ask, "mlmodels") if _names([obj])[0] in names]


async def frameworks(ask: Ask) -> Response:
    """Which frameworks the models of a configuration need."""
    found = {rows.model_row(obj)["framework"] for obj in await _models_of(ask)}
    return json_answer(sorted(found))


async def distributed_configuration(ask: Ask) -> Response:
    """Whether one of the models of a configuration is a part of another."""
    return json_answer(any(rows.model_row(obj)["distributed"] for obj in await _models_of(ask)))


# --- deployments ---------------------------------------------------------------------------------


async def _deployments_with(ask: Ask, configuration: str) -> list[Obj]:
    return [
        obj
        for obj in await every(ask, "federateddeployments")
        if section(obj, "spec").get("configuration") == configuration
    ]


async def list_deployments(ask: Ask) -> Response:
    found = await every(ask, "federateddeployments")
    return json_answer([rows.deployment_row(obj) for obj in found])


async def deployments_of(ask: Ask) -> Response:
    """Those of a configuration."""
    await one(ask, "mlconfigurations", ask.name)
    found = await _deployments_with(ask, ask.name)
    return json_answer([rows.deployment_row(obj) for obj in found])


@worded
async def post_deployment(ask: Ask) -> Response:
    made = bodies.deployment_object(await ask.object())
    name = made["spec"]["configuration"]
    if name not in _names(await every(ask, "mlconfigurations")):
        raise bodies.refused("configuration", f"there is no configuration {name[:200]}")
    return await create(ask, "federateddeployments", made)


@worded
async def delete_deployment(ask: Ask) -> Response:
    return await delete(ask, "federateddeployments", ask.name)


# --- inferences ----------------------------------------------------------------------------------


async def list_inferences(ask: Ask) -> Response:
    return json_answer([rows.inference_row(obj) for obj in await every(ask, "inferences")])


async def get_inference(ask: Ask) -> Response:
    return json_answer(rows.inference_row(await one(ask, "inferences", ask.name)))


@worded
async def stop_inference(ask: Ask) -> Response:
    await change(ask, "inferences", ask.name, {"stopped": True})
    return Response(status_code=200)


@worded
async def delete_inference(ask: Ask) -> Response:
    return await delete(ask, "inferences", ask.name)


async def suggested(ask: Ask, deployment: Obj) -> Obj:
    """How the data was read that a deployment was trained with."""
    for client in sections(status_of(deployment), "clients"):
        name = text(client.get("datasource"))
        try:
            found = rows.datasource_row(await one(ask, "datasources", name)) if name else {}
        except NotFound:
            continue
        if found:
            return {key: found[key] for key in ("input_format", "input_config")}
    return {"input_format": "RAW", "input_config": "{}"}


# --- datasources ---------------------------------------------------------------------------------


async def list_datasources(ask: Ask) -> Response:
    return json_answer([rows.datasource_row(obj) for obj in await every(ask, "datasources")])


@worded
async def post_datasource(ask: Ask) -> Response:
    return await create(ask, "datasources", bodies.datasource_object(await ask.object()))
