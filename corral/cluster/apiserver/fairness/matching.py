"""Which flow schema a request falls under, and which flow of it."""

from __future__ import annotations

from typing import Any

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.requests import RequestInfo
from corral.cluster.apiserver.turns import flow_of
from corral.kube.types import Obj

__all__ = ["FlowSchema"]

_ACCOUNT = "system:serviceaccount:"


class FlowSchema:
    """One schema, ready to match."""

    __slots__ = ("_by", "_rules", "level", "name", "precedence", "uid")

    def __init__(self, obj: Obj) -> None:
        spec = obj["spec"]
        self.name: str = obj["metadata"]["name"]
        self.uid: str = obj["metadata"].get("uid", "")
        self.level: str = spec["priorityLevelConfiguration"]["name"]
        self.precedence: int = spec["matchingPrecedence"]
        self._by = (spec.get("distinguisherMethod") or {}).get("type", "")
        self._rules: list[Obj] = spec.get("rules") or []

    def matches(self, user: UserInfo, info: RequestInfo) -> bool:
        return any(self._rule(rule, user, info) for rule in self._rules)

    def _rule(self, rule: Obj, user: UserInfo, info: RequestInfo) -> bool:
        if not any(_subject(subject, user) for subject in rule.get("subjects") or ()):
            return False
        if info.resource:
            return any(_resource(r, info) for r in rule.get("resourceRules") or ())
        return any(_path(r, info) for r in rule.get("nonResourceRules") or ())

    def flow(self, user: UserInfo, info: RequestInfo) -> str:
        """What tells flows of this schema apart.

        All service accounts of a namespace are one user here: a tenant makes as many as it likes.
        """
        if self._by == "ByUser":
            return f"{self.name}/{flow_of(user)}"
        return f"{self.name}/{info.namespace}" if self._by == "ByNamespace" else self.name


def _subject(subject: Obj, user: UserInfo) -> bool:
    match subject.get("kind"):
        case "User":
            name = (subject.get("user") or {}).get("name")
            return name in ("*", user.name)
        case "Group":
            name = (subject.get("group") or {}).get("name")
            return name == "*" or name in user.groups
        case _:
            account = subject.get("serviceAccount") or {}
            prefix = f"{_ACCOUNT}{account.get('namespace', '')}:"
            if account.get("name") == "*":
                return user.name.startswith(prefix)
            return user.name == prefix + str(account.get("name", ""))


def _has(wanted: Any, value: str) -> bool:
    return value in wanted or "*" in wanted


def _resource(rule: Obj, info: RequestInfo) -> bool:
    if not _has(rule.get("verbs") or (), info.verb):
        return False
    if not _has(rule.get("apiGroups") or (), info.group):
        return False
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    if not _has(rule.get("resources") or (), resource):
        return False
    if not info.namespace:
        return bool(rule.get("clusterScope"))
    return _has(rule.get("namespaces") or (), info.namespace)


def _path(rule: Obj, info: RequestInfo) -> bool:
    if not _has(rule.get("verbs") or (), info.verb):
        return False
    for url in rule.get("nonResourceURLs") or ():
        if url in ("*", info.path) or (url.endswith("/*") and info.path.startswith(url[:-1])):
            return True
    return False
