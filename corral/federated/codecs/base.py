"""What a codec is."""

from __future__ import annotations

from typing import Protocol

from corral.federated.tensors import Model

Bytes = bytes | bytearray | memoryview


class Codec(Protocol):
    """One encoding of models as bytes."""

    @property
    def name(self) -> str: ...

    def decode(self, data: Bytes) -> Model:
        """Raises `UpdateRejected` for anything that is not exactly of the format."""

    def encode(self, model: Model) -> bytes:
        """The bytes that `decode` reads back to the same model."""
