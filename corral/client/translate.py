"""Errors of the Kubernetes API as errors of this package, with the words that help.

`translating` wraps a request: whatever the API server or the connection answers becomes a
`JobError` that names the object, the namespace and, where rights are missing, who lacks which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from corral.client import errors
from corral.client.errors import FieldProblem, JobError
from corral.client.kinds import JobKind
from corral.kube import errors as kube
from corral.kube.connection.config import ConfigError
from corral.kube.connection.transport import KubeConnectionError
from corral.kube.resources import Resource

__all__ = ["ApiRequest", "translated", "translating"]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What was asked of the API server."""

    verb: str
    resource: Resource
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    @classmethod
    def of(cls, verb: str, kind: JobKind, namespace: str | None, *, name: str = "") -> ApiRequest:
        return cls(verb, kind.resource, namespace, name)

    @property
    def what(self) -> str:
        """``MPIJob pi`` or ``MPIJobs``."""
        return f"{self.resource.kind} {self.name!r}" if self.name else f"{self.resource.kind}s"

    @property
    def where(self) -> str:
        if not self.resource.namespaced:
            return "in this cluster"
        return f"in namespace {self.namespace!r}" if self.namespace else "in all namespaces"

    @property
    def target(self) -> str:
        """As RBAC and ``kubectl auth`` write it: ``mpijobs.kubeflow.org/status``."""
        tail = f"/{self.subresource}" if self.subresource else ""
        return f"{self.resource.qualified}{tail}"


@contextmanager
def translating(asked: ApiRequest) -> Iterator[None]:
    """Raise what goes wrong inside as a `JobError`."""
    try:
        yield
    except (kube.ApiError, KubeConnectionError, ConfigError) as error:
        raise translated(error, asked) from error


def translated(error: Exception, asked: ApiRequest) -> JobError:
    """The error of this package for one of the client's."""
    if isinstance(error, JobError):
        return error
    if isinstance(error, kube.ApiError):
        make = next((make for cls, make in _MAKERS if isinstance(error, cls)), _other)
        return make(error, asked)
    if isinstance(error, ConfigError):
        return errors.Unauthorized(f"no credentials to ask with: {error}")
    return errors.Unavailable(
        f"the API server gave no answer: {error}",
        hint="is the cluster up, and is the kubeconfig the right one? `corral up` starts one here",
    )


_WHO = re.compile(r'User "([^"]*)" cannot (\w+) resource "([^"]*)" in API group "([^"]*)"')
_IN_NAMESPACE = re.compile(r'in the namespace "([^"]*)"')


def _forbidden(error: kube.ApiError, asked: ApiRequest) -> JobError:
    if "exceeded quota" in error.message:
        return errors.QuotaExceeded(
            f"there is no room for {asked.what} {asked.where}: {_tail(error.message)}",
            hint=f"look at what is used with `kubectl describe quota -n {asked.namespace}`, "
            "ask for less, or wait until something ends",
            namespace=asked.namespace or "",
        )
    detail = _WHO.search(error.message)
    if detail is None:
        # Admission, a namespace that is being deleted, …: not a matter of rights.
        return errors.Forbidden(
            f"{asked.what} {asked.where} was refused: {_tail(error.message)}",
            verb=asked.verb,
            resource=asked.target,
            namespace=asked.namespace or "",
        )
    return _lacks_right(detail, error, asked)


def _lacks_right(detail: re.Match[str], error: kube.ApiError, asked: ApiRequest) -> JobError:
    user, verb, resource, group = detail.groups()
    found = _IN_NAMESPACE.search(error.message)
    namespace = found.group(1) if found else ""
    plain, _, subresource = resource.partition("/")
    target = f"{plain}.{group}" if group else plain
    target = f"{target}/{subresource}" if subresource else target
    where = f"in namespace {namespace!r}" if namespace else "in the whole cluster"
    flag = f" -n {namespace}" if namespace else " --all-namespaces"
    bindings = "rolebindings,clusterrolebindings" if namespace else "clusterrolebindings"
    check = f"kubectl auth can-i {verb} {target}{flag}"
    return errors.Forbidden(
        f"{user} may not {verb} {target} {where}",
        hint=f"whoever may edit roles there can grant it; `kubectl get {bindings}{flag} -o wide` "
        f"(as one who may) shows who has which role, `{check} --as USER` whether USER may",
        user=user,
        verb=verb,
        resource=target,
        namespace=namespace,
    )


