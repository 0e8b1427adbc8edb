"""Two servers that get the same requests: ours, and kube-apiserver."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.backends import Backend
from tests.cluster.compare.normal import Normal, differences

JSON = "application/json"
AGENT = "compare/1.0"
NOTHING_CHANGED = '.metadata.resourceVersion: ours "same" theirs "new"'
"""kube-apiserver writes a change that is none when an empty list or map takes the place of none
and the second has changed since; ours never does."""
NULL = b"null"
NO_ANSWER = 0
"""The code of a connection that was closed without one: so ends a panic of kube-apiserver."""


@dataclass(frozen=True)
class Request:
    """One request, before the parts that differ between the servers are filled in.

    ``body`` may be bytes (sent as they are), NULL, or a value (sent as JSON). The words ``$RV`` and
    ``$UID`` in it and in the path stand for the resource version and uid that the server at hand
    gave to the object last seen under ``about``.
    """

    method: str
    path: str
    body: Any = None
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()
    token: str | None = None
    """None: the administrator; empty: nobody; ``$NAME``: the side's own token of that name."""
    about: str = ""

    def __str__(self) -> str:
        shown = self.body if isinstance(self.body, bytes) else json.dumps(self.body)
        extra = "".join(f" {k}: {v};" for k, v in self.headers)
        return f"{self.method} {self.path} [{self.content_type}]{extra} {shown[:4000]!r}"


@dataclass
class Answer:
    """What a server said."""

    code: int
    body: bytes
    content_type: str
    warnings: list[str]

    def value(self) -> Any:
        """The body as a value where it is JSON, else as text."""
        if self.content_type.split(";", 1)[0] == JSON:
            try:
                return json.loads(self.body)
            except ValueError:
                return {"not JSON": self.body.decode(errors="replace")}
        return self.body.decode(errors="replace")


class Side:
    """One server, over one connection that is kept."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.name = backend.name
        self._tls = ssl.create_default_context(cafile=backend.ca_file)
        self._connection: http.client.HTTPSConnection | None = None
        self.tokens: dict[str, str] = {}
        self.seen: dict[str, dict[str, Any]] = {}
        """By a request's ``about``: the newest metadata of the object."""

    def send(self, request: Request) -> Answer:
        meta = self.seen.get(request.about) or {}
        swaps = {"$RV": meta.get("resourceVersion", ""), "$UID": meta.get("uid", "")}
        body, path = _payload(request.body), request.path
        for word, value in swaps.items():
            if body:
                body = body.replace(word.encode(), value.encode())
            path = path.replace(word, value)
        answer = self._exchange(request, path, body)
        self._remember(request, answer)
        return answer

    def _exchange(self, request: Request, path: str, body: bytes | None) -> Answer:
        token = self.backend.token if request.token is None else request.token
        if token.startswith("$"):
            token = self.tokens[token[1:]]
        headers = {"User-Agent": AGENT}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        if body is not None and request.content_type:
            headers["Content-Type"] = request.content_type
        try:
            return self._once(request.method, path, body, headers, request.headers)
        except (http.client.HTTPException, ConnectionError, ssl.SSLError):
            self.close()  # a kept connection may have been closed by an earlier answer
        try:
            return self._once(request.method, path, body, headers, request.headers)
        except (http.client.HTTPException, ConnectionError, ssl.SSLError):
            self.close()
            return Answer(NO_ANSWER, b"", "", [])

    def _once(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: dict[str, str],
        extra: tuple[tuple[str, str], ...],
    ) -> Answer:
        connection = self._connection
        if connection is None:
            host, _, port = self.backend.server.removeprefix("https://").rpartition(":")
            connection = http.client.HTTPSConnection(host, int(port), context=self._tls, timeout=60)
            self._connection = connection
        connection._validate_path = lambda url: None  # type: ignore[attr-defined,method-assign]
        connection.putrequest(method, path, skip_accept_encoding=True)
        given = {name.lower() for name, _ in extra}
        for name, value in headers.items():
            if name.lower() not in given:
                connection.putheader(name, value)
        for name, value in extra:
            connection.putheader(name, value)
        if body is not None or method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(body or b"")))
        connection.endheaders(body)
        reply = connection.getresponse()
        data = reply.read()
        if reply.will_close:
            self.close()
        return Answer(
            reply.status,
            data,
            reply.getheader("Content-Type", "") or "",
            reply.headers.get_all("Warning") or [],
        )

    def _remember(self, request: Request, answer: Answer) -> None:
        if not request.about or answer.code not in (200, 201, 202) or "dryRun" in request.path:
            return
        value = answer.value()
        if isinstance(value, dict) and value.get("kind") not in (None, "Status"):
            meta = value.get("metadata") or {}
            if "uid" in meta:
                self.seen[request.about] = meta

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _payload(body: Any) -> bytes | None:
    if body is None or isinstance(body, bytes):
        return body
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


@dataclass
class Outcome:
    """Both answers to one request, and what is different between them."""

    request: Request
    ours: Answer
    theirs: Answer
    found: list[str] = field(default_factory=list)

    def report(self) -> str:
        lines = "\n".join(f"  {line}" for line in self.found)
        return f"{self.request}\n{lines}"


class Pair:
    """Both servers."""

    def __init__(self, ours: Backend, theirs: Backend) -> None:
        self.ours = Side(ours)
        self.theirs = Side(theirs)

    def send(self, request: Request, **how: Any) -> Outcome:
        """Send to both and compare; ``how`` goes to the normalisation."""
        old = [side.seen.get(request.about, {}) for side in (self.ours, self.theirs)]
        ours, theirs = self.ours.send(request), self.theirs.send(request)
        outcome = Outcome(request, ours, theirs)
        outcome.found = self._compare(outcome, old, how)
        return outcome

    def _compare(self, outcome: Outcome, old: list[dict[str, Any]], how: Any) -> list[str]:
        ours, theirs = outcome.ours, outcome.theirs
        if theirs.code == NO_ANSWER and ours.code >= 400:
            return []
        if ours.code != theirs.code:
            return [
                f"code: ours {ours.code} theirs {theirs.code}",
                f"ours: {ours.body[:1500].decode(errors='replace')}",
                f"theirs: {theirs.body[:1500].decode(errors='replace')}",
            ]
        strategic = "strategic" in outcome.request.content_type
        if strategic and ours.code == 500:
            # Which of several problems comes first depends on the order of Go's maps.
            how = {**how, "messages": False}
        left = Normal(old[0], **how).value(ours.value())
        right = Normal(old[1], **how).value(theirs.value())
        found = differences(left, right)
        if sorted(ours.warnings) != sorted(theirs.warnings):
            found.append(f"warnings: ours {ours.warnings} theirs {theirs.warnings}")
        if found == [NOTHING_CHANGED]:
            return []
        mine, other = (a.content_type.split(";", 1)[0] for a in (ours, theirs))
        if mine != other:
            found.append(f"content type: ours {mine} theirs {other}")
        return found

    def same(self, request: Request, **how: Any) -> Outcome:
        """Send to both; fail with everything that is different."""
        outcome = self.send(request, **how)
        assert not outcome.found, outcome.report()
        return outcome

    def both(self, action: Callable[[Side], object]) -> None:
        """Do the same on both sides, one after the other."""
        for side in (self.ours, self.theirs):
            action(side)

    def close(self) -> None:
        self.both(Side.close)
