"""Sending a signed request from this process, with retries, and store errors for answers."""

from __future__ import annotations

import http.client
import random
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from corral.checkpoints.errors import (
    AlreadyExists,
    NotFound,
    PermissionDenied,
    StoreError,
    StoreUnavailable,
)
from corral.checkpoints.signing.base import SignedRequest

_TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


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
            with urllib.request.urlopen(prepared, timeout=self.timeout) as answer:
                return Answer(answer.read(), dict(answer.headers.items()))
        except urllib.error.HTTPError as error:
            with error:
                raise error_of(error.code, error.read(4096), request) from error
        except (OSError, http.client.HTTPException) as error:
            raise StoreUnavailable(f"{_where(request)}: {error}") from error


def error_of(status: int, body: bytes, request: SignedRequest) -> StoreError:
    """The error that an answer means."""
    code = re.search(rb"<Code>([^<]+)</Code>", body)
    detail = f"{_where(request)}: {status} {code.group(1).decode() if code else ''}".rstrip()
    if status in _TRANSIENT:
        return StoreUnavailable(f"{detail}; the store is overloaded or down, try again later")
    if status in (401, 403):
        return PermissionDenied(f"{detail}; check the credentials and what they may do")
    if status == 404:
        return NotFound(detail)
    if status in (409, 412):
        return AlreadyExists(f"{detail}; the object is there already")
    return StoreError(detail)


def _where(request: SignedRequest) -> str:
    return f"{request.method} {request.url.partition('?')[0]}"
