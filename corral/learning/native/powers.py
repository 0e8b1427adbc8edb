"""Powers of five in 128 bits, for reading decimal numbers (numbers.h)."""

from __future__ import annotations

import struct
from functools import cache

LEAST, MOST = -342, 308
"""Beyond these every number of 19 digits is zero or infinite as a float64."""


@cache
def powers() -> bytes:
    """The first 128 bits of each power, the upper half before the lower."""
    table = [_first_bits(power) for power in range(LEAST, MOST + 1)]
    return b"".join(struct.pack("=QQ", bits >> 64, bits & (1 << 64) - 1) for bits in table)


def _first_bits(power: int) -> int:
    five: int = 5 ** abs(power)
    if power >= 0:
        length = five.bit_length()
        return five >> length - 128 if length > 128 else five << 128 - length
    # 2**(127 + length) / five lies between 2**127 and 2**128, and is never a whole number
    return (1 << 127 + five.bit_length()) // five
