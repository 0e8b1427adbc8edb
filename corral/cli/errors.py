"""What goes wrong, as one line with a hint and an exit code that scripts can use.

    0  done            1  it failed            2  wrong usage       3  not found
    4  not allowed     5  not in time          6  conflict          7  refused as invalid
    8  no cluster      130  interrupted

Errors of the layers below are told by `trouble_of`; those of this package are `Trouble`.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = [
    "CONFLICT",
    "FAILED",
    "FORBIDDEN",
    "INTERRUPTED",
    "INVALID",
    "NOT_FOUND",
    "TIMEOUT",
    "UNREACHABLE",
    "USAGE",
    "Trouble",
    "trouble_of",
]

FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
FORBIDDEN: Final = 4
TIMEOUT: Final = 5
CONFLICT: Final = 6
INVALID: Final = 7
UNREACHABLE: Final = 8
INTERRUPTED: Final = 130

_START: Final = "start one here with `corral up --detach`, or choose one with --kubeconfig"
_CODES: Final = {
    400: USAGE, 401: FORBIDDEN, 403: FORBIDDEN, 404: NOT_FOUND, 405: USAGE, 409: CONFLICT,
    412: CONFLICT, 413: INVALID, 422: INVALID, 429: UNREACHABLE, 503: UNREACHABLE, 504: TIMEOUT,
}  # fmt: skip
_HINTS: Final = {
    FORBIDDEN: "ask an administrator for a role, or choose another namespace with -n",
    CONFLICT: "inspect it with `corral describe`, or choose another --name",
    INVALID: "correct the fields named here; `kubectl explain` lists all fields",
    UNREACHABLE: "try again",
    TIMEOUT: "increase --timeout",
}


class Trouble(Exception):
    """Something that a person can do something about."""

    def __init__(self, message: str, *, code: int = FAILED, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.message}; {self.hint}" if self.hint else self.message
        return " ".join(text.split())


def trouble_of(err: BaseException) -> Trouble | None:
    """The trouble that an error of the layers below means; none for a mistake of our own."""
    if isinstance(err, Trouble):
        return err
    for step in (_of_surroundings, _of_jobs, _of_api):
        found = step(err)
        if found is not None:
            return found
    return None


def _of_surroundings(err: BaseException) -> Trouble | None:
    from corral.kube import ConfigError, KubeConnectionError

    if isinstance(err, ConfigError):
        text = str(err)
        known = ("context", "certificate", "token", "exec")
        hint = "" if any(word in text for word in known) else _START
        return Trouble(text, code=UNREACHABLE, hint=hint)
    if isinstance(err, KubeConnectionError):
        return _of_connection(str(err))
    if isinstance(err, TimeoutError):
        return Trouble(str(err) or "timed out", code=TIMEOUT, hint="increase --timeout")
    if isinstance(err, FileNotFoundError):
        return Trouble(
            f"there is no file {err.filename}",
            code=NOT_FOUND,
            hint="check the path; it is relative to the current directory",
        )
    if isinstance(err, OSError) and err.filename:
        return Trouble(f"cannot use {err.filename}: {err.strerror}", hint="check its permissions")
    return None


def _of_connection(text: str, *, hint: str = "") -> Trouble:
    lower = text.lower()
    if any(
        words in lower for words in ("connect call failed", "connection refused", "getaddrinfo")
    ):
        hint = f"is it running? {_START}"
    elif "expired" in lower:
        hint = "the certificate has expired: renew the kubeconfig (`corral up` writes a new one)"
    elif "certificate" in lower or "ssl" in lower or "tls" in lower:
        hint = "the kubeconfig is outdated or for another cluster: choose one with --kubeconfig"
    elif not hint:
        hint = f"is it running? {_START}"
    return Trouble(text, code=UNREACHABLE, hint=hint)


def _of_jobs(err: BaseException) -> Trouble | None:
    from corral.client import errors

    if not isinstance(err, errors.JobError):
        return None
    code = _CODES.get(err.code, FAILED)
    if isinstance(err, errors.UnknownKind):
        code = USAGE
    elif isinstance(err, errors.NeverHappens):
        code = FAILED
    unknown = re.search(r"\.(\S+): field not declared in schema", err.message)
    if unknown:
        return Trouble(f"there is no field {unknown[1]}", code=INVALID, hint=_HINTS[INVALID])
    if isinstance(err, errors.Unavailable):
        return _of_connection(err.message, hint=err.hint)
    hint = err.hint or (_not_found_hint(err.message) if code == NOT_FOUND else "")
    return Trouble(err.message, code=code, hint=hint or _HINTS.get(code, ""))


def _of_api(err: BaseException) -> Trouble | None:
    from corral.kube import errors

    if not isinstance(err, errors.ApiError):
        return None
    code = _CODES.get(err.status_code, FAILED)
    hint = _not_found_hint(err.message) if code == NOT_FOUND else _HINTS.get(code, "")
    return Trouble(err.message, code=code, hint=hint)


def _not_found_hint(text: str) -> str:
    namespace = re.search(r'namespaces "([^"]+)" not found', text)
    if namespace:
        return (
            f"create it with `kubectl create namespace {namespace[1]}`, or choose another with -n"
        )
    return "`corral get` lists the jobs; -n chooses the namespace"
