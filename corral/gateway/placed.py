"""Objects of requests, where the request says what they are, where, and what their name is."""

from __future__ import annotations

from corral.client.kinds import JobKind
from corral.gateway.problems import Refused
from corral.kube.types import Obj

__all__ = ["placed"]


def placed(obj: Obj, kind: JobKind, *, namespace: str, name: str = "") -> Obj:
    """The object with the type, namespace and, where one is given, name of the request.

    Raises:
        Refused: it says otherwise; every field that does is named.
    """
    metadata = obj.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise Refused("invalid", "metadata must be an object", errors=(("metadata", "no object"),))
    metadata = metadata or {}
    wanted = {"apiVersion": kind.api_version, "kind": kind.kind}
    wrong = [
        (key, f"must be {reported}")
        for key, reported in wanted.items()
        if obj.get(key, reported) != reported
    ]
    if metadata.get("namespace", namespace) != namespace:
        wrong.append(("metadata.namespace", f"must be {namespace}, as in the path"))
    if name and metadata.get("name", name) != name:
        wrong.append(("metadata.name", f"must be {name}, as in the path"))
    if wrong:
        detail = "; ".join(f"{field}: {reported}" for field, reported in wrong)
        raise Refused("invalid", detail, errors=tuple(wrong))
    put = {**metadata, "namespace": namespace}
    if name:
        put["name"] = name
    return {**obj, **wanted, "metadata": put}
