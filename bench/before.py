"""Benchmarks of this tree against the tree of an earlier revision, in turns on this machine.

``python bench/before.py REVISION NAME… [--quick] [--repeats N]``: each turn runs ``bench/NAME.py``
of both trees, one after the other and in changing order, with the Python at work. Each of those
measures its peer too, so that ``ratio`` (ours against the peer, now over before) is free of what
the machine does meanwhile; the other figures of both are printed side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from common import ROOT, median, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the commit to compare with")
    parser.add_argument("names", nargs="+", help="benchmarks: pods, apiserver, …")
    parser.add_argument("--quick", action="store_true", help="small numbers, for CI")
    parser.add_argument("--repeats", type=int, default=3, help="turns (default: 3)")
    options = parser.parse_args()
    with tree_of(options.revision) as before:
        results = {name: compare(name, before, options) for name in options.names}
    report(
        {
            "name": "before",
            "ratio": min(result["ratio"] for result in results.values()),
            "revision": options.revision,
            "repeats": options.repeats,
            "cores": os.cpu_count(),
            **results,
        }
    )


@contextmanager
def tree_of(revision: str) -> Iterator[Path]:
    """A working tree of that revision, with byte code and schemas as an installation makes them."""
    with tempfile.TemporaryDirectory(prefix="corral-before-") as folder:
        tree = Path(folder) / "tree"
        git = ["git", "-C", str(ROOT)]
        subprocess.run([*git, "worktree", "add", "--detach", str(tree), revision], check=True)
        try:
            if (tree / "tools" / "protos").is_dir():  # else its stubs are in the tree
                subprocess.run([sys.executable, "-m", "tools.protos"], cwd=tree, check=True)
            extension = ["setup.py", "--quiet", "build_ext", "--inplace"]
            subprocess.run([sys.executable, *extension], cwd=tree, check=True)
            python(tree, "-m", "compileall", "-q", "corral")
            python(tree, "-m", "corral.api.stored")
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], check=True)


def python(tree: Path, *arguments: str) -> str:
    """What a command of a tree prints; the package that it imports is the tree's own."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def compare(name: str, before: Path, options: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {"now": [], "before": []}
    for turn in range(options.repeats):
        trees = [("now", ROOT), ("before", before)]
        for side, tree in trees if turn % 2 == 0 else reversed(trees):
            size = ["--quick"] if options.quick else []
            text = python(tree, f"bench/{name}.py", "--repeats", "1", *size)
            found[side].append(json.loads(text.strip().splitlines()[-1]))
            print(f"{name} {side}: {found[side][-1]}", flush=True)
    figures = {side: medians(runs) for side, runs in found.items()}
    return {"ratio": round(figures["now"]["ratio"] / figures["before"]["ratio"], 3), **figures}


def medians(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Of each figure of several runs, named by its path."""
    flat = [dict(flatten(run)) for run in runs]
    return {
        key: round(median([run[key] for run in flat]), 3)
        for key in flat[0]
        if all(key in run for run in flat)
    }


def flatten(found: dict[str, Any], above: str = "") -> Iterator[tuple[str, float]]:
    for key, value in found.items():
        if isinstance(value, dict):
            yield from flatten(value, f"{above}{key}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{above}{key}", value


if __name__ == "__main__":
    main()
