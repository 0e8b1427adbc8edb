"""Sending a signed request from this process, with retries, and store errors for answers.

Of what a server answers, errors have the status and a code that stores are known to use: the server
may be anybody's, and the error is shown to whoever named it.
"""

from __future__ import annotations

import http.client
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from corral.checkpoints.errors import (
    AlreadyExists,
    NotFound,
    PermissionDenied,
    StoreError,
    StoreUnavailable,
)
from corral.checkpoints.signing.base import SignedRequest
from corral.egress.dialing import checked, opener
from corral.egress.policy import EgressPolicy, EndpointRefused

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_ANSWER: Final = 8 << 20
"""Bytes of an answer that are read; a list of a thousand uploads has less than one."""
KNOWN_CODES: Final = frozenset(
    {
        "AccessDenied", "AccountIsDisabled", "AuthenticationFailed", "AuthorizationFailure",
        "AuthorizationPermissionMismatch", "BlobAlreadyExists", "BlobNotFound",
        "BucketAlreadyExists", "ConditionNotMet", "ContainerNotFound", "EntityTooLarge",
        "ExpiredToken", "InternalError", "InvalidAccessKeyId", "InvalidArgument",
        "InvalidAuthenticationInfo", "InvalidBucketName", "InvalidPart", "InvalidRequest",
        "InvalidToken", "NoSuchBucket", "NoSuchKey", "NoSuchUpload", "NotImplemented",
        "OperationTimedOut", "PermanentRedirect", "PreconditionFailed", "QuotaExceeded",
        "RequestTimeTooSkewed", "RequestTimeout", "ServerBusy", "ServiceUnavailable",
        "SignatureDoesNotMatch", "SlowDown", "UserProjectMissing",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """Body and headers of a success."""

    body: bytes
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Sender:
    """Sends requests; time and chance are parameters."""

    attempts: int = 5
    first_pause: float = 0.1
    """Seconds; doubles with each attempt, and each pause is a random share of it."""
    timeout: float = 60.0
    """Seconds that the server may be silent."""
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random
    egress: EgressPolicy | None = None
    """Which servers may be called; None: any, for requests of the user's own process."""

    def send(self, request: SignedRequest, body: bytes | None = None) -> Answer:
        """Sends until a final answer.

        Raises:
            StoreError: of the kind that fits the answer.
        """
        for attempt in range(self.attempts):
            try:
                return self._once(request, body)
            except StoreUnavailable:
                if attempt + 1 == self.attempts:
                    raise
            self.sleep(self.first_pause * 2**attempt * self.chance())
        raise AssertionError("the loop returns or raises")

    def _once(self, request: SignedRequest, body: bytes | None) -> Answer:
        headers = {"Content-Type": "application/octet-stream", **request.headers}
        prepared = urllib.request.Request(
            request.url, data=body, headers=headers, method=request.method
        )
        try:
            with self._open(prepared) as answer:
                found = answer.read(MAX_ANSWER + 1)
                if len(found) > MAX_ANSWER:
                    raise StoreError(f"{_where(request)}: more than {MAX_ANSWER} bytes in answer")
                return Answer(found, dict(answer.headers.items()))
        except EndpointRefused as error:
            raise StoreError(str(error)) from error
        except urllib.error.HTTPError as error:
            with error:
                raise error_of(error.code, error.read(4096), request) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", None)  # urllib wraps what its connections raise
            if isinstance(reason, EndpointRefused):
                raise StoreError(str(reason)) from error
            raise StoreUnavailable(f"{_where(request)}: {_cause(error)}") from error

    def _open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        found: http.client.HTTPResponse
        if self.egress is None:
            found = urllib.request.urlopen(request, timeout=self.timeout)
        else:
            checked(self.egress, request.full_url)
            found = opener(self.egress).open(request, timeout=self.timeout)
        return found


def error_of(status: int, body: bytes, request: SignedRequest) -> StoreError:
    """The error that an answer means."""
    detail = f"{_where(request)}: {status} {known_code(body.decode(errors='replace'))}".rstrip()
    if status in _TRANSIENT:
        return StoreUnavailable(f"{detail}; the store is overloaded or down, try again later")
    if status in (401, 403):
        return PermissionDenied(f"{detail}; check the credentials and what they may do")
    if status == 404:
        return NotFound(detail)
    if status in (409, 412):
        return AlreadyExists(f"{detail}; the object is there already")
    return StoreError(detail)


def known_code(text: str) -> str:
    """The code of an error in an answer; empty where it is none that stores are known to use."""
    found = re.search(r"<Code>([A-Za-z]{1,64})</Code>", text)
    return found.group(1) if found and found.group(1) in KNOWN_CODES else ""


def _cause(error: Exception) -> str:
    """What failed in our words: protocol errors quote what the server sent."""
    if isinstance(error, http.client.HTTPException):
        return f"no proper answer ({type(error).__name__})"
    return str(error)


def _where(request: SignedRequest) -> str:
    return f"{request.method} {request.url.partition('?')[0]}"
