"""From a container of a wasm pod to the runner's command line. No I/O but for ``is_folder``.

What a module cannot have is refused in words, before anything is started: a process in it, a port,
a device, a single file as a volume.
"""

from __future__ import annotations

import json
import os
import posixpath
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from corral.cluster.node.container.processes import ContainerSpec, Mount
from corral.cluster.node.volumes.sources import ConfigError
from corral.cluster.node.wasm.cache import overlaps
from corral.cluster.node.wasm.objects import OVERHEAD_BYTES, RUNTIME_CLASS
from corral.cluster.node.wasm.plan import Folder, Plan, to_environment
from corral.kube.quantity import Quantity
from corral.kube.types import Obj

__all__ = [
    "FUEL",
    "FUNCTION",
    "INPUTS",
    "TIMEOUT",
    "Launch",
    "is_module",
    "is_wasm",
    "wasm_command",
]

FUEL: Final = "wasm.corral.dev/fuel"
INPUTS: Final = "wasm.corral.dev/inputs"
FUNCTION: Final = "wasm.corral.dev/function"
TIMEOUT: Final = "wasm.corral.dev/timeout-seconds"
PAGE: Final = 64 << 10
"""Modules have memory in pages of this size."""

_ROOT: Final = str(Path(__file__).resolve().parents[4])
_BOOT: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); sys.path.append(sys.argv.pop(1)); "
    "from corral.cluster.node.wasm.runner import main; main()"
)
_PLACE: Final = "/mnt/corral-wasm"
"""Where the runner finds what is mounted for it; modules do not see it."""
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How the container differs from one that runs a process."""

    argv: Sequence[str]
    env: Mapping[str, str]
    """The runner's own; the module's are in the plan."""
    plan: Plan
    mounts: Sequence[Mount] = ()
    """Through which the runner reaches what the plan names; without, it does so by itself."""
    overhead_bytes: int = OVERHEAD_BYTES
    """What the container's control group must allow beyond the limit of memory."""

    def apply(self, spec: ContainerSpec) -> ContainerSpec:
        """The spec with the runner in place of the command; volumes are in the plan."""
        return replace(spec, argv=self.argv, env=self.env, cwd="/", mounts=self.mounts)


def is_wasm(pod: Obj) -> bool:
    """Whether the pod asks for modules; see `is_module` for which containers are."""
    return bool((pod.get("spec") or {}).get("runtimeClassName") == RUNTIME_CLASS)


def is_module(container: Obj, pod: Obj, *, mapped: Callable[[str], bool]) -> bool:
    """Whether a container is a module: processes may keep it company in the same pod.

    One that names a module is one. Otherwise the image decides: those that the node's image map
    knows (``mapped``) are processes.
    """
    if not is_wasm(pod):
        return False
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if words and str(words[0]).endswith(".wasm"):
        return True
    return not mapped(container.get("image") or "")


def wasm_command(
    container: Obj,
    pod: Obj,
    argv: Sequence[str],
    *,
    mounts: Sequence[Mount],
    env: Mapping[str, str],
    message: str = "",
    cache: str = "",
    allowed: Sequence[str] = (),
    module: str = "",
    mounted: bool = False,
    python: str = sys.executable,
    machine: Mapping[str, str] = os.environ,
    is_folder: Callable[[str], bool] = os.path.isdir,
    installed: bool | None = None,
) -> Launch:
    """What to start for a container whose command line is ``argv``.

    Args:
        container: the container, as the pod has it.
        pod: the pod.
        argv: command and arguments; the first is the module.
        mounts: the container's volume mounts.
        env: the module's variables, and nothing of the machine's.
        message: file for the termination message.
        cache: folder for compiled modules, of the agent's own.
        allowed: folders and files of the machine that modules may come from (the image map).
        module: file of the machine with the module of the container's image; else ``argv`` has it.
        mounted: whether containers have mounts. The runner may run as somebody who cannot pass
            through the agent's folders: then volumes, module and message are mounted for it.
        python: what runs the runner.
        machine: variables of the machine, of which the runner needs a few.
        is_folder: whether a path of the machine is a folder.
        installed: whether wasmtime is; found out without.

    Raises:
        ConfigError: a module cannot have what the container asks for.
    """
    if not (find_spec("wasmtime") is not None if installed is None else installed):
        raise ConfigError(
            "this node cannot run WebAssembly: the Python package wasmtime is not installed"
        )
    for problem in _problems(container):
        raise ConfigError(f'container "{container["name"]}" is a WebAssembly module: {problem}')
    folders = _folders(mounts, is_folder)
    if cache and overlaps(Path(cache), [m.source for m in mounts if not m.read_only]):
        cache = ""  # the module could write there what others would run
    placed: list[Mount] = []
    if mounted:
        mounts, module, message = _placed(mounts, module, message, placed)
        folders = [
            replace(folder, source=mount.source, within=mount.within)
            for folder, mount in zip(folders, mounts, strict=True)
        ]
    file, within = (module, module) if module else _module(argv, container, mounts, allowed)
    plan = Plan(
        module=file,
        within=within,
        argv=list(argv),
        env=dict(env),
        folders=folders,
        fuel=_fuel(pod),
        memory=_memory(container),
        seconds=_seconds(pod),
        message=message,
        inputs=_inputs(pod),
        function=_annotation(pod, FUNCTION) or "",
        cache=cache,
    )
    kept = {name: machine[name] for name in ("LD_LIBRARY_PATH",) if name in machine}
    return Launch(
        # -I: neither the module's variables nor the working directory lead Python astray
        argv=[python, "-I", "-B", "-c", _BOOT, _ROOT, _packages(), argv[0]],
        env={"LC_ALL": "C.UTF-8", **kept, **to_environment(plan)},
        plan=plan,
        mounts=tuple(placed),
    )


