"""Runs protoc, which grpcio-tools brings along, over all .proto files of a folder."""

from __future__ import annotations

import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet  # type: ignore[import-untyped]
from grpc_tools import protoc

from tools.protos.errors import ProtoError
from tools.protos.paths import PACKAGE

_WELL_KNOWN = Path(protoc.__file__).parent / "_proto"


def write_stubs(root: Path) -> None:
    """Write the Python modules of ``root/corral/v1/*.proto`` beside them."""
    _protoc(root, f"--python_out={root}", f"--pyi_out={root}", f"--grpc_python_out={root}")
    for path in (root / PACKAGE).glob("*_pb2_grpc.py"):
        # Files without a service would only get an empty module beside their messages.
        if b"class " not in path.read_bytes():
            path.unlink()


def described(root: Path, *names: str) -> FileDescriptorSet:
    """The descriptors of these files, or of all, with their comments."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "set.binpb"
        _protoc(root, f"--descriptor_set_out={out}", "--include_source_info", names=names)
        return FileDescriptorSet.FromString(out.read_bytes())


def _protoc(root: Path, *options: str, names: tuple[str, ...] = ()) -> None:
    files = sorted((root / PACKAGE).glob("*.proto"))
    chosen = [str(path) for path in files if not names or path.stem in names]
    code = protoc.main(["protoc", f"-I{root}", f"-I{_WELL_KNOWN}", *options, *chosen])
    if code != 0:
        raise ProtoError(f"protoc ended with {code}; what it says above names the file and line")
