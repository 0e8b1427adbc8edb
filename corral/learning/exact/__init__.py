"""Sums without rounding: what comes out depends on what went in, never on the order.

`ExactSum` adds weighted vectors of float32 or float64 and rounds once, when it is read. Adding is
therefore commutative, associative and invertible, bit for bit: updates may come in any order and
in any grouping, partial sums may be merged, and an update found to be bad may be taken out again.
"""

from corral.learning.exact.sums import MAX_TOTAL_WEIGHT, ExactSum

__all__ = ["MAX_TOTAL_WEIGHT", "ExactSum"]
