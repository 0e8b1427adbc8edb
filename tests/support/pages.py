"""The pages of documentation, and the examples in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))
PAGES: Final = ("README.md", "SECURITY.md", *DOCS)
BLOCK: Final = re.compile(r"^ *```(\w*)\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


def text(page: str) -> str:
    return (ROOT / page).read_text()


def blocks(page: str, *languages: str) -> Iterator[str]:
    """The examples of a page in these languages; ``""`` for those that name none."""
    return (m[2] for m in BLOCK.finditer(text(page)) if m[1] in languages)
