"""Values that cases are repeated with: some in every run, the others in `make test-full`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest


def matrix(*always: Any, full: Sequence[Any] = ()) -> list[Any]:
    """Parameters of a fixture or of cases.

    Args:
        always: run by ``make test``.
        full: marked ``full``: ``make test-full`` runs them as well.
    """
    return [*always, *(pytest.param(value, marks=pytest.mark.full) for value in full)]


def seeds(count: int, *, always: int) -> list[Any]:
    """Numbers from 0, the first ones of which are run by ``make test``."""
    return matrix(*range(always), full=range(always, count))
