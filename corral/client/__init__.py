"""Everything that can be asked about jobs of any kind, over a client of the Kubernetes API.

Start with `Jobs` (`client`); kinds are in `kinds`, errors in `errors`. There is no server and no
terminal in here: the gateway, the command line and the Python API are views on this package. Names
below are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.client.errors import FieldProblem, JobError
    from corral.client.explain.explanation import Explanation
    from corral.client.explain.podstates import PodSummary
    from corral.client.jobs import AnyKind, Jobs
    from corral.client.kinds import KINDS, JobKind, Role, kind_of, kind_of_object
    from corral.client.logs.marks import Position
    from corral.client.logs.query import LogChunk, LogQuery
    from corral.client.queries import SORT_KEYS, ListQuery, Page
    from corral.client.summary import Diagnosis, RoleCounts, Summary
    from corral.client.watching import Change

_HOMES = {
    "jobs": "AnyKind Jobs",
    "errors": "FieldProblem JobError",
    "explain.explanation": "Explanation",
    "kinds": "KINDS JobKind Role kind_of kind_of_object",
    "logs.marks": "Position",
    "logs.query": "LogChunk LogQuery",
    "explain.podstates": "PodSummary",
    "queries": "SORT_KEYS ListQuery Page",
    "summary": "Diagnosis RoleCounts Summary",
    "watching": "Change",
}

__all__ = [
    "KINDS",
    "SORT_KEYS",
    "AnyKind",
    "Change",
    "Diagnosis",
    "Explanation",
    "FieldProblem",
    "JobError",
    "JobKind",
    "Jobs",
    "ListQuery",
    "LogChunk",
    "LogQuery",
    "Page",
    "PodSummary",
    "Position",
    "Role",
    "RoleCounts",
    "Summary",
    "kind_of",
    "kind_of_object",
]

__getattr__ = lazily(__name__, _HOMES)
