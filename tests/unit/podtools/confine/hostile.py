"""What code that nobody vouches for may try; each returns 0 where it succeeded."""

from __future__ import annotations

import ctypes
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path


def compute(words: list[str]) -> int:
    import numpy as np

    total: list[float] = []
    thread = threading.Thread(target=lambda: total.append(float(np.ones(10).sum())))
    thread.start()
    thread.join()
    (Path(words[0]) / "answer").write_text(f"{total[0]} {Path(words[1]).read_text()}")
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] > 0
    return 0


def leave(words: list[str]) -> int:
    return int(words[0])


def attempt(words: list[str]) -> int:
    what, *rest = words
    try:
        ATTEMPTS[what](*rest)
    except OSError as err:
        print(f"{type(err).__name__}: {err.strerror}")
        return 1
    except MemoryError:
        print("MemoryError")
        return 1
    print("it could")
    return 0


def _read(path: str) -> None:
    Path(path).read_bytes()


def _list(path: str) -> None:
    os.listdir(path)


def _write(path: str) -> None:
    Path(path).write_text("x")


def _link(folder: str, path: str) -> None:
    link = Path(folder) / "link"
    link.symlink_to(path)
    link.read_bytes()


def _hard_link(folder: str, path: str) -> None:
    os.link(path, Path(folder) / "hard")
    (Path(folder) / "hard").read_bytes()


def _up(folder: str, path: str) -> None:
    Path(os.path.join(folder, "..", os.path.relpath(path, os.path.dirname(folder)))).read_bytes()


def _connect(host: str, port: str) -> None:
    socket.create_connection((host, int(port)), timeout=5).close()


def _unix(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.connect(path)


def _uring() -> None:
    buffer = ctypes.create_string_buffer(120)
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(425, 4, buffer) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def _execute() -> None:
    subprocess.run(["/bin/true"], check=True)


def _fork() -> None:
    if not os.fork():
        os._exit(0)


def _kill(pid: str) -> None:
    os.kill(int(pid), 0)


def _memory() -> None:
    kept = [bytearray(64 * 2**20) for _ in range(64)]
    assert kept


def _file(folder: str) -> None:
    with open(Path(folder) / "large", "wb") as file:
        file.truncate(2**31)


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (10**6, 10**6))


def _environment() -> None:
    if "CONFINED_SECRET" not in os.environ:
        raise FileNotFoundError(2, "no secret")


def _forever() -> None:
    while True:
        time.sleep(0.01)


def _spin() -> None:
    while True:
        pass


ATTEMPTS = {name[1:]: function for name, function in vars(sys.modules[__name__]).items()
            if name.startswith("_") and callable(function)}  # fmt: skip
