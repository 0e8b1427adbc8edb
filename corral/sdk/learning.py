"""What a federated job has learned, for notebooks and terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from corral.sdk import display

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Metrics"]

_COLUMNS: Final = ("round", "phase", "updates", "rejected", "samples", "loss", "accuracy", "bytes")


class Metrics(dict[str, Any]):
    """What REST answers at ``/metrics``; shown as a table of its rounds."""

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """The first one first; each with its ``participants``."""
        return list(self.get("rounds") or ())

    @property
    def proplets(self) -> list[dict[str, Any]]:
        """Each over all rounds."""
        return list(self.get("proplets") or ())

    def _rows(self) -> list[list[str]]:
        rows = []
        for found in self.rounds:
            flat = {**found, **(found.get("metrics") or {})}
            rows.append([_cell(flat.get(column)) for column in _COLUMNS])
        return rows

    def _repr_html_(self) -> str:
        return display.table_html(_COLUMNS, self._rows(), "no rounds yet")

    def __rich__(self) -> RenderableType:
        return display.table(_COLUMNS, self._rows())


def _cell(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
