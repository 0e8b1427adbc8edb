"""Which reconcile a log line belongs to, carried by a context variable.

Everything that is logged inside a reconcile, by whomever, can be told apart: put `ReconcileFields`
on a handler, and records have ``controller``, ``object`` and ``reconcile_id``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

__all__ = ["ReconcileContext", "ReconcileFields", "current_reconcile", "reconciling"]


class ReconcileContext(NamedTuple):
    """One run of a reconciler."""

    controller: str
    key: str
    id: str


_current: ContextVar[ReconcileContext | None] = ContextVar("reconcile", default=None)


def current_reconcile() -> ReconcileContext | None:
    """The reconcile this code runs in."""
    return _current.get()


@contextmanager
def reconciling(context: ReconcileContext) -> Iterator[None]:
    """Everything within belongs to this reconcile."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


class ReconcileFields(logging.Filter):
    """Adds the fields of the present reconcile to a record; empty outside of one."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = _current.get()
        record.controller = context.controller if context else ""
        record.object = context.key if context else ""
        record.reconcile_id = context.id if context else ""
        return True
