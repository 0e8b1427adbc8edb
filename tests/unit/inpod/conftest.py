from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from inpod_operator import Operator, running

from corral.inpod import values
from corral.inpod.environment import Environment
from corral.inpod.patience import Backoff
from corral.inpod.replica import Replica


@pytest.fixture
def operator() -> Iterator[Operator]:
    with running(Operator()) as found:
        yield found


@pytest.fixture(autouse=True)
def forget_warnings() -> Iterator[None]:
    values._warned.clear()
    yield


@pytest.fixture
def replica(tmp_path: Path, operator: Operator) -> Iterator[Callable[..., Replica]]:
    """Makes replicas that end with the test, while the operator still answers."""
    made: list[Replica] = []

    def make(**options: Any) -> Replica:
        defaults: dict[str, Any] = {
            "job": "mnist",
            "job_uid": "uid-1",
            "attempt": 1,
            "checkpoint_dir": str(tmp_path / "volume"),
            "interval": 0.0,
        }
        environment = Environment(**{**defaults, **options})
        found = Replica(environment, pace=0.0, backoff=quick)
        made.append(found)
        return found

    yield make
    for found in made:
        found.close()


def quick() -> Backoff:
    return Backoff(base=0.001, cap=0.01)
