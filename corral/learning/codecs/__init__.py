"""How a payload is encoded: `codec(format)` and the formats there are.

Decoding never copies float data where the format allows a view, never runs code from the payload
(no pickle, ever), and refuses what is not exactly of the format.
"""

from __future__ import annotations

from corral.learning.codecs.base import Codec
from corral.learning.codecs.json_f64 import JsonFloats
from corral.learning.codecs.npy import Npy
from corral.learning.codecs.opaque import Opaque
from corral.learning.codecs.raw import RawFloats
from corral.learning.codecs.safetensors import SafeTensors
from corral.learning.codecs.spool import Spool, decode_chunks, decode_stream

CODECS: dict[str, Codec] = {
    "json-f64": JsonFloats(),
    "f32-le": RawFloats("f32-le", "<f4"),
    "f64-le": RawFloats("f64-le", "<f8"),
    "npy": Npy(),
    "safetensors": SafeTensors(),
}

OPAQUE = Opaque()


def codec(name: str) -> Codec | None:
    """The codec of a format ("" is json-f64); None: a format unknown here, opaque bytes."""
    return CODECS.get(name or "json-f64")


__all__ = [
    "CODECS",
    "OPAQUE",
    "Codec",
    "Opaque",
    "Spool",
    "codec",
    "decode_chunks",
    "decode_stream",
]
