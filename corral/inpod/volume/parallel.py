"""Several files at a time, with plain threads.

`concurrent.futures` takes no more work once the interpreter is on its way out, which is just when
the last checkpoint is being finished; plain threads still start then.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

T = TypeVar("T")

WORKERS = min(8, (os.cpu_count() or 1) + 2)
"""Files in flight: a few more than cores, since some of them wait for the disk."""


def run(tasks: Sequence[Callable[[], T]], *, workers: int = WORKERS) -> list[T]:
    """The results in order; after the first failure no more are begun, and it is raised."""
    if len(tasks) <= 1 or workers <= 1:
        return [task() for task in tasks]
    results: dict[int, T] = {}
    failures: list[BaseException] = []
    pending = iter(range(len(tasks)))
    lock = threading.Lock()

    def work() -> None:
        while True:
            with lock:
                index = None if failures else next(pending, None)
            if index is None:
                return
            try:
                results[index] = tasks[index]()
            except BaseException as error:
                failures.append(error)

    threads = [
        threading.Thread(target=work, name=f"corral-file-{number}", daemon=True)
        for number in range(min(workers, len(tasks)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [results[index] for index in range(len(tasks))]
