"""What the pages of metrics and statistics say of a reading."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from corral.cluster.apiserver.nodes import exposition as reader
from corral.cluster.node.access import ContainerUsage, PodUsage
from corral.cluster.node.resources import Usage
from corral.cluster.node.server import exposition
from corral.cluster.node.server.readings import Machine, Reading, Readings, read_machine
from corral.cluster.node.server.summary import summary


def machine(cpu: float = 100.0) -> Machine:
    return Machine(
        cpu_seconds=cpu,
        memory_total=1000,
        memory_usage=700,
        memory_working_set=600,
        memory_rss=500,
        swap_usage=0,
        started_at=1.0,
    )


def reading(at: float, cpu: float, *, started: float = 5.0) -> Reading:
    used = [
        ContainerUsage("a", started, Usage(cpu, 1 << 20)),
        ContainerUsage("b", started, Usage(0.0, 4096)),
    ]
    return Reading(at, machine(100.0 + cpu), [PodUsage("default", "one", "u1", used)])


def test_resource_page_as_the_api_server_reads_it() -> None:
    text = exposition.resource_page(reading(1000.5, 2.5))
    found = reader.parse(text, 0.0)
    assert (found.node.cpu, found.node.at, found.node.memory) == (102.5, 1000.5, 600.0)
    a = found.containers["default", "one", "a"]
    assert (a.cpu, a.at, a.memory, a.started) == (2.5, 1000.5, float(1 << 20), 5.0)
    # metrics-server takes nothing for a broken reading
    assert found.containers["default", "one", "b"].cpu == 1e-06


def test_resource_page_to_the_letter() -> None:
    lines = exposition.resource_page(reading(1000.5, 2.5)).splitlines()
    where = 'namespace="default",pod="one"'
    assert f'container_cpu_usage_seconds_total{{container="a",{where}}} 2.5 1000500' in lines
    assert f'container_start_time_seconds{{container="a",{where}}} 5.0' in lines
    assert f"pod_memory_working_set_bytes{{{where}}} 1052672.0 1000500" in lines
    assert "node_memory_working_set_bytes 600.0 1000500" in lines
    assert "resource_scrape_error 0.0" in lines and "scrape_error 0.0" in lines
    assert "# TYPE node_cpu_usage_seconds_total counter" in lines


def test_nothing_runs() -> None:
    text = exposition.resource_page(Reading(1.0, machine(), []))
    assert "container_" not in text.replace("getting container", "")
    assert "node_cpu_usage_seconds_total" in text


def test_labels_are_escaped() -> None:
    family = exposition.Family("m", "gauge", "about", lambda v: v, dated=False)
    assert family.lines([({"k": 'a"b\\c\nd'}, 1.0)], 0.0)[-1] == 'm{k="a\\"b\\\\c\\nd"} 1.0'


def test_cadvisor_page() -> None:
    pod = {
        "metadata": {"uid": "u1"},
        "spec": {
            "containers": [
                {
                    "name": "a",
                    "image": "i:1",
                    "resources": {"limits": {"memory": "1Ki", "cpu": "500m"}},
                }
            ]
        },
    }
    text = exposition.cadvisor_page(reading(1000.0, 2.5), [pod])
    assert 'image="i:1"' in text and 'cpu="total"' in text
    limits = [line for line in text.splitlines() if line.startswith("container_spec_memory")]
    assert [line.split()[-2] for line in limits] == ["1024.0", "0.0"]
    quota = [line for line in text.splitlines() if line.startswith("container_spec_cpu_quota")]
    assert [line.split()[-2] for line in quota] == ["50000.0"]
    assert "machine_memory_bytes 1000.0" in text


def test_summary_with_rates(tmp_path: Path) -> None:
    found = summary("n", reading(20.0, 3.0), reading(10.0, 1.0), folder=tmp_path)
    assert found["node"]["cpu"]["usageNanoCores"] == 200_000_000
    assert found["node"]["memory"]["availableBytes"] == 400
    assert found["node"]["fs"]["capacityBytes"] > 0
    pod = found["pods"][0]
    assert pod["podRef"] == {"name": "one", "namespace": "default", "uid": "u1"}
    assert pod["cpu"]["usageNanoCores"] == 200_000_000
    assert pod["containers"][0]["cpu"]["usageNanoCores"] == 200_000_000
    assert pod["containers"][0]["memory"]["workingSetBytes"] == 1 << 20


def test_summary_without_rates() -> None:
    found = summary("n", reading(20.0, 3.0), None)
    assert "usageNanoCores" not in found["node"]["cpu"] and "fs" not in found["node"]
    restarted = summary("n", reading(20.0, 1.0, started=15.0), reading(10.0, 3.0))
    assert "usageNanoCores" not in restarted["pods"][0]["containers"][0]["cpu"]
    assert restarted["pods"][0]["startTime"] == "1970-01-01T00:00:15Z"


def test_readings_are_shared_for_a_moment() -> None:
    now, asked = 100.0, 0

    def usage() -> list[Any]:
        nonlocal asked
        asked += 1
        return []

    readings = Readings(SimpleNamespace(usage=usage), clock=lambda: now)  # type: ignore[arg-type]
    first = readings.take()
    now = 100.9
    assert readings.take() is first and readings.before is None and asked == 1
    now = 101.1
    second = readings.take()
    assert second is not first and readings.before is first and asked == 2
    now = 90.0  # a clock that was set back
    assert readings.take().at == 90.0


def test_the_machine(tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    proc.mkdir()
    (proc / "stat").write_text("cpu  100 200 300 4000 50 6 7 8 90 0\ncpu0 1 1\nbtime 12345\n")
    (proc / "meminfo").write_text(
        "MemTotal: 1000 kB\nMemFree: 300 kB\nInactive(file): 100 kB\nAnonPages: 50 kB\n"
        "SwapTotal: 20 kB\nSwapFree: 5 kB\nHugePages_Total: 0\n"
    )
    found = read_machine(tmp_path)
    assert found.cpu_seconds == 621 / 100
    assert (found.memory_usage, found.memory_working_set) == (700 * 1024, 600 * 1024)
    assert (found.memory_available, found.swap_usage) == (400 * 1024, 15 * 1024)
    assert (found.memory_rss, found.started_at) == (50 * 1024, 12345.0)
    assert read_machine(Path("/")).memory_total > 0
