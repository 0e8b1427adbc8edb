"""String formats of CRD schemas, as kube-apiserver recognises and checks them.

Formats outside the table are ignored, as there.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date

__all__ = ["FORMATS", "duration_nanoseconds", "is_format"]

Check = Callable[[str], bool]
_NAME = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_HOST = re.compile(
    r"([^\W_]((-?[^\W_]{0,62})?)|([^\W_](([^\W_-]|-){0,61}[^\W_])?(\.))+[^\W\d_]{2,63})\Z"
)
_NAMED_ADDRESS = re.compile(r"[^<>@]*<([^<>]+)>\Z")
_ADDRESS = re.compile(r'(?:[^\s@"(),:;<>\[\]\\]+|"(?:\\.|[^"\\])*")@[^\s@"(),:;<>\\]+\Z')
_DATE_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))\Z")
# possessive (`++`), and whole numbers only: what was taken is not given back and tried again
_GO_DURATION = re.compile(
    r"[+-]?(?:0|(?:(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:ns|us|µs|μs|ms|s|m|h))+)\Z"
)
_GO_PART = re.compile(r"([0-9]*+(?:\.[0-9]*+)?)(ns|us|µs|μs|ms|s|m|h)")
_WORDY_DURATION = re.compile(r"(?<!\d)(\d++)\s*+([A-Za-zµ]++)")
_UNIT = {"ns": 1, "us": 10**3, "µs": 10**3, "μs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_UNIT["h"] = 60 * _UNIT["m"]
_WORDS: tuple[tuple[int, tuple[str, ...]], ...] = (
    (1, ("ns", "nano")),
    (10**3, ("us", "µs", "micro")),
    (10**6, ("ms", "milli")),
    (10**9, ("s", "sec")),
    (_UNIT["m"], ("m", "min")),
    (_UNIT["h"], ("h", "hr", "hour")),
    (24 * _UNIT["h"], ("d", "day")),
    (7 * 24 * _UNIT["h"], ("w", "wk", "week")),
)
_MAC = re.compile(
    r"(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}(?:(?:\1[0-9A-Fa-f]{2}){2})?\Z"
    r"|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4}){2,3}\Z"
)
_CARD = re.compile(
    r"(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})\Z"
)


def duration_nanoseconds(text: str) -> int:
    """A Go duration (``1h30m``) or one with words (``3 days``).

    Raises:
        ValueError: the text is neither.
    """
    if _GO_DURATION.match(text):
        total = sum(float(n) * _UNIT[u] for n, u in _GO_PART.findall(text))
        if total >= 2**63:
            raise ValueError(f"invalid duration {text}")
        return int(-total if text.startswith("-") else total)
    total_ns, found = 0, False
    for digits, unit in _WORDY_DURATION.findall(text):
        for scale, names in _WORDS:
            if unit.lower() in names or unit.lower().startswith(names[-1]):
                total_ns, found = total_ns + int(digits) * scale, True
    if not found:
        raise ValueError(f"unable to parse {text} as duration")
    return total_ns


def _parses(parse: Callable[[str], object]) -> Check:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _matches(pattern: str, flags: re.RegexFlag = re.ASCII) -> Check:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.match(text) is not None


def _date(text: str) -> bool:
    return len(text) == 10 and _parses(date.fromisoformat)(text)


def _date_time(text: str) -> bool:
    day, _, clock = text.lower().partition("t")
    found = _DATE_TIME.match(clock)
    if found is None or not _date(day):
        return False
    return found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _sloppy_ip(text: str) -> str:
    """Leading zeros in IPv4 parts are decimal, not an error."""
    return ".".join(p.lstrip("0") or "0" for p in text.split(".")) if "." in text else text


def _ipv4(text: str) -> bool:
    return "." in text and _parses(ipaddress.ip_address)(_sloppy_ip(text))


def _ipv6(text: str) -> bool:
    return ":" in text and "%" not in text and _parses(ipaddress.ip_address)(text)


def _cidr(text: str) -> bool:
    head, slash, bits = text.partition("/")
    if not slash or not bits.isdigit():
        return False
    return _parses(ipaddress.ip_interface)(f"{_sloppy_ip(head)}/{bits}")


def _hostname(text: str) -> bool:
    fits = len(text) <= 255 and all(len(p) <= 63 for p in text.split("."))
    return fits and _HOST.match(text) is not None


def _email(text: str) -> bool:
    found = _NAMED_ADDRESS.match(text)
    return _ADDRESS.match(found[1] if found else text) is not None


def _uri(text: str) -> bool:
    from corral.cluster.apiserver.cel.network import parse_url

    return _parses(parse_url)(text)


def _base64(text: str) -> bool:
    return bool(text) and _parses(lambda t: base64.b64decode(t, validate=True))(text)


def _card(text: str) -> bool:
    digits = re.sub(r"[^0-9]", "", text)
    if not _CARD.match(digits):
        return False
    doubled = [int(d) * (1 + i % 2) for i, d in enumerate(reversed(digits))]
    return sum(d if d < 10 else d % 10 + 1 for d in doubled) % 10 == 0


def _isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.match(r"[0-9]{9}[0-9X]\Z", digits):
        return False
    return sum((i + 1) * (10 if d == "X" else int(d)) for i, d in enumerate(digits)) % 11 == 0


def _isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.match(r"[0-9]{13}\Z", digits):
        return False
    return sum(int(d) * (3 if i % 2 else 1) for i, d in enumerate(digits)) % 10 == 0


_HEX = "[0-9a-f]"
_UUID = rf"(?i){_HEX}{{8}}-?{_HEX}{{4}}-?%s-?%s-?{_HEX}{{12}}\Z"
_FOUR, _VARIANT = rf"{_HEX}{{4}}", rf"[89ab]{_HEX}{{3}}"

# Keyed without dashes: kube-apiserver ignores them in format names.
FORMATS: dict[str, Check] = {
    "bsonobjectid": _matches(r"[0-9a-fA-F]{24}\Z"),
    "uri": _uri,
    "email": _email,
    "hostname": _hostname,
    "ipv4": _ipv4,
    "ipv6": _ipv6,
    "cidr": _cidr,
    "mac": lambda text: _MAC.match(text) is not None,
    "uuid": _matches(_UUID % (_FOUR, _FOUR)),
    "uuid3": _matches(_UUID % (rf"3{_HEX}{{3}}", _FOUR)),
    "uuid4": _matches(_UUID % (rf"4{_HEX}{{3}}", _VARIANT)),
    "uuid5": _matches(_UUID % (rf"5{_HEX}{{3}}", _VARIANT)),
    "isbn": lambda text: _isbn10(text) or _isbn13(text),
    "isbn10": _isbn10,
    "isbn13": _isbn13,
    "creditcard": _card,
    "ssn": lambda text: (
        len(text) == 11 and re.match(r"\d{3}[- ]?\d{2}[- ]?\d{4}\Z", text) is not None
    ),
    "hexcolor": _matches(r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})\Z"),
    "rgbcolor": _matches(
        r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])"
        r"\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)\Z"
    ),
    "byte": _base64,
    "password": lambda text: True,
    "date": _date,
    "duration": _parses(duration_nanoseconds),
    "datetime": _date_time,
    "k8sshortname": lambda text: len(text) <= 63 and re.match(rf"{_NAME}\Z", text) is not None,
    "k8slongname": lambda text: (
        len(text) <= 253 and re.match(rf"{_NAME}(\.{_NAME})*\Z", text) is not None
    ),
}


def is_format(name: str, text: str) -> bool:
    """Whether the text has the format; unknown formats hold for everything."""
    check = FORMATS.get(name.replace("-", ""))
    return check is None or check(text)
