"""WasmTasks: a proplet is chosen (`placing`), what runs the task is made (`objects`, `couriers`).

`controller` takes one look at one task, by what has become of its Job (`state`), and writes what is
known (`status`); `watching` asks running tasks for partial results and readings. Names are loaded
when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.families.federated.tasks.reconciler import register

__all__ = ["register"]

__getattr__ = lazily(__name__, {"reconciler": "register"})
