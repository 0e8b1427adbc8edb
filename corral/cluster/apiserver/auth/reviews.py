"""The review kinds: questions about identity and rights that are answered, not stored.

Each function takes the review as sent and returns it with its status, or raises what the real
server answers. Inputs are not mutated.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from corral.cluster.apiserver.auth.attributes import Attributes, Authorize
from corral.cluster.apiserver.auth.authentication import Authenticator
from corral.cluster.apiserver.auth.authorization import Authorizer
from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.errors import FieldError, invalid, invalid_value, required
from corral.kube.errors import BadRequest
from corral.kube.types import Obj

__all__ = [
    "local_subject_access_review",
    "self_subject_access_review",
    "self_subject_review",
    "self_subject_rules_review",
    "subject_access_review",
    "token_review",
]

AUTHORIZATION = "authorization.k8s.io"
AUTHENTICATION = "authentication.k8s.io"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def subject_access_review(review: Obj, authorize: Authorize) -> Obj:
    """Whether somebody may do something. Raises: Invalid."""
    spec = _spec(review)
    problems = _spec_problems(spec) + _subject_problems(spec)
    _refuse(problems + _metadata_problems(review, (), "must be empty"))
    return _answer(review, "SubjectAccessReview", _subject(spec), authorize)


def local_subject_access_review(review: Obj, namespace: str, authorize: Authorize) -> Obj:
    """Whether somebody may do something in one namespace. Raises: Invalid, BadRequest."""
    spec = _spec(review)
    problems = _spec_problems(spec) + _subject_problems(spec)
    problems += _metadata_problems(review, ("namespace",), "must be empty except for namespace")
    meta = {"namespace": namespace, **(review.get("metadata") or {})}
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and resource.get("namespace", "") != meta["namespace"]:
        field = "spec.resourceAttributes.namespace"
        why = "must match metadata.namespace"
        problems.append(invalid_value(field, resource.get("namespace", ""), why))
    if path is not None:
        why = "disallowed on this kind of request"
        problems.append(invalid_value("spec.nonResourceAttributes", _internal(path), why))
    _refuse(problems)
    if meta["namespace"] != namespace:
        why = f"spec.resourceAttributes.namespace must match namespace: {namespace}"
        raise BadRequest(why)
    located = {**review, "metadata": meta}
    return _answer(located, "LocalSubjectAccessReview", _subject(spec), authorize)


def self_subject_access_review(review: Obj, user: UserInfo, authorize: Authorize) -> Obj:
    """Whether the caller may do something. Raises: Invalid."""
    _refuse(_spec_problems(_spec(review)) + _metadata_problems(review, (), "must be empty"))
    return _answer(review, "SelfSubjectAccessReview", user, authorize)


def self_subject_rules_review(review: Obj, user: UserInfo, authorizer: Authorizer) -> Obj:
    """All the rights of the caller in a namespace. Raises: BadRequest."""
    namespace = _spec(review).get("namespace")
    if not namespace:
        raise BadRequest("no namespace on request")
    rules, incomplete, error = authorizer.rules_for(user, namespace)
    status: Obj = {
        "resourceRules": [
            _picked(rule.source, ("verbs", "apiGroups", "resources", "resourceNames"))
            for rule in rules
            if rule.resources
        ],
        "nonResourceRules": [
            _picked(rule.source, ("verbs", "nonResourceURLs")) for rule in rules if rule.urls
        ],
        "incomplete": incomplete,
    }
    if error:
        status["evaluationError"] = error
    return {
        "kind": "SelfSubjectRulesReview",
        "apiVersion": f"{AUTHORIZATION}/v1",
        "metadata": {},
        "spec": {},
        "status": status,
    }


def self_subject_review(user: UserInfo, *, now: datetime | None = None) -> Obj:
    """Who the caller is."""
    moment = (now or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": "SelfSubjectReview",
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": {"creationTimestamp": moment},
        "status": {"userInfo": user.as_object()},
    }


def token_review(review: Obj, authenticator: Authenticator) -> Obj:
    """Whose a token is. Raises: BadRequest."""
    spec = _spec(review)
    if not spec.get("token"):
        raise BadRequest("token is required for TokenReview in authentication")
    return {
        "kind": "TokenReview",
        "apiVersion": f"{AUTHENTICATION}/v1",
        "metadata": review.get("metadata") or {},
        "spec": spec,
        "status": authenticator.token_review(spec),
    }


def _spec(review: Obj) -> Obj:
    return review.get("spec") or {}


def _picked(rule: Obj, keys: Sequence[str]) -> Obj:
    return {key: rule[key] for key in keys if rule.get(key)}


def _answer(review: Obj, kind: str, user: UserInfo, authorize: Authorize) -> Obj:
    spec = _spec(review)
    decision = authorize(_attributes(spec, user))
    status: Obj = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return {
        "kind": kind,
        "apiVersion": f"{AUTHORIZATION}/v1",
        "metadata": review.get("metadata") or {},
        "spec": spec,
        "status": status,
    }


def _subject(spec: Obj) -> UserInfo:
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    groups = tuple(spec.get("groups") or ())
    return UserInfo(spec.get("user", ""), spec.get("uid", ""), groups, extra)


def _attributes(spec: Obj, user: UserInfo) -> Attributes:
    asked = spec.get("resourceAttributes")
    if asked is None:
        asked = spec["nonResourceAttributes"]
        verb, path = asked.get("verb", ""), asked.get("path", "")
        return Attributes(user, verb, resource_request=False, path=path)
    return Attributes(
        user,
        asked.get("verb", ""),
        asked.get("namespace", ""),
        asked.get("group", ""),
        asked.get("version") or "*",
        asked.get("resource", ""),
        asked.get("subresource", ""),
        asked.get("name", ""),
        field_selector=_field_selector(asked.get("fieldSelector") or {}),
    )


def _field_selector(selector: Obj) -> str:
    terms = [
        f"{term.get('key')}={term['values'][0]}"
        for term in selector.get("requirements") or ()
        if term.get("operator") == "In" and len(term.get("values") or ()) == 1
    ]
    return ",".join(terms) or str(selector.get("rawSelector", ""))


def _refuse(problems: Sequence[FieldError]) -> None:
    if problems:
        # The kind stays out: the real server has lost it by the time it validates.
        raise invalid(AUTHORIZATION, "", "", problems)


def _spec_problems(spec: Obj) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    problems = []
    if (resource is None) == (path is None):
        problems.append(invalid_value("spec", None if path is None else _internal(path), _ONE_OF))
    for kind in ("fieldSelector", "labelSelector"):
        selector = (resource or {}).get(kind)
        if selector is not None:
            problems += _selector_problems(selector, f"spec.resourceAttributes.{kind}")
    return problems


def _selector_problems(selector: Obj, field: str) -> list[FieldError]:
    raw, requirements = selector.get("rawSelector"), selector.get("requirements")
    if raw and requirements:
        why = "may not specified at the same time as requirements"
        return [invalid_value(f"{field}.rawSelector", raw, why)]
    if not raw and not requirements:
        why = f"when {field} is specified, requirements or rawSelector is required"
        return [required(f"{field}.requirements", why)]
    return []


def _subject_problems(spec: Obj) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid_value("spec.user", "", "at least one of user or group must be specified")]


def _metadata_problems(review: Obj, allowed: Sequence[str], why: str) -> list[FieldError]:
    meta: dict[str, Any] = review.get("metadata") or {}
    ignored = {"managedFields", "creationTimestamp", *allowed}
    if any(value for key, value in meta.items() if key not in ignored):
        return [invalid_value("metadata", meta, why)]
    return []


def _internal(path: Obj) -> Obj:
    """The attributes the way the server's internal type prints them."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}
