"""WasmTasks: a proplet is chosen (`placing`), what runs the task is made (`objects`, `couriers`).

`observation` is what is known of a task: what has become of its Job (`state`), and what running
tasks say when they are asked (`watching`); `family` decides by that, and `status` makes statuses;
`waking` says who is looked at when. Names are loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.families.federated.tasks.family import register

__all__ = ["register"]

__getattr__ = lazily(__name__, {"family": "register"})
