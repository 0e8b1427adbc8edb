"""One client's work: its environment in, its envelope out.

A client is a function of the environment that a participant's task has. It may do as the program
in a pod does, read `$FL_DIR/model` and write `$FL_DIR/update` and `$FL_DIR/result.json`; or return
the envelope, with the payload as bytes under `update`.
"""

from __future__ import annotations

import base64
import hashlib
import importlib
import importlib.util
import json
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

Client = Callable[[Mapping[str, str]], Mapping[str, Any] | None]

INLINE = 64 << 10
"""Bytes of an update that travels in its envelope; a larger one stays in a file."""


class ClientProblem(Exception):
    """There is no such client, or it cannot be loaded."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one client is to do."""

    client: str
    env: Mapping[str, str]
    keep: str = ""
    """Where a large update goes."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it: the envelope, or why there is none."""

    client: str
    seconds: float
    results: dict[str, Any] = field(default_factory=dict)
    error: str = ""


def load(spec: str) -> Client:
    """The function of ``module:function`` or ``file.py:function``.

    Raises:
        ClientProblem: there is none.
    """
    where, _, name = spec.rpartition(":")
    if not where or not name:
        raise ClientProblem(f"{spec!r} names no client: say module:function or file.py:function")
    module = _module(where)
    found = getattr(module, name, None)
    if not callable(found):
        raise ClientProblem(f"{where} has no function {name!r}")
    client: Client = found
    return client


def _module(where: str) -> ModuleType:
    path = Path(where)
    try:
        if path.suffix != ".py":
            return importlib.import_module(where)
        # what lies beside it can be imported, as when it is run
        sys.path.insert(0, str(path.resolve().parent))
        loaded = importlib.util.spec_from_file_location(path.stem, path)
        assert loaded is not None and loaded.loader is not None
        module = importlib.util.module_from_spec(loaded)
        sys.modules[path.stem] = module
        loaded.loader.exec_module(module)
        return module
    except (ImportError, OSError, SyntaxError) as error:
        raise ClientProblem(f"the client {where} cannot be loaded: {error}") from error


def answer(client: Client, work: Work, folder: Path) -> Answer:
    """One client's work, in a folder of its own; never raises what the client raises."""
    for name in ("update", "result.json", "progress.json"):
        (folder / name).unlink(missing_ok=True)
    started = time.perf_counter()
    try:
        returned = client({**work.env, "FL_DIR": str(folder)})
        results = _results(work, folder, returned)
    except (Exception, SystemExit) as error:
        reason = str(error) or traceback.format_exception_only(error)[-1].strip()
        return Answer(work.client, time.perf_counter() - started, error=reason)
    return Answer(work.client, time.perf_counter() - started, results=results)


def _results(work: Work, folder: Path, returned: Mapping[str, Any] | None) -> dict[str, Any]:
    payload: bytes | None = None
    if returned is not None:
        results = dict(returned)
        payload = results.pop("update", None)
    elif (folder / "result.json").exists():
        results = json.loads((folder / "result.json").read_text())
    else:
        return {}
    if payload is None and (folder / "update").exists():
        payload = (folder / "update").read_bytes()
    if payload is not None:
        results |= _carried(work, payload)
    return results


def _carried(work: Work, payload: bytes) -> dict[str, Any]:
    if len(payload) <= INLINE:
        return {"update_b64": base64.b64encode(payload).decode()}
    target = Path(work.keep) / work.client
    target.write_bytes(payload)
    digest = hashlib.sha256(payload).hexdigest()
    return {"update_ref": f"file://{target}@sha256:{digest}", "update_bytes": len(payload)}
