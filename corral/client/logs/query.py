"""What is asked of a log (`LogQuery`), and what it gives (`LogChunk`), whoever answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from corral.client.errors import BadRequest, FieldProblem
from corral.client.logs.marks import Position
from corral.client.roles import Role
from corral.client.times import parse_time

__all__ = ["LogChunk", "LogQuery"]

_FLAGS = ("follow", "timestamps", "previous")


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which logs, and how much of them."""

    roles: tuple[str] | tuple[str, int] | None = None
    """``("launcher",)``, ``("worker", 3)``; none for all pods."""
    container: str | None = None
    """A name, ``*`` for all containers; none for the main one."""
    follow: bool = False
    tail_lines: int | None = None
    """Of each container that is there when the logs are first asked for."""
    since_time: str | None = None
    """RFC 3339, counted in whole seconds as everywhere in the API."""
    timestamps: bool = False
    previous: bool = False
    """Of the attempt before the present one."""
    position: Position | str | None = None
    """To go on after the chunk that had it."""

    def checked(self) -> LogQuery:
        """The same with ``since_time`` as a whole second in UTC. Raises BadRequest."""
        if self.tail_lines is not None and self.tail_lines < 0:
            raise BadRequest("tailLines must be 0 or more")
        if self.previous and self.follow:
            raise BadRequest("the previous attempt is over: it cannot be followed")
        if not self.since_time:
            return self
        since = parse_time(self.since_time)
        if since is None:
            raise BadRequest(
                f"sinceTime {self.since_time!r} is no time", hint="as in 2026-01-31T12:00:00Z"
            )
        return replace(self, since_time=since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))

    def as_params(self) -> dict[str, str]:
        """The query parameters of the gateway's REST API; absent values are left out."""
        role, index = (*(self.roles or ()), None, None)[:2]
        texts = {
            **{name: "true" if getattr(self, name) else "" for name in _FLAGS},
            "tailLines": self.tail_lines,
            "sinceTime": self.since_time,
            "container": self.container,
            "role": role,
            "index": index,
            "position": self.position,
        }
        return {name: str(text) for name, text in texts.items() if text is not None and str(text)}

    @classmethod
    def of_params(cls, given: Mapping[str, Any]) -> LogQuery:
        """Of the parameters that `as_params` writes, once they are read.

        Raises:
            BadRequest: there is an index without a role.
        """
        role, index = given.get("role"), given.get("index")
        since: datetime | None = given["sinceTime"]
        if index is not None and not role:
            wrong = FieldProblem("index", "needs a role")
            raise BadRequest("index needs a role", fields=(wrong,))
        return cls(
            roles=((role,) if index is None else (role, index)) if role else None,
            container=given["container"] or None,
            tail_lines=given["tailLines"],
            since_time=since.astimezone(UTC).isoformat() if since else None,
            position=given["position"] or None,
            **{name: given[name] for name in _FLAGS},
        )


@dataclass(frozen=True, slots=True)
class LogChunk:
    """Whole lines of one container."""

    pod: str
    role: Role
    container: str
    data: bytes
    position: Position = field(default_factory=Position)
    """The place after it, in this container and in all others; ``str`` of it may be kept."""
