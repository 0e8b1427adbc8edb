"""The ``token`` subresource of service accounts: TokenRequest in, TokenRequest with status out."""

from __future__ import annotations

from datetime import UTC, datetime

from corral.cluster.apiserver.auth.tokens import BoundObject, Lookup, TokenIssuer
from corral.cluster.apiserver.errors import (
    FieldError,
    conflict,
    invalid,
    invalid_value,
    not_found,
)
from corral.kube.errors import BadRequest
from corral.kube.types import Obj

__all__ = ["token_request"]

GROUP, KIND = "authentication.k8s.io", "TokenRequest"
MIN_SECONDS = 600
MAX_SECONDS = 1 << 32
_BINDABLE = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}


def token_request(
    request: Obj, namespace: str, name: str, *, issuer: TokenIssuer, lookup: Lookup
) -> Obj:
    """Answer a TokenRequest for service account ``namespace/name``.

    Raises: Invalid, NotFound, Conflict, BadRequest.
    """
    meta = {**(request.get("metadata") or {})}
    _check_metadata(meta, namespace, name)
    account = lookup("serviceaccounts", namespace, name)
    if account is None:
        raise not_found("", "serviceaccounts", name)
    uid = account["metadata"].get("uid", "")
    if meta.get("uid") and meta["uid"] != uid:
        why = (
            f"the UID in the token request ({meta['uid']}) does not match the UID of the "
            f"service account ({uid})"
        )
        raise conflict(GROUP, KIND, name, why)
    spec = _spec(request, issuer)
    bound = _bound_object(spec.get("boundObjectRef"), namespace, name, lookup)
    token, expires = issuer.issue(
        namespace,
        name,
        sa_uid=uid,
        audiences=spec["audiences"],
        expiration=spec["expirationSeconds"],
        bound_object=bound,
    )
    created = datetime.fromtimestamp(int(issuer.clock()), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    meta |= {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": created}
    return {
        "kind": KIND,
        "apiVersion": f"{GROUP}/v1",
        "metadata": meta,
        "spec": spec,
        "status": {"token": token, "expirationTimestamp": expires},
    }


def _check_metadata(meta: Obj, namespace: str, name: str) -> None:
    for key, value, what in (("name", name, "name"), ("namespace", namespace, "namespace")):
        if meta.get(key) and meta[key] != value:
            why = f"must match the service account {what} if specified"
            raise invalid(GROUP, KIND, name, [invalid_value(f"metadata.{key}", meta[key], why)])


def _spec(request: Obj, issuer: TokenIssuer) -> Obj:
    given = request.get("spec") or {}
    seconds = given.get("expirationSeconds")
    spec: Obj = {
        "audiences": list(given.get("audiences") or issuer.audiences),
        "expirationSeconds": 3600 if seconds is None else seconds,
        "boundObjectRef": given.get("boundObjectRef"),
    }
    problems = _problems(spec["expirationSeconds"])
    if given.get("attestations"):
        why = "attestations may only be specified with a webhook bound object reference"
        problems = [invalid_value("spec.attestations", given["attestations"], why)]
    if problems:
        raise invalid(GROUP, KIND, "", problems)
    return spec


def _problems(seconds: int) -> list[FieldError]:
    field = "spec.expirationSeconds"
    if seconds < MIN_SECONDS:
        why = "may not specify a duration less than 10 minutes"
        return [invalid_value(field, seconds, why)]
    if seconds > MAX_SECONDS:
        why = "may not specify a duration larger than 2^32 seconds"
        return [invalid_value(field, seconds, why)]
    return []


def _bound_object(
    ref: Obj | None, namespace: str, account: str, lookup: Lookup
) -> BoundObject | None:
    if not ref:
        return None
    kind, name, version = ref.get("kind", ""), ref.get("name", ""), ref.get("apiVersion", "")
    group, _, plain_version = version.rpartition("/")
    resource = _BINDABLE.get(kind)
    if group or resource is None:
        shown = f"{group}/{plain_version}, Kind={kind}"
        raise BadRequest(f"cannot bind token to object of type {shown}")
    found = lookup(resource, "" if kind == "Node" else namespace, name)
    if found is None:
        raise not_found("", resource, name)
    uid = found["metadata"].get("uid", "")
    if kind == "Pod" and found.get("spec", {}).get("serviceAccountName") != account:
        raise BadRequest(
            f'cannot bind token for serviceaccount "{account}" to pod running with different '
            "serviceaccount name."
        )
    if ref.get("uid") and ref["uid"] != uid:
        why = (
            f"the UID in the bound object reference ({ref['uid']}) does not match the UID in "
            "record. The object might have been deleted and then recreated"
        )
        raise conflict(group, kind, name, why)
    if kind != "Pod" or not (node_name := found["spec"].get("nodeName", "")):
        return BoundObject(kind, name, uid)
    node = lookup("nodes", "", node_name)
    node_uid = node["metadata"].get("uid", "") if node else ""
    return BoundObject(kind, name, uid, node_name=node_name, node_uid=node_uid)
