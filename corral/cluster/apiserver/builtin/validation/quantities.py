"""Quantities as exact numbers: parse, compare, print.

A quantity is compared in billionths, the finest step the API knows, as a Python integer.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

__all__ = ["NANO", "canonical", "cmp_quantity", "is_whole", "nano", "value_of"]

NANO = 10**9
_SPLIT = re.compile(
    r"([+-]?)(\d*)(?:\.(\d*))?(?:(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)|[eE]([+-]?\d+))?"
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


@lru_cache(maxsize=4096)
def _parse(text: str) -> int:
    found = _SPLIT.fullmatch(text)
    if found is None or not (found[2] or found[3]):
        return 0
    sign, whole, fraction, suffix, exponent = found.groups()
    fraction = fraction or ""
    number = int((whole or "") + fraction or "0")
    if suffix in _BINARY:
        up = number * NANO * (1 << _BINARY[suffix])
        down = 10 ** len(fraction)
    else:
        power = 9 + _DECIMAL[suffix or ""] + int(exponent or 0) - len(fraction)
        up, down = (number * 10**power, 1) if power >= 0 else (number, 10**-power)
    # Anything finer than a billionth rounds away from zero.
    result: int = -(-up // down)
    return -result if sign == "-" else result


def nano(quantity: Any) -> int:
    """The quantity in billionths; what is no quantity counts as zero."""
    return _parse(quantity if type(quantity) is str else str(quantity))


def cmp_quantity(a: Any, b: Any) -> int:
    return (nano(a) > nano(b)) - (nano(a) < nano(b))


def value_of(quantity: Any) -> int:
    """The quantity as a whole number, rounded away from zero."""
    number = nano(quantity)
    rounded = -(-abs(number) // NANO)
    return rounded if number >= 0 else -rounded


def is_whole(quantity: Any) -> bool:
    """Whether the quantity has no fraction, looking no finer than thousandths."""
    number = nano(quantity)
    milli = -(-number // 10**6)
    return milli % 1000 == 0


@lru_cache(maxsize=4096)
def _canonical(text: str) -> str:
    number = _parse(text)
    found = _SPLIT.fullmatch(text)
    suffix = found[4] if found else ""
    if number == 0:
        return "0"
    if found is not None and found[5] is not None:
        return _print_exponent(number)
    if suffix in _BINARY and number % NANO == 0 and abs(number) >= 1024 * NANO:
        return _print_binary(number // NANO)
    return _print_decimal(number)


def canonical(quantity: Any) -> str:
    """The quantity as the API prints it."""
    return _canonical(quantity if type(quantity) is str else str(quantity))


def _print_binary(number: int) -> str:
    suffix = ""
    for name in _BINARY:
        if number % 1024:
            break
        number, suffix = number // 1024, name
    return f"{number}{suffix}"


def _strip(number: int) -> tuple[int, int]:
    power = -9
    while number % 1000 == 0 and power < 18:
        number, power = number // 1000, power + 3
    return number, power


def _print_decimal(number: int) -> str:
    number, power = _strip(number)
    suffix = next(name for name, p in _DECIMAL.items() if p == power)
    return f"{number}{suffix}"


def _print_exponent(number: int) -> str:
    number, power = _strip(number)
    return f"{number}e{power}" if power else str(number)
