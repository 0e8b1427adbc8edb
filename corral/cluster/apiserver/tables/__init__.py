"""How the built-in kinds are printed: the columns and cells of ``kubectl get``.

``table_for`` never fails: a kind without a printer of its own gets its name and creation time.
Cells are those of a wide table, as the server always sends; the column's priority tells the client
which of them to leave out. ``columns`` holds the facts about columns, the other modules one
function a kind from an object to its cells. Custom kinds are printed by their definition instead.
"""

from __future__ import annotations

from corral.cluster.apiserver.tables.table import Table, table_for

__all__ = ["Table", "table_for"]
