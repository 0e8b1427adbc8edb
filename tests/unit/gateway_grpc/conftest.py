"""What protoc reads in ``corral/v1``, once a run."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tools.protos.compiler import described


@pytest.fixture(scope="session")
def compiled(repository: Path) -> bytes:
    """A descriptor set of all .proto files, with comments."""
    return bytes(described(repository).SerializeToString())


@pytest.fixture
def protos(compiled: bytes) -> FileDescriptorSet:
    """A copy that a case may change."""
    return FileDescriptorSet.FromString(compiled)
