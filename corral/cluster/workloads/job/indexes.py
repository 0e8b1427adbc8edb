"""Sets of completion indexes, in the compressed form of ``status.completedIndexes``.

``1,3-5,7`` holds 1, 3, 4, 5 and 7. Two neighbours are written ``3,4``, three or more ``3-5``.
Every operation is linear in the number of intervals, not of indexes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from corral.cluster.workloads.job import names
from corral.kube.types import Obj

__all__ = [
    "IndexSet",
    "absolute_failure_count",
    "completion_index",
    "failure_count",
    "ignored_failure_count",
    "indexes_of",
]

_MAX_INT32 = 2**31 - 1


@dataclass(frozen=True, slots=True)
class IndexSet:
    """Disjoint, ordered, non-touching closed intervals."""

    intervals: tuple[tuple[int, int], ...] = ()

    @staticmethod
    def parse(text: str, completions: int) -> IndexSet:
        """Reads the compressed form; what is broken or not below ``completions`` is left out."""
        found: list[tuple[int, int]] = []
        for part in text.split(",") if text else ():
            first_text, dash, last_text = part.partition("-")
            if not first_text.isdecimal() or (dash and not last_text.isdecimal()):
                continue
            first = int(first_text)
            if first >= completions:
                break
            last = min(int(last_text), completions - 1) if dash else first
            if found and found[-1][1] == first - 1:
                found[-1] = (found[-1][0], last)
            else:
                found.append((first, last))
        return IndexSet(tuple(found))

    @staticmethod
    def of(indexes: Iterable[int]) -> IndexSet:
        return IndexSet().union(IndexSet(tuple((i, i) for i in sorted(set(indexes)))))

    def union(self, other: IndexSet) -> IndexSet:
        merged: list[tuple[int, int]] = []
        for first, last in sorted((*self.intervals, *other.intervals)):
            if not merged or first > merged[-1][1] + 1:
                merged.append((first, last))
            elif last > merged[-1][1]:
                merged[-1] = (merged[-1][0], last)
        return IndexSet(tuple(merged))

    def overlap(self, other: IndexSet) -> int:
        """How many indexes are in both."""
        count = here = there = 0
        while here < len(self.intervals) and there < len(other.intervals):
            (a, b), (c, d) = self.intervals[here], other.intervals[there]
            count += max(0, min(b, d) - max(a, c) + 1)
            here, there = here + (b <= d), there + (d <= b)
        return count

    def missing(self, below: int, limit: int) -> list[int]:
        """The first ``limit`` indexes under ``below`` that are not in the set."""
        return [i for i, _ in zip(self._gaps(below), range(limit), strict=False)]

    def _gaps(self, below: int) -> Iterator[int]:
        candidate = 0
        for first, last in self.intervals:
            yield from range(candidate, min(first, below))
            candidate = max(candidate, last + 1)
        yield from range(candidate, below)

    def __contains__(self, index: int) -> bool:
        at = bisect_left(self.intervals, index, key=lambda interval: interval[1])
        return at < len(self.intervals) and self.intervals[at][0] <= index

    def __len__(self) -> int:
        return sum(last - first + 1 for first, last in self.intervals)

    def __str__(self) -> str:
        return ",".join(_written(first, last) for first, last in self.intervals)


def _written(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first},{last}" if last == first + 1 else f"{first}-{last}"


def completion_index(pod: Obj) -> int | None:
    """The index a pod works on; None when it has none that can be read."""
    text = (pod["metadata"].get("annotations") or {}).get(names.COMPLETION_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def indexes_of(pods: Iterable[Obj]) -> IndexSet:
    return IndexSet.of(i for i in map(completion_index, pods) if i is not None)


def _counter(pod: Obj, annotation: str) -> int:
    """A count kept in an annotation; anyone may have written it, so nonsense is 0."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation, "")
    number = int(text) if text.isascii() and text.isdecimal() else 0
    return number if number <= _MAX_INT32 else 0


def failure_count(pod: Obj) -> int:
    """Failures of the pod's index before this pod that count."""
    return _counter(pod, names.INDEX_FAILURE_COUNT)


def ignored_failure_count(pod: Obj) -> int:
    """Failures of the pod's index before this pod that a rule said to ignore."""
    return _counter(pod, names.INDEX_IGNORED_FAILURE_COUNT)


def absolute_failure_count(pod: Obj) -> int:
    return failure_count(pod) + ignored_failure_count(pod)
