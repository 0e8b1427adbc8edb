from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# pieces that grow teach glibc to keep them; a small one at the end holds the heap's top
PROGRAM = """
import ctypes, sys
from corral.podtools.kafkaml.memory import give_back
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
def size():
    return int(open("/proc/self/statm").read().split()[0]) * 4096
if sys.argv[1] == "yes":
    assert give_back()
libc.free(libc.malloc(30 << 20))
before = size()
large = [libc.malloc(8 << 20) for _ in range(8)]
top = libc.malloc(100_000)
for piece in large:
    libc.free(piece)
print(size() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told")
def test_large_pieces_go_back() -> None:
    def kept(word: str) -> int:
        command = [sys.executable, "-c", PROGRAM, word]
        return int(subprocess.run(command, capture_output=True, check=True, timeout=30).stdout)

    assert kept("yes") < 8 << 20 < kept("no")
