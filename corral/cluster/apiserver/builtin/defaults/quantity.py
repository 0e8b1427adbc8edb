"""Resource quantities as the API server computes with them: exact, at nano scale.

A quantity is a pair of its value in nano units and the family of suffixes it was written with;
``show`` prints the one canonical spelling. Finer fractions than nano are rounded up.
"""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import NamedTuple

from corral.kube.types import Obj

__all__ = ["ZERO", "Quantity", "add", "parse", "round_up_to_milli", "show"]

NANO = 10**9
MILLI = 10**6
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY_SUFFIX = {power: suffix for suffix, power in _BINARY.items()}
_DECIMAL_SUFFIX = {power: suffix for suffix, power in _DECIMAL.items()}
_SYNTAX = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?")


class Quantity(NamedTuple):
    """A value in nano units and the suffix family it is printed in."""

    nano: int
    family: str
    """``binary``, ``decimal`` or ``exponent``."""


ZERO = Quantity(0, "decimal")


def parse(value: object) -> Quantity:
    """Read a quantity; raises ValueError on what is not one."""
    match = _SYNTAX.fullmatch(str(value).strip())
    if match is None:
        raise ValueError(f"not a quantity: {value!r}")
    sign, digits, suffix = match.group(1), match.group(2), match.group(3) or ""
    number = Fraction(digits.rstrip(".") if not digits.startswith(".") else "0" + digits)
    if suffix in _BINARY:
        factor, family = Fraction(1024 ** _BINARY[suffix]), "binary"
    elif suffix in _DECIMAL:
        factor, family = Fraction(10) ** _DECIMAL[suffix], "decimal"
    else:
        factor, family = Fraction(10) ** int(suffix[1:]), "exponent"
    nano = ceil(number * factor * NANO)
    return Quantity(-nano if sign == "-" else nano, family)


def show(quantity: Quantity) -> str:
    """Print the canonical spelling: no fraction, the largest suffix that loses nothing."""
    nano, family = quantity
    if nano == 0:
        return "0"
    if family == "binary" and nano % NANO == 0 and abs(nano) >= 1024 * NANO:
        number, power = nano // NANO, 0
        while number % 1024 == 0 and power < 6:
            number, power = number // 1024, power + 1
        return f"{number}{_BINARY_SUFFIX.get(power, '')}"
    number, power = nano, -9
    while number % 1000 == 0 and power < 18:
        number, power = number // 1000, power + 3
    if family == "exponent":
        return f"{number}e{power}" if power else str(number)
    return f"{number}{_DECIMAL_SUFFIX[power]}"


def add(left: Quantity, right: Quantity) -> Quantity:
    """Sum; the left one's spelling wins unless it is zero."""
    return Quantity(left.nano + right.nano, left.family if left.nano else right.family)


def round_up_to_milli(resources: Obj | None) -> None:
    """Round every quantity of a resource list up to thousandths, in place."""
    if not resources:
        return
    for name, value in resources.items():
        # Canonical spellings finer than milli end in n or u, or carry a negative exponent.
        if isinstance(value, str) and (value[-1:] in ("n", "u") or "." in value or "e-" in value):
            try:
                quantity = parse(value)
            except ValueError:
                continue  # validation names it
            sign = -1 if quantity.nano < 0 else 1
            rounded = -(-abs(quantity.nano) // MILLI) * MILLI
            resources[name] = show(Quantity(sign * rounded, quantity.family))
