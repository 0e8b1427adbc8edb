"""What all chosen stories came to.

Stories mostly wait, so many are told at the same time; each case then looks at its own.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.jobs import (
    stories_counts,
    stories_cron,
    stories_indexed,
    stories_life,
    stories_policies,
)
from tests.cluster.jobs.telling import STORIES, tell

RECORDED = Path(__file__).parent / "recorded.json"
AT_ONCE = 12
__all__ = ["stories_counts", "stories_cron", "stories_indexed", "stories_life", "stories_policies"]


def tell_all(backend: Backend, names: list[str]) -> dict[str, Any]:
    """By name: what a story came to, or why it did not end."""
    expected = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}

    def one(name: str) -> Any:
        try:
            return tell(backend, name, expected.get(name))
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


@pytest.fixture(scope="session")
def told(backend: Backend, request: pytest.FixtureRequest) -> dict[str, Any]:
    """The stories of all cases that were chosen."""
    names = [
        item.callspec.params["name"]
        for item in request.session.items
        if isinstance(item, pytest.Function)
        and item.originalname == "test_story"
        and item.callspec.params.get("name") in STORIES
    ]
    # The longest waits begin first.
    names.sort(key=lambda name: name != "every-minute")
    return tell_all(backend, names)
