"""Containers that are WebAssembly modules: pods with ``runtimeClassName: wasm``.

Such a container is an ordinary one for the engine: a small runner (``runner``, with ``cache``),
which runs the module in wasmtime with the limits of its ``Plan`` (``plan``). ``command`` makes the
plan of what the pod says, without I/O, and refuses what a module cannot have.

A module sees its arguments, its variables, its standard streams, clocks, random numbers, and the
container's volumes at their mount paths. It sees no network, no other file of the machine, and no
other process. Names below are loaded when first used; none of them needs wasmtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from corral.kube.lazy import lazily

if TYPE_CHECKING:
    from corral.cluster.node.wasm.command import Launch, is_module, is_wasm, wasm_command
    from corral.cluster.node.wasm.objects import RUNTIME_CLASS, runtime_class
    from corral.cluster.node.wasm.outcomes import exit_reason

_HOMES = {
    "command": "Launch is_module is_wasm wasm_command",
    "objects": "RUNTIME_CLASS runtime_class",
    "outcomes": "exit_reason",
}

__all__ = [
    "RUNTIME_CLASS",
    "Launch",
    "exit_reason",
    "is_module",
    "is_wasm",
    "runtime_class",
    "wasm_command",
]

__getattr__ = lazily(__name__, _HOMES)
