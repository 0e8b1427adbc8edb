"""In the new process: give everything up, then call the function.

Three processes come of it. The first keeps watch (`watch`) and ends as the last one does; the
second is the first of the new PID namespace, which ends with it; the third is confined and runs
the code. Without namespaces there is no second.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from corral.podtools.confine.errors import ConfineError
from corral.podtools.confine.kernel import prctl
from corral.podtools.confine.landlock import unknown_rights
from corral.podtools.confine.namespaces import Entered, become, enter
from corral.podtools.confine.rules import Limits, confine, own_files
from corral.podtools.confine.view import HOME
from corral.podtools.confine.watch import Watched, watch

__all__ = ["NO_NAMESPACES", "UNCONFINED", "main"]

UNCONFINED: Final = 113
"""What it ends with where this machine cannot keep it in."""
NO_NAMESPACES: Final = 118
"""What it ends with where it can have no namespaces: it must be started anew without."""
_PARENT_DEATH: Final = 1


@dataclass(frozen=True, slots=True)
class _LaunchRequest:
    """What it is started for, as `process.Start` writes it down."""

    function: str
    arguments: list[str]
    path: list[str]
    readable: list[str]
    writable: list[str]
    limits: Limits
    namespaces: bool
    temporary: str
    lacking: list[str]
    demanded: list[str]
    control: int


@dataclass(frozen=True, slots=True)
class _Place:
    """The place where the confined process will run."""

    entered: Entered | None
    home: str
    proc: int
    folders: Sequence[int]
    missing: Sequence[str]


def main() -> None:
    """Run what the first word of the command line says."""
    words: dict[str, Any] = json.loads(sys.argv[1])
    words["control"] = _lowered(words["control"])
    request = _LaunchRequest(**{**words, "limits": Limits(**words["limits"])})
    sys.argv[1:] = []
    sys.path[:] = [folder for folder in request.path if os.path.isabs(folder)]
    _begin(request, _placed(request))


def _lowered(control: int) -> int:
    """The one descriptor that it was given, as the lowest: so what is above is closed for sure."""
    if control > 3:
        os.dup2(control, 3)
        os.close(control)
    os.closerange(4, 4096)
    return 3


def _say(code: int, why: object) -> NoReturn:
    os.write(1, f"{why}\n".encode(errors="replace"))
    os._exit(code)


def _placed(request: _LaunchRequest) -> _Place:
    missing = [*request.lacking, *unknown_rights()]
    _refuse_if(request, missing)
    if not request.namespaces:
        from corral.podtools.confine.plain import make_home

        home, folders = make_home(request.temporary, request.writable)
        proc = os.open("/proc", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        return _Place(None, home, proc, folders, missing)
    root = os.geteuid() == 0
    try:
        size = min(request.limits.disk, request.limits.memory)
        entered = enter([*own_files(), *request.readable], request.writable, size)
    except OSError as err:
        _say(NO_NAMESPACES, err)
    if entered.user is None and root:
        missing.append("user")
        _refuse_if(request, missing)
    return _Place(entered, HOME, entered.proc, entered.folders, missing)


def _refuse_if(request: _LaunchRequest, missing: Sequence[str]) -> None:
    lacking = [name for name in request.demanded if name in missing]
    if lacking:
        _say(UNCONFINED, f"this machine does not give what is demanded: {', '.join(lacking)}")


def _begin(request: _LaunchRequest, place: _Place) -> NoReturn:
    os.environ.update(HOME=place.home, TMPDIR=place.home)
    first = _first() if place.entered is not None else 0
    starting, started = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child == 0:
        os.close(starting)
        _run(request, place, started)
    os.close(started)
    confined = os.read(starting, 1) == b"1"
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nothing, fd)
    parent = socket.socket(fileno=request.control)
    if confined:
        _report(parent, place)
    watched = Watched(
        child, request.limits, place.proc, parent.fileno(), place.folders, place.entered is not None
    )
    code = watch(watched)
    if first:
        os.kill(first, signal.SIGKILL)
    if place.entered is None:
        from corral.podtools.confine.plain import remove

        remove(place.home)
    _end(code, confined)


def _report(parent: socket.socket, place: _Place) -> None:
    """Tell whoever started it what it lacks, and give the folders that are in memory."""
    text = json.dumps({"missing": list(place.missing)}).encode()
    folders = list(place.folders[1:]) if place.entered is not None else []
    try:
        if folders:
            socket.send_fds(parent, [text], folders)
        else:
            parent.send(text)
    except (BrokenPipeError, ConnectionResetError):
        return  # nobody waits for it: the watch ends it


def _end(code: int, confined: bool) -> NoReturn:
    """End as the process did."""
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    if not confined:
        os._exit(UNCONFINED)
    os._exit(code)


def _first() -> int:
    """The first process of a PID namespace: it waits for our end, and with it end all others."""
    # nobody writes to it; it ends when we do
    ours, _ = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child:
        os.close(ours)
        return child
    os.dup2(ours, 0)
    os.closerange(1, 4096)
    os.read(0, 1)
    os._exit(0)


def _run(request: _LaunchRequest, place: _Place, started: int) -> NoReturn:
    """In the process that runs the code."""
    try:
        if place.entered is not None:
            become(place.entered)
        prctl("parent death", _PARENT_DEATH, signal.SIGKILL)
        os.chdir(place.home)
        os.closerange(3, started)
        os.closerange(started + 1, 4096)
        confine(request.readable, [*request.writable, place.home], request.limits)
    except (ConfineError, OSError, ValueError) as err:
        _say(UNCONFINED, err)
    os.write(started, b"1")
    os.close(started)
    from importlib import import_module

    module, _, function = request.function.partition(":")
    sys.exit(getattr(import_module(module), function)(request.arguments))
