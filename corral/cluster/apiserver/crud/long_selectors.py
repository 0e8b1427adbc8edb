"""Label selectors of many kilobytes, read a little at a time.

Five thousand terms take some twenty milliseconds: too long for the event loop, and a thread would
compete with it for the interpreter.
"""

from __future__ import annotations

from collections.abc import Iterator

from corral.cluster.apiserver.crud.selecting import Conditions, Test
from corral.cluster.apiserver.fairness.dispatch import breathe
from corral.kube.selectors import SelectorError, parse_labels

__all__ = ["PIECE", "read_labels"]

PIECE = 768
"""Characters that are read before others have their turn."""


async def read_labels(text: str) -> Test | None:
    """A test for labels; None where the selector cannot be read like that.

    Then it is wrong, or has a list of values that is long by itself.
    """
    conditions = Conditions()
    for piece in _pieces(text):
        if not piece.strip() or len(piece) > 2 * PIECE:
            return None
        try:
            conditions.add(parse_labels(piece).requirements)
        except SelectorError:
            return None
        await breathe()
    return conditions.hold_for_labels


def _pieces(text: str) -> Iterator[str]:
    """Parts of a selector that are selectors themselves."""
    start = 0
    while len(text) - start > PIECE:
        cut = _cut(text, start + PIECE)
        yield text[start:cut]
        start = cut + 1
    yield text[start:]


def _cut(text: str, at: int) -> int:
    """The first comma between two terms from there on; where there is none, the end.

    A comma is one between two values where a bracket is closed before the next is opened.
    """
    while True:
        cut = text.find(",", at)
        if cut < 0:
            return len(text)
        closes, opens = text.find(")", cut), text.find("(", cut)
        if closes < 0 or 0 <= opens < closes:
            return cut
        at = closes
