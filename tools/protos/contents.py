"""What is to stand in ``corral/v1``, and the two files of ``proto`` that are kept by a tool."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tools.protos.compiler import described, write_stubs
from tools.protos.errors import ProtoError
from tools.protos.files import generated_files
from tools.protos.messages import Numbers
from tools.protos.paths import BY_HAND, NUMBERS, PACKAGE, RECORDED, ROOT, SOURCES, WIRE, write


def contents() -> dict[str, bytes]:
    """Every file by its name: all .proto files, and the modules that protoc makes of them.

    Raises:
        ProtoError: a field has no number, or protoc refuses a file.
    """
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / PACKAGE
        folder.mkdir(parents=True)
        for name, content in _protos().items():
            (folder / name).write_bytes(content)
        write_stubs(Path(root))
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def pin() -> None:
    """Give new fields their numbers, in ``proto/numbers.json``."""
    numbers = _numbers()
    _texts(numbers)
    write(NUMBERS, f"{json.dumps(numbers.recorded, indent=1)}\n".encode())


def record() -> None:
    """Make what ``corral/v1`` has now what later versions may not break."""
    now = described(ROOT)
    for file in now.file:
        file.ClearField("source_code_info")
    write(RECORDED, now.SerializeToString(deterministic=True))


def _protos() -> dict[str, bytes]:
    numbers = _numbers()
    texts = _texts(numbers)
    if numbers.added:
        raise ProtoError(
            f"proto/numbers.json has no number for {', '.join(numbers.added)}: "
            "run `python -m tools.protos --pin` and commit what it adds"
        )
    by_hand = {path.name: path.read_bytes() for path in BY_HAND.glob("*.proto")}
    return by_hand | {f"{name}.proto": text.encode() for name, text in texts.items()}


def _texts(numbers: Numbers) -> dict[str, str]:
    return dict(generated_files(SOURCES, WIRE, numbers))


def _numbers() -> Numbers:
    return Numbers(json.loads(NUMBERS.read_bytes()))
