"""Lives of jobs, as kube-controller-manager was seen to conduct them.

``recorded.json`` holds what kube-controller-manager 1.37.1 did in every story; a run on either
backend must come to the same. ``CORRAL_RECORD=1 CORRAL_BACKEND=real`` writes it anew.
"""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.backends import Backend
from tests.cluster.jobs.conftest import RECORDED
from tests.cluster.jobs.telling import STORIES, tell

pytestmark = pytest.mark.timeout(600)
RECORDING = os.environ.get("CORRAL_RECORD") == "1"


@pytest.mark.parametrize("name", STORIES)
def test_story(name: str, told: dict[str, Any], backend: Backend) -> None:
    expected = json.loads(RECORDED.read_text()).get(name) if RECORDED.exists() else None
    # a case that is run again must not look at the same telling
    found = told.pop(name, None) or tell(backend, name, expected)
    if RECORDING:
        assert backend.name == "real", "only what kube-controller-manager does is worth recording"
        _record(name, found)
        expected = found
    assert isinstance(found, dict), found
    assert found["story"] == expected["story"]
    assert found["events"] == expected["events"]


def _record(name: str, told: Any) -> None:
    known = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    known[name] = told
    ordered = {key: known[key] for key in STORIES if key in known}
    RECORDED.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
