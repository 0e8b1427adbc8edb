"""Memory: that of a model or two, whatever the number of clients."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from corral.learning import Aggregation, Model, Update, strategy
from corral.learning.collected import Collected

SIZE = 2_000_000
MODEL_MB = SIZE * 4 / 2**20
CLIENTS = 24

pytestmark = pytest.mark.skipif(
    not (sys.platform == "linux" and Path("/proc/self/clear_refs").exists()),
    reason="the peak of a process can be read and reset on Linux only",
)


def resident(field):
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", status)[1]) / 1024


def grown(work):
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the peak of this process may not be reset")
    before = resident("VmRSS")
    work()
    return resident("VmHWM") - before


def updates():
    rng = np.random.default_rng(1)
    for client in range(CLIENTS):
        values = rng.standard_normal(SIZE, dtype=np.float32)
        yield Update(f"c{client}", 100, Model.vector(values))


def rounds(name, **options):
    aggregation = Aggregation(strategy(name), **options)
    for update in updates():
        aggregation.add(update)
    aggregation.finish()


def test_averages_need_no_more_for_more_clients():
    # the sums, the update that is being made and the one before it, and some room
    assert grown(lambda: rounds("fedavg")) < 8 * MODEL_MB < CLIENTS * MODEL_MB / 2


def test_rules_that_see_all_updates_keep_them_in_files(tmp_path):
    limit = 2 * 2**20
    peak = grown(lambda: rounds("median", memory=limit, folder=tmp_path))
    assert peak < 8 * MODEL_MB < CLIENTS * MODEL_MB / 2


def test_a_mean_of_what_is_there_needs_its_own_memory_only():
    there = list(updates())
    # the result, and the blocks of each thread
    assert grown(lambda: Aggregation(strategy("fedavg")).finish_with(there)) < 3 * MODEL_MB


def test_one_by_one_needs_the_sums_and_gives_them_back_for_the_result():
    there = list(updates())

    def work():
        aggregation = Aggregation(strategy("fedavg"))
        for update in there:
            aggregation.add(update)
        return aggregation.finish()

    # twice the model, and room for what threads and an allocator keep
    assert grown(work) < 2.5 * MODEL_MB


def test_a_result_is_no_file(tmp_path):
    aggregation = Aggregation(strategy("fedavg"))
    for update in updates():
        aggregation.add(update)
    model = aggregation.finish().model
    kept = Collected(model, memory=0, folder=tmp_path)
    assert kept.add("a", model)
    before = model.vectors[0].copy()
    model.vectors[0][:] = 0
    assert (kept.rows(kept.spans()[0])[0] == before[: kept.spans()[0].stop]).all()
    kept.close()
