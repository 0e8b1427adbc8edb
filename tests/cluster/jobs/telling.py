"""All stories by name, and how one is told on a backend."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.backends import Backend
from tests.cluster.jobs.stage import Stage

Story = Callable[[Stage], None]
STORIES: dict[str, Story] = {}


def story(function: Story) -> Story:
    """Register a case; its name is the function's."""
    name = function.__name__.replace("_", "-")
    assert name not in STORIES, name
    STORIES[name] = function
    return function


def tell(backend: Backend, name: str, expected: Any = None) -> dict[str, Any]:
    """Run a case; what it wrote down, and what was said about the job.

    Events are written beside the work: they are read until they are the ``expected`` ones, or
    until no more have come for a while.
    """
    stage = Stage(backend)
    stage.open()
    try:
        STORIES[name](stage)
        wanted = (expected or {}).get("events")
        return {"story": stage.story, "events": _settled(stage, wanted)}
    finally:
        stage.close()


def _settled(stage: Stage, wanted: Any) -> Any:
    events, quiet_since = stage.events(), time.monotonic()
    while events != wanted and time.monotonic() - quiet_since < (1.0 if wanted is None else 4.0):
        time.sleep(0.1)
        now = stage.events()
        if now != events:
            events, quiet_since = now, time.monotonic()
    return events
