"""How many watches a flow may have."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from corral.cluster.apiserver.fairness.watches import WatchLimit
from corral.kube import errors


def test_a_flow_has_so_many_watches_and_the_next_is_refused_for_a_second() -> None:
    limit = WatchLimit(2)
    with ExitStack() as held:
        held.enter_context(limit.one("a"))
        with limit.one("a"):
            with pytest.raises(errors.TooManyRequests, match="too many watches of a") as refused:
                held.enter_context(limit.one("a"))
            assert refused.value.retry_after == 1
            held.enter_context(limit.one("b"))
            held.enter_context(limit.one("a", exempt=True))
    with limit.one("a"), limit.one("a"):
        pass