def _placed(
    mounts: Sequence[Mount], module: str, message: str, placed: list[Mount]
) -> tuple[list[Mount], str, str]:
    """Mounts, module and message as the runner finds them; ``placed`` gets how they come there."""

    def place(mount: Mount, name: str) -> str:
        placed.append(replace(mount, target=f"{_PLACE}/{name}"))
        return placed[-1].target

    seen = [
        replace(mount, source=place(mount, str(number)), within="")
        for number, mount in enumerate(mounts)
    ]
    if module:
        module = place(Mount(source=module, target="", read_only=True), "module.wasm")
    if message:
        message = place(Mount(source=message, target=""), "message")
    return seen, module, message


def _packages() -> str:
    """Where wasmtime lies, which need not be where the runner's Python looks by itself."""
    found = find_spec("wasmtime")
    return str(Path(found.origin).parents[1]) if found is not None and found.origin else ""


# --- what cannot be ------------------------------------------------------------------------------


def _problems(container: Obj) -> Iterator[str]:
    resources = container.get("resources") or {}
    for kind in ("limits", "requests"):
        for name in resources.get(kind) or {}:
            if "/" in name:
                yield f"it cannot have devices ({name})"
    if (container.get("securityContext") or {}).get("privileged"):
        yield "it cannot be privileged"
    if container.get("volumeDevices"):
        yield "it cannot have block devices"
    for kind in _PROBES:
        for how in ("exec", "httpGet", "tcpSocket", "grpc"):
            if (container.get(kind) or {}).get(how) is not None:
                yield f"it has neither processes nor ports for a {kind} of kind {how}"
    for kind, hook in (container.get("lifecycle") or {}).items():
        if isinstance(hook, dict):
            for how in ("exec", "httpGet", "tcpSocket"):
                if hook.get(how) is not None:
                    yield f"it has neither processes nor ports for a {kind} hook of kind {how}"


# --- the module ----------------------------------------------------------------------------------


def _module(
    argv: Sequence[str], container: Obj, mounts: Sequence[Mount], allowed: Sequence[str]
) -> tuple[str, str]:
    """The module's file on the machine, and the folder it must not leave."""
    if not argv:
        raise ConfigError(
            f'container "{container["name"]}" names no module: '
            "its command must begin with the path of a .wasm file in a volume, "
            "or its image be one in a registry (HOST/NAME)"
        )
    path = posixpath.normpath(posixpath.join(container.get("workingDir") or "", argv[0]))
    if not path.endswith(".wasm"):
        raise ConfigError(f'"{argv[0]}" is no module: a command must begin with a .wasm file')
    if not path.startswith("/"):
        raise ConfigError(f'"{argv[0]}" is no absolute path, and there is no workingDir')
    for mount in sorted(mounts, key=lambda mount: len(mount.target), reverse=True):
        inside = _below(path, posixpath.normpath(mount.target))
        if inside is not None:
            return (f"{mount.source}/{inside}" if inside else mount.source), mount.source
    for place in allowed:
        if _below(path, posixpath.normpath(place)) is not None:
            return path, place
    raise ConfigError(
        f'module "{path}" is in no volume of the container, and the image map of this node allows '
        "no modules from there: mount a volume that holds it"
    )


def _below(path: str, place: str) -> str | None:
    """The rest of a path that is at a place or below it."""
    if path == place:
        return ""
    prefix = place.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else None


def _folders(mounts: Sequence[Mount], is_folder: Callable[[str], bool]) -> list[Folder]:
    found = []
    for mount in mounts:
        if not is_folder(mount.source):
            raise ConfigError(
                f'"{mount.target}" is a single file: a WebAssembly module can only have folders '
                "as volumes, mount the whole one"
            )
        found.append(
            Folder(
                source=mount.source,
                target=mount.target,
                read_only=mount.read_only,
                within=mount.within,
            )
        )
    return found


# --- its limits ----------------------------------------------------------------------------------


def _fuel(pod: Obj) -> int | None:
    text = _annotation(pod, FUEL)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**63:
        raise ConfigError(f'annotation {FUEL}: "{text}" is no positive whole number')
    return int(text)


def _seconds(pod: Obj) -> float | None:
    text = _annotation(pod, TIMEOUT)
    if text is None:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < 1e9:
        raise ConfigError(f'annotation {TIMEOUT}: "{text}" is no positive number of seconds')
    return seconds


def _inputs(pod: Obj) -> list[int] | None:
    text = _annotation(pod, INPUTS)
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    good = isinstance(found, list) and all(type(number) is int for number in found)
    if not good or any(not -(2**63) <= number < 2**64 for number in found):
        raise ConfigError(f'annotation {INPUTS}: "{text}" is no list of whole numbers of 64 bits')
    return list(found)


def _annotation(pod: Obj, name: str) -> str | None:
    text = (pod["metadata"].get("annotations") or {}).get(name)
    return None if text is None else str(text).strip()


def _memory(container: Obj) -> int | None:
    text = ((container.get("resources") or {}).get("limits") or {}).get("memory")
    if text is None:
        return None
    limit = Quantity.parse(str(text)).to_int()
    if limit < PAGE:
        raise ConfigError(
            f"a memory limit of {text} is less than one page of memory, which is 64Ki"
        )
    return limit
