"""What training loops hand over as numbers: Python's, NumPy's, tensors of one element.

A value that is none is left out or null, with one warning a name, and never raises: a report is
not worth a training run.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger("corral.inpod")

MOST = 64
"""Metrics of one report; the operator takes no more."""
_LARGEST = 1 << 53

_warned: set[str] = set()


def count(name: str, value: Any) -> int | None:
    """A whole number >= 0; None if it is none."""
    if value is None:
        return None
    try:
        number = int(value)
    except Exception as error:  # a tensor may raise anything
        warn_once(name, f"{name} is no number: {error}")
        return None
    if not 0 <= number < _LARGEST:
        warn_once(name, f"{name}={number} is not between 0 and 2**53")
        return None
    return number


def metrics(values: Mapping[str, Any]) -> dict[str, float | None]:
    """Finite floats; what is NaN, infinite or no number at all is null."""
    found: dict[str, float | None] = {}
    for name, value in values.items():
        if len(found) == MOST:
            warn_once("metrics", f"there are more than {MOST} metrics; the others are left out")
            break
        found[str(name)[:128]] = _finite(str(name), value)
    return found


def warn_once(key: str, message: str) -> None:
    """Logs a warning, the first time only."""
    if key not in _warned:
        _warned.add(key)
        log.warning("%s", message)


def _finite(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = float(value)
    except Exception as error:  # a tensor may raise anything
        warn_once(f"metric {name}", f"metric {name} is no number: {error}")
        return None
    return number if math.isfinite(number) else None
