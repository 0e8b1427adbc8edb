"""How many replicas a metric calls for: the documented rules as tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from corral.cluster.workloads.autoscaling.replicas import (
    Tolerances,
    by_utilization,
    by_value,
    group_pods,
    requests_of,
)
from corral.cluster.workloads.autoscaling.samples import (
    MetricsError,
    Sample,
    go_duration,
    read_samples,
)
from corral.cluster.workloads.autoscaling.settings import Settings

Obj = dict[str, Any]
NOW = datetime(2024, 5, 1, 12, 0, 0, tzinfo=UTC)
SETTINGS = Settings()
OLD = "2024-01-01T00:00:00Z"


def stamp(seconds: float) -> str:
    """So long before now."""
    return (NOW - timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def pod(
    name: str,
    *,
    phase: str = "Running",
    ready: str | None = "True",
    changed: float = 1e6,
    started: float | None = 1e6,
    request: str | None = "1000m",
    deleting: bool = False,
) -> Obj:
    meta: Obj = {"name": name}
    if deleting:
        meta["deletionTimestamp"] = OLD
    status: Obj = {"phase": phase}
    if ready is not None:
        status["conditions"] = [
            {"type": "Ready", "status": ready, "lastTransitionTime": stamp(changed)}
        ]
    if started is not None:
        status["startTime"] = stamp(started)
    asks = {"requests": {"cpu": request}} if request else {}
    spec = {"containers": [{"name": "main", "resources": asks}]}
    return {"metadata": meta, "spec": spec, "status": status}


def pods(count: int, **more: Any) -> list[Obj]:
    return [pod(f"p{number}", **more) for number in range(count)]


def samples(*values: int | None, age: float = 0, window: float = 60) -> dict[str, Sample]:
    at = NOW - timedelta(seconds=age)
    return {
        f"p{n}": Sample(value, at, window) for n, value in enumerate(values) if value is not None
    }


def utilization(current: int, target: int, found: list[Obj], used: dict[str, Sample], **more: Any):
    arguments: dict[str, Any] = {
        "resource": "cpu", "container": "", "tolerances": Tolerances(), "settings": SETTINGS,
        "now": NOW,
    }  # fmt: skip
    return by_utilization(current, target=target, pods=found, samples=used, **(arguments | more))


@pytest.mark.parametrize(
    ("current", "target", "used", "wanted"),
    [
        (3, 30, (300, 500, 700), 5),  # 50 % of a target of 30: 1.67 times 3
        (3, 50, (100, 300, 500), 2),
        (5, 100, (1000,) * 5, 5),
        (3, 100, (1010, 1030, 1020), 3),  # within 10 %
        (3, 100, (1100, 1100, 1100), 3),  # exactly 10 %
        (3, 100, (1110, 1110, 1110), 4),
        (3, 100, (900, 900, 900), 3),
        (3, 100, (890, 890, 890), 3),  # 2.67, rounded up
        (4, 100, (740, 740, 740, 740), 3),
        (1, 50, (500,), 1),
        (1, 50, (1000,), 2),
        (10, 50, (100,) * 10, 2),
        (2, 80, (0, 0), 0),
        (2, 50, (3000, 3000), 12),
    ],
)
def test_utilization(current: int, target: int, used: tuple[int, ...], wanted: int) -> None:
    proposal = utilization(current, target, pods(len(used)), samples(*used))
    assert proposal.replicas == wanted
    assert proposal.average == sum(used) // len(used)
    assert proposal.utilization == sum(used) * 100 // (1000 * len(used))


@pytest.mark.parametrize(
    ("current", "target", "used", "wanted"),
    [
        (3, 1000, (1000, 1000, 1000), 3),
        (3, 1000, (2000, 2000, 2000), 6),
        (3, 1000, (100, 100, 100), 1),
        (4, 300, (100, 200, 400, 500), 4),
    ],
)
def test_plain_values(current: int, target: int, used: tuple[int, ...], wanted: int) -> None:
    proposal = by_value(
        current, target=target, pods=pods(len(used)), samples=samples(*used),
        resource="memory", tolerances=Tolerances(), settings=SETTINGS, now=NOW,
    )  # fmt: skip
    assert (proposal.replicas, proposal.utilization) == (wanted, None)


@pytest.mark.parametrize(
    ("current", "target", "used", "wanted"),
    [
        # up: those that are missing use nothing
        (3, 50, (1000, 1000, None), 4),
        (3, 50, (800, 800, None), 3),  # 53 % of 50: within the tolerance again
        (3, 50, (600, 600, None), 3),  # would turn around
        # down: those that are missing use all they asked for
        (3, 50, (100, 100, None), 3),  # 40 % of 50: 2.4
        (4, 50, (100, 100, 100, None), 3),
        (2, 50, (100, None), 2),  # 55 %: would turn around
        # down, with a target above all: those that are missing are at the target
        (4, 150, (100, 100, 100, None), 2),
        # at the target: they change nothing
        (3, 50, (500, 500, None), 3),
    ],
)
def test_missing_metrics(
    current: int, target: int, used: tuple[int | None, ...], wanted: int
) -> None:
    proposal = utilization(current, target, pods(len(used)), samples(*used))
    assert proposal.replicas == wanted


def test_missing_metrics_of_plain_values() -> None:
    def proposed(target: int, *used: int | None) -> int:
        return by_value(
            len(used), target=target, pods=pods(len(used)), samples=samples(*used),
            resource="memory", tolerances=Tolerances(), settings=SETTINGS, now=NOW,
        ).replicas  # fmt: skip

    assert proposed(1000, 100, 100, None) == 2  # the third is taken to be at the target
    assert proposed(1000, 3000, 3000, None) == 6


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        ({"phase": "Pending"}, 2),
        ({"ready": "False", "started": 60, "changed": 60}, 2),
        ({"ready": "False", "started": 1000, "changed": 990}, 2),
        # it was ready before: its use counts
        ({"ready": "False", "started": 1000, "changed": 500}, 4),
        ({"ready": None}, 2),
        ({"started": None}, 2),
        # ready for less than the window of the metric
        ({"started": 100, "changed": 30}, 2),
        ({"started": 100, "changed": 70}, 4),
    ],
)
def test_pods_that_start_up(second: Obj, wanted: int) -> None:
    """Both use twice the target; one that starts up is taken to use nothing."""
    found = [pod("p0"), pod("p1", **second)]
    assert utilization(2, 50, found, samples(1000, 1000)).replicas == wanted


def test_start_up_matters_for_cpu_alone() -> None:
    found = [pod("p0"), pod("p1", ready="False", started=60, changed=60)]
    groups = group_pods(found, samples(1, 1), "memory", settings=SETTINGS, now=NOW)
    assert groups.ready == 2
    groups = group_pods(found, samples(1, 1), "cpu", settings=SETTINGS, now=NOW)
    assert groups.ready == 1 and groups.unready == {"p1"}


def test_pods_that_go_do_not_count() -> None:
    found = [pod("p0"), pod("p1", deleting=True), pod("p2", phase="Failed")]
    proposal = utilization(1, 50, found, samples(1000, 1000, 1000))
    assert (proposal.replicas, proposal.utilization) == (2, 100)


def test_tolerances_of_an_autoscaler() -> None:
    wide = Tolerances(down=0.5, up=0.0)
    assert utilization(2, 50, pods(2), samples(260, 260), tolerances=wide).replicas == 2
    assert utilization(2, 50, pods(2), samples(240, 240), tolerances=wide).replicas == 1
    assert utilization(2, 50, pods(2), samples(510, 510), tolerances=wide).replicas == 3


@pytest.mark.parametrize(
    ("found", "used", "message"),
    [
        ([], samples(1), "no pods returned by selector while calculating replica count"),
        (
            pods(1, phase="Pending"),
            samples(1),
            "did not receive metrics for targeted pods (pods might be unready)",
        ),
        (pods(1, request=None), samples(1), "missing request for cpu in container main of Pod p0"),
        (pods(1), {"other": Sample(1)}, "no metrics returned matched known pods"),
    ],
    ids=["pods", "unready", "requests", "strangers"],
)
def test_what_says_nothing(found: list[Obj], used: dict[str, Sample], message: str) -> None:
    with pytest.raises(MetricsError) as caught:
        utilization(1, 50, found, used)
    assert str(caught.value) == message


def test_requests() -> None:
    sidecar = {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    setup = {"name": "setup"}
    both = pod("a", request="250m")
    both["spec"]["initContainers"] = [sidecar, setup]
    assert requests_of([both], "cpu") == {"a": 1250}
    assert requests_of([both], "cpu", "side") == {"a": 1000}
    with pytest.raises(MetricsError, match="container x not found in Pod a"):
        requests_of([both], "cpu", "x")
    both["spec"]["resources"] = {"requests": {"cpu": "3"}}
    assert requests_of([both], "cpu") == {"a": 3000}
    assert requests_of([both], "cpu", "main") == {"a": 250}


# --- what metrics.k8s.io says --------------------------------------------------------------------


def metrics(name: str, *usages: dict[str, str], window: str = "1m5.25s") -> Obj:
    return {
        "metadata": {"name": name},
        "timestamp": OLD,
        "window": window,
        "containers": [{"name": f"c{n}", "usage": usage} for n, usage in enumerate(usages)],
    }


def test_samples() -> None:
    items = [
        metrics("a", {"cpu": "100m"}, {"cpu": "250000001n"}),
        metrics("b", {"cpu": "1"}, {"memory": "5"}),
        metrics("c"),
    ]
    found = read_samples(items, "cpu")
    assert found == {"a": Sample(351, datetime(2024, 1, 1, tzinfo=UTC), 65.25)}
    assert read_samples(items, "cpu", "c0")["b"].value == 1000
    assert set(read_samples(items, "memory", "c1")) == {"b"}
    with pytest.raises(MetricsError, match="no metrics returned from resource metrics API"):
        read_samples([], "cpu")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30), ("1h2m3.5s", 3723.5), ("100ms", 0.1), ("0", 0), ("", 0), ("15.1s", 15.1)],
)
def test_durations(text: str, seconds: float) -> None:
    assert go_duration(text) == pytest.approx(seconds)


def test_samples_are_left_alone() -> None:
    used = samples(100, 100, None)
    before = {name: replace(sample) for name, sample in used.items()}
    utilization(3, 50, pods(3), used)
    assert used == before
