"""Whether a user may do what it asks of this node: subresources of the Node, asked of the API."""

from __future__ import annotations

import logging
from functools import partial

from corral.cluster.node.server.identity import User, answered
from corral.cluster.node.server.memory import Memory
from corral.kube.client import KubeClient, KubeConnectionError
from corral.kube.connection.config import ConfigError
from corral.kube.errors import ApiError
from corral.kube.types import Obj

log = logging.getLogger(__name__)

ALLOWED_TTL = 300.0
DENIED_TTL = 30.0
REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
VERBS = {"POST": "create", "GET": "get", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_SUBRESOURCES = {
    "stats": ("stats",),
    "metrics": ("metrics",),
    "logs": ("log",),
    "checkpoint": ("checkpoint",),
    "pods": ("pods", "proxy"),
    "runningpods": ("pods", "proxy"),
    "healthz": ("healthz", "proxy"),
    "livez": ("healthz", "proxy"),
    "configz": ("configz", "proxy"),
}
Question = tuple[User, str, str]
"""User, verb, subresource."""


class Forbidden(Exception):
    """The words and the status to answer with."""

    def __init__(self, message: str, *, code: int = 403) -> None:
        super().__init__(message)
        self.code = code


def subresources_of(root: str) -> tuple[str, ...]:
    """What of a Node a path is about, by its first part; to be allowed one of them is enough.

    Constraints: ``root`` must be the very text by which the request finds its handler.
    """
    return _SUBRESOURCES.get(root, ("proxy",))


class Authority:
    """Asks by SubjectAccessReview."""

    def __init__(self, client: KubeClient, memory: Memory[Question, bool], *, node: str) -> None:
        self._client = client
        self._memory = memory
        self._node = node

    async def check(self, user: User, method: str, root: str) -> None:
        """Raises Forbidden; with code 500 when the API server cannot be asked."""
        verb = VERBS.get(method, "")
        subresources = subresources_of(root)
        for subresource in subresources:
            question = (user, verb, subresource)
            try:
                allowed = await self._memory.get(question, partial(self._review, question))
            except (ApiError, KubeConnectionError, ConfigError) as err:
                log.warning("access to this node could not be reviewed: %s", err)
                raise Forbidden(
                    f"Authorization error (user={user.name}, verb={verb}, resource=nodes, "
                    f"subresource={subresource})",
                    code=500,
                ) from err
            if allowed:
                return
        raise Forbidden(
            f"Forbidden (user={user.name}, verb={verb}, resource=nodes, "
            f"subresource(s)=[{' '.join(subresources)}])\n"
        )

    async def _review(self, question: Question) -> tuple[bool, float]:
        user, verb, subresource = question
        spec: Obj = {
            "user": user.name,
            "groups": list(user.groups),
            "resourceAttributes": {
                "verb": verb,
                "version": "v1",
                "resource": "nodes",
                "subresource": subresource,
                "name": self._node,
            },
        }
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        }
        status = await answered(self._client, REVIEWS, review)
        allowed = bool(status.get("allowed")) and not status.get("denied")
        return allowed, ALLOWED_TTL if allowed else DENIED_TTL
