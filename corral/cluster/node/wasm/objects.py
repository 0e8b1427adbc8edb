"""The object by which pods ask for WebAssembly."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from corral.kube.types import Obj

__all__ = ["RUNTIME_CLASS", "runtime_class"]

RUNTIME_CLASS: Final = "wasm"
OVERHEAD_BYTES: Final = 96 << 20
"""What the runner needs beside the memory of its module: Python, wasmtime, compiled code."""


def runtime_class(node_selector: Mapping[str, str] | None = None) -> Obj:
    """The RuntimeClass; with a selector, its pods go to the nodes that have these labels.

    The runner's own memory is counted for the pod, not within the limits of its containers.
    """
    made: Obj = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": RUNTIME_CLASS},
        "handler": RUNTIME_CLASS,
        "overhead": {"podFixed": {"memory": f"{OVERHEAD_BYTES >> 20}Mi"}},
    }
    if node_selector:
        made["scheduling"] = {"nodeSelector": dict(node_selector)}
    return made
