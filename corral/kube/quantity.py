"""Resource quantities: parsed, compared and printed exactly as Kubernetes does.

A quantity remembers the family of its suffix (``DecimalSI`` 500m, ``BinarySI`` 64Mi,
``DecimalExponent`` 12e6) and prints itself in canonical form in the same family: no fraction, the
largest suffix that loses nothing. Text that already is in (what Kubernetes takes for) canonical
form is kept letter for letter. Anything finer than 1n is rounded up, away from zero.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache, total_ordering
from typing import Final

__all__ = ["Quantity", "canonical"]

BINARY_SI: Final = "BinarySI"
DECIMAL_SI: Final = "DecimalSI"
DECIMAL_EXPONENT: Final = "DecimalExponent"

_NANO: Final = -9
_MAX: Final = 2**63 - 1
_MAX_DIGITS: Final = 18
"""Decimal digits that always fit an int64; longer numbers take Kubernetes' slow path."""
_MAX_EXPONENT: Final = 9_999
"""Kubernetes takes any int32; comparing such numbers would exhaust memory."""

_DECIMAL: Final = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = {exponent: suffix for suffix, exponent in _BINARY.items()} | {0: ""}

# possessive: digits that were taken are not given back, else long texts take their length cubed
_SPLIT: Final = re.compile(r"([+-]?)0*+([0-9]*+)(?:\.([0-9]*+))?([eEinumkKMGTP]*+[-+]?[0-9]*+)")
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")

_FORMAT_WRONG: Final = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_SUFFIX_WRONG: Final = "unable to parse quantity's suffix"
_NUMBER_WRONG: Final = "unable to parse numeric part of quantity"


@total_ordering
@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """``mantissa * 10**exponent``; two quantities are equal when their amounts are."""

    mantissa: int
    exponent: int = 0
    """The power of ten; it is never below -9."""
    format: str = DECIMAL_SI
    text: str = field(default="", repr=False)
    """The text to print, where parsing found it canonical; else empty."""

    @classmethod
    def parse(cls, text: str) -> Quantity:
        """Read a quantity.

        Raises:
            ValueError: with Kubernetes' message.
        """
        return _parse(text)

    @property
    def nano(self) -> int:
        """The amount in billionths, exact."""
        return int(self.mantissa * 10 ** (self.exponent - _NANO))

    def to_int(self) -> int:
        """The amount as a whole number, rounded away from zero."""
        return self._scaled(0)

    def milli(self) -> int:
        """The amount in thousandths, rounded away from zero."""
        return self._scaled(-3)

    def _scaled(self, scale: int) -> int:
        if self.exponent >= scale:
            return int(self.mantissa * 10 ** (self.exponent - scale))
        return _divide_up(self.mantissa, 10 ** (scale - self.exponent))

    def __str__(self) -> str:
        return self.text or _canonicalize(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __bool__(self) -> bool:
        return self.mantissa != 0

    def __add__(self, other: Quantity) -> Quantity:
        return self._plus(other, other.mantissa)

    def __sub__(self, other: Quantity) -> Quantity:
        return self._plus(other, -other.mantissa)

    def _plus(self, other: Quantity, amount: int) -> Quantity:
        scale = min(self.exponent, other.exponent)
        mine = self.mantissa * 10 ** (self.exponent - scale)
        theirs = amount * 10 ** (other.exponent - scale)
        return Quantity(mine + theirs, scale, self.format if self.mantissa else other.format)


@lru_cache(maxsize=8192)
def canonical(text: str) -> str:
    """Print ``text`` as the API server would give it back.

    Raises:
        ValueError: with Kubernetes' message.
    """
    return str(_parse(text))


@lru_cache(maxsize=8192)
def _parse(text: str) -> Quantity:
    match = _SPLIT.fullmatch(text)
    if not text or match is None:
        raise ValueError(_FORMAT_WRONG)
    sign, whole, fraction, suffix = match.groups(default="")
    format_, exponent = _interpret(suffix)
    digits = (whole or "0") + fraction
    value = -int(digits) if sign == "-" else int(digits)
    scale = exponent - len(fraction)
    if format_ == BINARY_SI:
        if not fraction and 14 - len(digits) - exponent * 3 // 10 >= 0:
            return Quantity(value << exponent, 0, format_, text if value & 7 else "")
    elif len(digits) <= _MAX_DIGITS and scale >= _NANO:
        kept = scale % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
        return Quantity(value, scale, format_, text if kept else "")
    # Only here does Kubernetes notice that there is no digit at all.
    if not value and "0" not in text[: match.start(4)]:
        raise ValueError(_NUMBER_WRONG)
    if format_ == BINARY_SI:
        return _capped(value << exponent, -len(fraction))
    return _rounded(value, scale, format_)


def _interpret(suffix: str) -> tuple[str, int]:
    decimal = _DECIMAL.get(suffix)
    if decimal is not None:
        return DECIMAL_SI, decimal
    binary = _BINARY.get(suffix)
    if binary is not None:
        return BINARY_SI, binary
    match = _EXPONENT.fullmatch(suffix)
    if match is None or abs(int(match.group(1)[:8])) > _MAX_EXPONENT:
        raise ValueError(_SUFFIX_WRONG)
    return DECIMAL_EXPONENT, int(match.group(1))


def _capped(amount: int, scale: int) -> Quantity:
    out = _rounded(amount, scale, BINARY_SI)
    if abs(out.nano) > _MAX * 10**9:
        return Quantity(_MAX if amount > 0 else -_MAX, 0, BINARY_SI)
    if 0 < abs(out.nano) < 10**9:
        return Quantity(out.mantissa, out.exponent, DECIMAL_SI)
    return out


def _rounded(value: int, scale: int, format_: str) -> Quantity:
    if scale >= _NANO or not value:
        return Quantity(value, max(scale, _NANO), format_)
    return Quantity(_divide_up(value, 10 ** (_NANO - scale)), _NANO, format_)


def _divide_up(value: int, by: int) -> int:
    """Divide, rounding away from zero."""
    return -(-value // by) if value > 0 else value // by


def _canonicalize(quantity: Quantity) -> str:
    if not quantity.mantissa:
        return "0"
    format_ = quantity.format
    if format_ == BINARY_SI:
        nano = quantity.nano
        # Below 1Ki, and where binary units would lose something, decimal units say it better.
        if abs(nano) < 1024 * 10**9 or nano % 10**9:
            format_ = DECIMAL_SI
        else:
            number, times = _without_factors(nano // 10**9, 1024)
            return f"{number}{_BINARY_SUFFIX.get(times * 10, '')}"
    number, times = _without_factors(quantity.mantissa, 10)
    exponent = quantity.exponent + times
    number *= 10 ** (exponent % 3)
    exponent -= exponent % 3
    if format_ == DECIMAL_SI:
        # A number too big for the largest suffix loses it: so it does in Kubernetes.
        return f"{number}{_DECIMAL_SUFFIX.get(exponent, '')}"
    return f"{number}e{exponent}" if exponent else str(number)


def _without_factors(value: int, base: int) -> tuple[int, int]:
    times = 0
    while value % base == 0:
        value //= base
        times += 1
    return value, times
