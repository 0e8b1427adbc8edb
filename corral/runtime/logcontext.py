"""Log lines that say which reconcile they belong to, as text or as JSON.

The reconcile is carried by a context variable, so that everything that is logged inside of one, by
whomever, can be told apart: `ReconcileFields` on a handler gives records ``controller``, ``object``
and ``reconcile_id``. `configure_logging` sets up a process. A line of JSON is one object: ``time``,
``level``, ``logger``, ``message``, these three where there is a reconcile, ``exception`` where
there is one, and whatever was passed as ``extra``. Writing a line never fails, and what a message
quotes is escaped: nobody writes lines of ours.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from textwrap import indent
from typing import Any, Literal, NamedTuple, TextIO

import orjson

from corral.kube.printable import printable, printable_json, printable_lines

__all__ = [
    "JsonFormatter",
    "LogFormat",
    "ReconcileContext",
    "ReconcileFields",
    "TextFormatter",
    "configure_logging",
    "current_reconcile",
    "reconciling",
]

LogFormat = Literal["text", "json"]
_OWN = ("controller", "object", "reconcile_id")
_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", *_OWN}


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


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        for name in _OWN:
            value = getattr(record, name, "")
            if value:
                line[name] = value
        for name, value in vars(record).items():
            if name not in _STANDARD:
                line.setdefault(name, value)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        if record.stack_info:
            line["stack"] = record.stack_info
        return _dumped(line)


class TextFormatter(logging.Formatter):
    """For people: time, level, logger, message, and the reconcile in brackets."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name}: {printable(_message(record))}"
        fields = [f"{name}={value}" for name in _OWN if (value := getattr(record, name, ""))]
        if fields:
            line += printable(f" [{' '.join(fields)}]")
        if record.exc_info:
            # indented: no line of it can be taken for one of ours
            line += "\n" + indent(printable_lines(self.formatException(record.exc_info)), "    ")
        return line


def configure_logging(
    format: LogFormat = "text", *, level: int | str = logging.INFO, stream: TextIO | None = None
) -> logging.Handler:
    """Have everything that this process logs written this way, and no other; the new handler."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    handler.addFilter(ReconcileFields())
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    return handler


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except (TypeError, ValueError):
        # Wrong arguments for the text: the line is worth more than the mistake.
        return f"{record.msg} {record.args}"


def _dumped(line: dict[str, Any]) -> str:
    try:
        made = orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        return printable_json(made)
    except (TypeError, ValueError):
        # Texts that are no UTF-8, numbers too large, things that cannot even be printed.
        return orjson.dumps({key: ascii(value) for key, value in line.items()}).decode()
