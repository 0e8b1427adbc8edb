from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from corral.podtools.confine.calls import CHECKED, MODULES, PLAIN
from corral.podtools.confine.filters import program
from corral.podtools.confine.kernel import MACHINES

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSED, UNKNOWN = 0x00050001, 0x00050026
ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_are_those_of_the_kernel(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    rows = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text())
    known = {name: int(number) for name, number in rows}
    known.setdefault("newfstatat", known.get("fstatat", -1))
    for name, numbers in {**PLAIN, **CHECKED, **MODULES}.items():
        assert numbers[MACHINES.index(machine)] == known.get(name, -1), name


def decide(machine: str, name: str, *arguments: int, architecture: int = 0) -> int:
    """What the filter says of a call: the kernel's machine, in a few lines."""
    number = {**PLAIN, **CHECKED, **MODULES}[name][MACHINES.index(machine)]
    return decide_number(machine, number, *arguments, architecture=architecture)


def decide_number(machine: str, number: int, *arguments: int, architecture: int = 0) -> int:
    six = [*arguments, *[0] * (6 - len(arguments))]
    kind = architecture or ARCHITECTURE[machine]
    data = struct.pack("=iIQ6Q", number, kind, 0, *(value % 2**64 for value in six))
    code = program(machine, 77)
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    at = word = 0
    while True:
        what, true, false, value = steps[at]
        at += 1
        if what == 0x20:
            (word,) = struct.unpack_from("=I", data, value)
        elif what == 0x06:
            return int(value)
        else:
            holds = {0x15: word == value, 0x35: word >= value, 0x45: bool(word & value)}[what]
            at += true if holds else false


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "arguments", "wanted"),
    [
        ("read", (), ALLOW),
        ("openat", (), ALLOW),
        ("openat2", (), UNKNOWN),
        ("clone", (0x3D0F00,), ALLOW),
        ("clone", (17,), REFUSED),
        ("clone", (0x10010000,), REFUSED),
        ("clone3", (), UNKNOWN),
        ("kill", (77, 9), ALLOW),
        ("kill", (76, 9), REFUSED),
        ("kill", (0, 9), REFUSED),
        ("kill", (-1, 9), REFUSED),
        ("tgkill", (77, 78, 9), ALLOW),
        ("tgkill", (1, 1, 9), REFUSED),
        ("mmap", (0, 1, 3, 0x22), ALLOW),
        ("mmap", (0, 1, 3, 0x21), REFUSED),
        ("mmap", (0, 1, 3, 0x23), REFUSED),
        ("mmap", (0, 1, 3, 0x01, 5), ALLOW),
        ("mmap", (0, 1, 3, 0x122), REFUSED),
        ("mmap", (0, 1, 3, 0x40022), REFUSED),
        ("prlimit64", (0, 7, 0, 1), ALLOW),
        ("prlimit64", (77, 7, 0, 1), ALLOW),
        ("prlimit64", (1, 7, 0, 1), REFUSED),
        ("prlimit64", (0, 7, 1, 0), REFUSED),
        ("prlimit64", (0, 7, 1 << 32, 0), REFUSED),
        ("sendto", (1, 2, 3, 0, 0), ALLOW),
        ("sendto", (1, 2, 3, 0, 5), REFUSED),
        ("sendto", (1, 2, 3, 0, 5 << 32), REFUSED),
        ("socketpair", (1, 0x80001), ALLOW),
        ("socketpair", (1, 2), REFUSED),
        ("socketpair", (16, 1), REFUSED),
        ("fcntl", (0, 1030), ALLOW),
        ("fcntl", (0, 8), REFUSED),
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), REFUSED),
        ("prctl", (15,), ALLOW),
        ("prctl", (22,), REFUSED),
        ("sched_setaffinity", (0,), ALLOW),
        ("sched_setaffinity", (1,), REFUSED),
        ("flock", (), UNKNOWN),
    ],
)
def test_a_filter_decides(machine: str, name: str, arguments: tuple[int, ...], wanted: int) -> None:
    assert decide(machine, name, *arguments) == wanted


@pytest.mark.parametrize("machine", MACHINES)
def test_everything_else_is_refused(machine: str) -> None:
    known = {row[MACHINES.index(machine)] for row in {**PLAIN, **CHECKED}.values()}
    for number in range(600):
        if number not in known:
            wanted = REFUSED if number < 424 else UNKNOWN
            assert decide_number(machine, number) == wanted, number


def test_other_architectures_end_the_process() -> None:
    assert decide("x86_64", "read", architecture=0x40000003) == KILL
    assert decide_number("x86_64", 0x40000000) == KILL
