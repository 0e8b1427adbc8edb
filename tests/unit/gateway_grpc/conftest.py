"""What protoc reads in the tree, once a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from grpc_tools import protoc


@pytest.fixture(scope="session")
def compiled(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A descriptor set of proto/, with comments."""
    out = tmp_path_factory.mktemp("proto") / "set.binpb"
    sources = repository / "proto"
    files = [str(path) for path in sorted(sources.glob("corral/v1/*.proto"))]
    well_known = Path(protoc.__file__).parent / "_proto"
    arguments = [f"-I{sources}", f"-I{well_known}", f"--descriptor_set_out={out}"]
    assert protoc.main(["protoc", *arguments, "--include_source_info", *files]) == 0
    return out.read_bytes()


@pytest.fixture
def protos(compiled: bytes) -> FileDescriptorSet:
    """A copy that a case may change."""
    return FileDescriptorSet.FromString(compiled)
