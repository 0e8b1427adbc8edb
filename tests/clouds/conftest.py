"""A cloud for each case."""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator

import pytest

from tests.clouds.harness import CLOUDS, Cloud


@pytest.fixture(params=sorted(CLOUDS))
async def cloud(request: pytest.FixtureRequest) -> AsyncIterator[Cloud]:
    if request.param == "aws" and importlib.util.find_spec("boto3") is None:
        pytest.skip("no boto3 here: test_aws_apart.py runs these cases where it is")
    async with CLOUDS[request.param]() as made:
        yield made
