"""Why a job waits or failed, as `corral.client` explains it, for notebooks and terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from corral.client.explain.explanation import Explanation
from corral.kube.printable import printable
from corral.sdk import display
from corral.sdk.display import escape

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Explained"]


class Explained(Explanation):
    """One sentence, what it rests on, and what to do."""

    __slots__ = ()

    @classmethod
    def of(cls, found: Explanation) -> Self:
        return cls(found.phase, found.headline, found.reasons, found.hints)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        reasons = "".join(f"<li>{escape(text)}</li>" for text in self.reasons)
        hints = "".join(f"<li><em>hint:</em> {escape(text)}</li>" for text in self.hints)
        return (
            f"<div>{display.coloured_html(self.phase)} <strong>{escape(self.headline)}</strong>"
            f"<ul>{reasons}{hints}</ul></div>"
        )

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        lines = [Text(printable(self.headline), style="bold")]
        lines += [Text(printable(f"  - {text}")) for text in self.reasons]
        lines += [Text(printable(f"  hint: {text}"), style="italic") for text in self.hints]
        return Group(*lines)
