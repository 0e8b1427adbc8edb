"""The interface of codecs: a model as bytes, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from corral.learning.tensors import Model

Bytes = bytes | bytearray | memoryview


class Codec(Protocol):
    """One encoding of models as bytes."""

    @property
    def name(self) -> str: ...

    def decode(self, data: Bytes) -> Model:
        """Raises `UpdateRejected` for anything that is not exactly of the format."""

    def encode(self, model: Model) -> bytes:
        """The bytes that `decode` reads back to the same model."""

    def pieces(self, model: Model) -> Iterator[Bytes]:
        """The same bytes one after the other, the model's own memory among them."""
