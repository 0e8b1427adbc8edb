"""What pods send: models that refuse everything else."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from corral.api.fields import Model
from corral.operator.reports.errors import Malformed

__all__ = [
    "Announcement",
    "Commit",
    "CommitFile",
    "Rejection",
    "Report",
    "RestoreRequest",
    "RestoredNote",
    "UploadFile",
    "UploadRequest",
    "parsed",
]

MAX_METRICS = 64
MAX_FILES = 20_000


def _metrics(value: Any) -> Any:
    """Numbers that are none (NaN, infinite) are left out: JSON and Kubernetes know no such."""
    if not isinstance(value, dict):
        return value
    return {
        name: float(number) if isinstance(number, int) and not isinstance(number, bool) else number
        for name, number in value.items()
        if number is not None and not (isinstance(number, float) and not math.isfinite(number))
    }


Step = Annotated[int, Field(ge=0, lt=1 << 53)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Identifier = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Message = Annotated[str, StringConstraints(max_length=4096)]
Metrics = Annotated[dict[Name, float], BeforeValidator(_metrics), Field(max_length=MAX_METRICS)]
RequestName = Annotated[str, StringConstraints(max_length=512)]


class Body(Model):
    model_config = ConfigDict(allow_inf_nan=True)


class RestoredNote(Body):
    """The checkpoint that a replica started from."""

    id: Identifier
    step: Step | None = None


class Rejection(Body):
    """A checkpoint that a replica found to be damaged."""

    id: Identifier
    reason: Annotated[str, StringConstraints(max_length=128)] = ""
    message: Message = ""


class Report(Body):
    """How far a replica is, and what happened to it meanwhile."""

    replica: Step = 0
    attempt: Step | None = None
    step: Step | None = None
    total: Step | None = None
    epoch: Annotated[float, Field(ge=0, lt=1 << 53)] | None = None
    """May be a part of one; the status has whole ones."""
    metrics: Metrics = Field(default_factory=dict)
    sharded: bool | None = None
    """Whether its checkpoints are made by all replicas at the same step; None: not known yet."""
    restored: RestoredNote | None = None
    rejected: Annotated[list[Rejection], Field(max_length=100)] = Field(default_factory=list)
    deleted: Annotated[list[Identifier], Field(max_length=10_000)] = Field(default_factory=list)


class Announcement(Body):
    """A checkpoint that is complete on a volume."""

    id: Identifier
    manifest: dict[str, Any]
    duration: Annotated[float, Field(ge=0)] | None = None
    request: RequestName | None = None


class UploadFile(Body):
    """One file that a replica has."""

    path: Annotated[str, StringConstraints(min_length=1, max_length=900)]
    size: Step
    sha256: Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class UploadRequest(Body):
    """Asks for URLs to store a checkpoint, or the replica's part of it."""

    step: Step
    replica: Step = 0
    of: Annotated[int, Field(ge=1, le=99_999)] = 1
    attempt: Step | None = None
    files: Annotated[list[UploadFile], Field(max_length=MAX_FILES)]
    metrics: Metrics = Field(default_factory=dict)
    request: RequestName | None = None


class CommitFile(UploadFile):
    """One file that was stored."""

    upload: Annotated[str, StringConstraints(max_length=4096)] | None = None
    """As in the answer to the request for URLs."""
    etags: Annotated[list[str], Field(max_length=10_000)] = Field(default_factory=list)
    """Of the answers to its parts, in order."""


class Commit(Body):
    """All files of this replica are stored."""

    replica: Step = 0
    of: Annotated[int, Field(ge=1, le=99_999)] = 1
    attempt: Step | None = None
    files: Annotated[list[CommitFile], Field(max_length=MAX_FILES)]
    metrics: Metrics | None = None
    request: RequestName | None = None
    duration: Annotated[float, Field(ge=0)] | None = None


class RestoreRequest(Body):
    """Asks what to start from."""

    from_: Annotated[str, StringConstraints(max_length=4096)] = Field(
        default="latest", alias="from"
    )


B = TypeVar("B", bound=Body)


def parsed(model: type[B], content: bytes) -> B:
    """The body of a request.

    Raises:
        Malformed: with everything that is wrong with it.
    """
    try:
        document = json.loads(content or b"{}")
    except (ValueError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    try:
        return model.model_validate(document)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(map(str, found['loc'])) or 'body'}: {found['msg']}"
            for found in error.errors(include_url=False)[:10]
        )
        raise Malformed(wrong) from error
