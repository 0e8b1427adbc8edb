"""Readings of /metrics/resource and the quantities made of them."""

from __future__ import annotations

import pytest

from corral.cluster.apiserver.nodes.exposition import Usage, parse
from corral.cluster.apiserver.nodes.metrics import cpu_quantity, go_duration, memory_quantity

TEXT = """# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 357.35491 1577836800500
node_memory_working_set_bytes 1.6e+08 1577836800500
container_cpu_usage_seconds_total{container="c",namespace="n",pod="p\\"q"} 4.71
container_memory_working_set_bytes{pod="p\\"q",namespace="n",container="c",} 1.0100736e+07
container_start_time_seconds{container="c",namespace="n",pod="p\\"q"} 1.5e+09
container_swap_usage_bytes{container="c",namespace="n",pod="p"} 7
pod_cpu_usage_seconds_total{namespace="n",pod="p"} 4.7
container_cpu_usage_seconds_total{container="d",namespace="n",pod="p"} oops
resource_scrape_error 0
"""


def test_parse() -> None:
    sample = parse(TEXT, 99.0)
    assert sample.node == Usage(cpu=357.35491, at=1577836800.5, memory=1.6e8)
    assert sample.containers == {
        ("n", 'p"q', "c"): Usage(cpu=4.71, at=99.0, memory=10100736.0, started=1.5e9)
    }


@pytest.mark.parametrize(
    ("cores", "text"),
    [(0, "0"), (1, "1"), (0.25, "250m"), (0.0000015, "1500n"), (0.000002, "2u"), (12.5, "12500m")],
)
def test_cpu_quantity(cores: float, text: str) -> None:
    assert cpu_quantity(cores) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (1000, "1000"), (2048, "2Ki"), (10100736, "9864Ki"), (1 << 40, "1Ti")],
)
def test_memory_quantity(count: int, text: str) -> None:
    assert memory_quantity(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1, "1s"), (15.123, "15.123s"), (60, "1m0s"), (65.25, "1m5.25s"), (3600, "1h0m0s")],
)
def test_go_duration(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text
