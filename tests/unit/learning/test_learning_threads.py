"""The threads that share the work."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from corral.learning import workers

FORKED = """
import os, signal
from corral.learning.workers import spread
assert spread(str, [1, 2, 3]) == ["1", "2", "3"]
child = os.fork()
if not child:
    signal.alarm(30)
    os._exit(spread(str, [4, 5, 6]) != ["4", "5", "6"])
assert os.waitpid(child, 0)[1] == 0
"""


def test_results_come_in_the_order_of_the_items(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 2)
    assert workers.spread(lambda item: item * item, range(100)) == [n * n for n in range(100)]


def test_one_item_or_one_core_needs_no_thread(monkeypatch):
    def thread(_item):
        return threading.current_thread()

    here = threading.current_thread()
    assert workers.spread(thread, [1]) == [here]
    monkeypatch.setattr(workers, "cores", lambda: 1)
    assert workers.spread(thread, [1, 2]) == [here, here]


def test_an_error_of_a_thread_is_the_callers(monkeypatch):
    monkeypatch.setattr(workers, "cores", lambda: 2)
    with pytest.raises(ZeroDivisionError):
        workers.spread(lambda item: 1 // item, [1, 0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_threads_of_its_own():
    code = [sys.executable, "-W", "ignore", "-c", FORKED]
    subprocess.run(code, check=True, timeout=60)
