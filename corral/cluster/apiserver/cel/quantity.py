"""Resource quantities as exact numbers, for the CEL quantity library."""

from __future__ import annotations

import re
from fractions import Fraction

__all__ = ["is_quantity", "parse_quantity"]

_FORM = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))"
    r"(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]+)?\Z"
)
_SCALE: dict[str, Fraction] = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{unit: Fraction(10 ** (3 * (i + 1))) for i, unit in enumerate("kMGTPE")},
    **{f"{unit}i": Fraction(2 ** (10 * (i + 1))) for i, unit in enumerate("KMGTPE")},
}
_NANO = 10**9


def is_quantity(text: str) -> bool:
    return _FORM.match(text) is not None


def parse_quantity(text: str) -> Fraction:
    """The exact value, rounded up (away from zero) to whole nanos as Kubernetes keeps it.

    Raises:
        ValueError: the text is not a quantity; the message is the one Kubernetes gives.
    """
    found = _FORM.match(text)
    if found is None:
        raise ValueError(
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    digits, suffix = found.groups()
    value = Fraction(digits if not digits.endswith(".") else digits[:-1])
    if suffix and suffix not in _SCALE:
        value *= Fraction(10) ** int(suffix[1:])
    elif suffix:
        value *= _SCALE[suffix]
    nanos = value * _NANO
    if nanos.denominator == 1:
        return value
    whole = nanos.numerator // nanos.denominator
    return Fraction(whole + 1 if value > 0 else whole, _NANO)
