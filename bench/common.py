"""What the benchmarks share: starting servers, statistics, the last line."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def arguments(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="small numbers, for CI")
    parser.add_argument("--repeats", type=int, default=0, help="interleaved repeats")
    return parser.parse_args()


def median(values: list[float]) -> float:
    return statistics.median(values)


def report(result: dict[str, Any]) -> None:
    """The last line: one JSON object."""
    print(json.dumps(result))


def memory_mb(pid: int) -> float:
    """Resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
