"""A cloud for each case."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator

import pytest

from tests.clouds.harness import CLOUDS, Cloud

HAS_LIBRARIES = importlib.util.find_spec("moto") is not None
"""The clouds' own; else test_aws_apart.py runs what needs them, in a venv that has them."""
NEED_LIBRARIES = ("test_aws_provider.py", "test_aws_moto.py", "test_sdk_shapes.py")
collect_ignore = [] if HAS_LIBRARIES else list(NEED_LIBRARIES)


@pytest.fixture(params=sorted(name for name in CLOUDS if HAS_LIBRARIES or name != "aws"))
async def cloud(request: pytest.FixtureRequest) -> AsyncIterator[Cloud]:
    async with CLOUDS[request.param]() as made:
        yield made
