"""ConversionReview (v1): objects from one version of a definition to another, all or none."""

from __future__ import annotations

import inspect

from corral.kube.types import Obj
from corral.runtime.webhooks.hooks import Converter
from corral.runtime.webhooks.review import CONVERSION, BadReview

__all__ = ["convert"]


async def convert(request: Obj, converter: Converter) -> Obj:
    """Answer the ``request`` of a review.

    Raises:
        BadReview: it has no uid or no objects.
    """
    uid, wanted = request.get("uid"), request.get("desiredAPIVersion")
    objects = request.get("objects")
    if not uid or not wanted or not isinstance(objects, list):
        raise BadReview("the request lacks uid, desiredAPIVersion or objects")
    response: Obj = {"uid": uid, "result": {"status": "Success"}}
    try:
        response["convertedObjects"] = [await _one(obj, wanted, converter) for obj in objects]
    except (KeyError, TypeError, ValueError) as error:
        response["result"] = {"status": "Failure", "message": f"cannot convert: {error}"}
    return {"apiVersion": CONVERSION[0], "kind": CONVERSION[1], "response": response}


async def _one(obj: Obj, wanted: str, converter: Converter) -> Obj:
    if obj.get("apiVersion") == wanted:
        return obj
    result = converter(obj, wanted)
    converted = await result if inspect.isawaitable(result) else result
    return {**converted, "apiVersion": wanted}
