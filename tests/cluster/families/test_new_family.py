"""The family of docs/new-family.md: it is what the page says, and it works."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.runtime import Manager
from corral.runtime.family import wiring
from tests.backends import Backend
from tests.cluster.families.greetings.family import Greetings
from tests.cluster.families.greetings.kind import GREETINGS
from tests.cluster.families.greetings.settings import GreetingSettings
from tests.cluster.objects import Objects, eventually
from tests.cluster.operators import OperatorThread

FOLDER = Path(__file__).parent / "greetings"
MOST_FILES = 4


@pytest.fixture(scope="module")
def running(served: str) -> Iterator[None]:
    def add(manager: Manager) -> None:
        wiring.register(manager, Greetings(GreetingSettings()))

    operator = OperatorThread(served, add).start()
    yield
    operator.kill()


@pytest.fixture
def backend(embedded: Backend) -> Backend:
    return embedded


def test_a_greeting_is_written_and_changed(running: None, objects: Objects) -> None:
    version, plural = GREETINGS.api_version, GREETINGS.plural
    objects.create(
        plural,
        {
            "apiVersion": version,
            "kind": "Greeting",
            "metadata": {"name": "hello"},
            "spec": {"text": "hello", "cards": 2},
        },
    )
    eventually(lambda: _phase(objects) == ("Ready", 2))
    assert objects.get("v1", "configmaps", "hello-1")["data"] == {"text": "hello"}
    objects.patch(version, plural, "hello", {"spec": {"text": "hi", "cards": 1}})
    eventually(lambda: objects.find("v1", "configmaps", "hello-1") is None)
    eventually(lambda: objects.get("v1", "configmaps", "hello-0")["data"] == {"text": "hi"})
    eventually(lambda: _phase(objects) == ("Ready", 1))
    # somebody takes a card away: it is written again
    objects.delete("v1", "configmaps", "hello-0")
    eventually(lambda: objects.find("v1", "configmaps", "hello-0"))


def _phase(objects: Objects) -> tuple[str | None, int | None]:
    status = objects.get(GREETINGS.api_version, GREETINGS.plural, "hello").get("status") or {}
    return status.get("phase"), status.get("cards")


def test_the_page_shows_what_is_there(repository: Path) -> None:
    page = (repository / "docs/new-family.md").read_text()
    code = _bare("".join(path.read_text() for path in sorted(FOLDER.glob("*.py"))))
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(blocks) >= 6
    for block in blocks:
        assert _bare(block) in code, block


def _bare(source: str) -> str:
    """Without what the formatter decides, which sees other line lengths on the page."""
    return re.sub(r",(?=[)\]}])", "", re.sub(r"\s+", "", source))


def test_few_files_are_touched_outside_the_folder(repository: Path) -> None:
    page = (repository / "docs/new-family.md").read_text()
    files = re.findall(r"^\| `(corral/[^`]+)` \|", page, re.MULTILINE)
    assert 0 < len(files) <= MOST_FILES
    assert all((repository / path).is_file() for path in files)