def _tail(message: str) -> str:
    """What comes after ``… is forbidden: ``."""
    return message.partition(" is forbidden: ")[2] or message


def _not_found(error: kube.ApiError, asked: ApiRequest) -> JobError:
    named = error.details.get("name")
    if named and error.details.get("kind") == "namespaces":
        return errors.NotFound(
            f"there is no namespace {named!r}",
            hint=f"create it with `kubectl create namespace {named}`, or name another one",
        )
    if not named:
        return errors.NotInstalled(
            f"this cluster does not know {asked.resource.kind}s ({asked.resource.qualified})",
            hint="run `corral install` to add the definitions and the operator",
        )
    plural = asked.resource.plural
    flag = f" -n {asked.namespace}" if asked.namespace else ""
    return errors.NotFound(
        f"there is no {asked.what} {asked.where}",
        hint=f"`corral get {plural}{flag}` lists those that are there",
    )


def _invalid(error: kube.ApiError, asked: ApiRequest) -> JobError:
    causes = error.details.get("causes") or ()
    fields = tuple(
        FieldProblem(
            str(cause.get("field") or ""),
            str(cause.get("message") or ""),
            str(cause.get("reason") or ""),
        )
        for cause in causes
        if isinstance(cause, dict)
    )
    return errors.Invalid(error.message, fields=fields)


_STRICT: Final = re.compile(r'(unknown|duplicate) field "([^"]*)"')


def _bad_request(error: kube.ApiError, asked: ApiRequest) -> JobError:
    """A field that the kind does not have is a mistake of the object, like any other."""
    found = _STRICT.findall(error.message) if "strict decoding" in error.message else []
    if not found:
        return errors.BadRequest(error.message)
    fields = tuple(FieldProblem(path, f"{word} field", "FieldValueInvalid") for word, path in found)
    listed = ", ".join(f"{word} field {path}" for word, path in found)
    return errors.Invalid(
        f"{asked.what} is wrong: {listed}",
        fields=fields,
        hint=f"`kubectl explain {asked.resource.plural} --recursive` lists the fields there are",
    )


def _exists(error: kube.ApiError, asked: ApiRequest) -> JobError:
    name = asked.name or str(error.details.get("name") or "")
    return errors.AlreadyExists(
        f"{asked.resource.kind} {name!r} {asked.where} exists already",
        hint="choose another name, or delete or restart the one that is there",
    )


def _conflict(error: kube.ApiError, asked: ApiRequest) -> JobError:
    return errors.Changed(
        f"{asked.what} {asked.where} was changed by somebody else: {error.message}",
        hint="read it again and repeat the change",
    )


def _unauthorized(error: kube.ApiError, asked: ApiRequest) -> JobError:
    return errors.Unauthorized(
        "the API server does not accept these credentials",
        hint="the token may have expired: log in again, or make a new one with "
        "`kubectl create token SERVICEACCOUNT`",
    )


def _unavailable(error: kube.ApiError, asked: ApiRequest) -> JobError:
    return errors.Unavailable(
        f"the API server cannot answer now: {error.message}", retry_after=error.retry_after
    )


def _timeout(error: kube.ApiError, asked: ApiRequest) -> JobError:
    if "Too large resource version" in error.message:  # one that this server has never given
        return errors.Expired(error.message)
    return _unavailable(error, asked)


def _other(error: kube.ApiError, asked: ApiRequest) -> JobError:
    if error.status_code == 404:
        return _not_found(error, asked)
    if error.status_code >= 500:
        return errors.ServerError(f"the API server failed: {error.message}")
    return errors.BadRequest(error.message)


_MAKERS = (
    (kube.Forbidden, _forbidden),
    (kube.NotFound, _not_found),
    (kube.Invalid, _invalid),
    (kube.AlreadyExists, _exists),
    (kube.Conflict, _conflict),
    (kube.Unauthorized, _unauthorized),
    (kube.BadRequest, _bad_request),
    (kube.Gone, lambda error, asked: errors.Expired(error.message)),
    (kube.RequestEntityTooLarge, lambda error, asked: errors.TooLarge(error.message)),
    (
        kube.TooManyRequests,
        lambda error, asked: errors.TooManyRequests(error.message, retry_after=error.retry_after),
    ),
    (kube.ServiceUnavailable, _unavailable),
    (kube.ServerTimeout, _unavailable),
    (kube.Timeout, _timeout),
)
