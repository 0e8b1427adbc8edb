"""Keeps a hostile model confined, and hands it what the cases ask for: lines of JSON.

``model_code_driver.py MODE GIVEN OUT``. MODE is what the process may do itself: `root` all,
`user` nothing that needs capabilities, `plain` no new namespaces either, as in a container of a
usual runtime.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def restrict(mode: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    machine = os.uname().machine
    if mode != "root":
        # what is executed by root gets no capabilities for that either
        library.prctl(28, 0x2F, 0, 0, 0)
        header = struct.pack("=Ii", 0x20080522, 0)
        number = 126 if machine == "x86_64" else 91
        # without it root cannot be another user in a namespace, as any other user can
        kept = 1 << 31 if mode == "user" and os.geteuid() == 0 else 0
        data = struct.pack("=6I", kept, kept, kept, 0, 0, 0)
        assert library.syscall(number, header, data) == 0
        if kept:
            assert library.prctl(47, 2, 31, 0, 0) == 0
    if mode == "plain":
        unshare = 272 if machine == "x86_64" else 97
        rows = [(0x20, 0, 0, 0), (0x15, 0, 1, unshare), (6, 0, 0, 0x50001), (6, 0, 0, 0x7FFF0000)]
        code = b"".join(struct.pack("=HBBI", *row) for row in rows)
        buffer = ctypes.create_string_buffer(code)
        program = struct.pack("=HxxxxxxQ", len(rows), ctypes.addressof(buffer))
        assert library.prctl(38, 1, 0, 0, 0) == 0
        assert library.prctl(22, 2, program, 0, 0) == 0


def main() -> None:
    mode, given, out = sys.argv[1:4]
    restrict(mode)
    os.environ["MODEL_SECRET"] = "s3cret"
    # a descriptor that anything started from here inherits
    secret = os.open(Path(given).parent / "secret", os.O_RDONLY)
    os.set_inheritable(secret, True)
    sys.path.insert(0, str(HERE))
    from corral.podtools.confine import Kept, Limits, Unanswered, run

    shared: Any = {"readable": [Path(given), HERE], "writable": [Path(out)]}
    limits = Limits(seconds=60, memory=1 << 30, file=256 << 20)
    with Kept("model_code_attacks:serve", limits=limits, **shared) as kept:
        for line in sys.stdin:
            asked = json.loads(line)
            if "once" in asked:
                wanted = Limits(**asked["limits"])
                ended = run("model_code_attacks:once", asked["once"], limits=wanted, **shared)
                answer = {"code": ended.code, "why": ended.why, "output": ended.output}
            else:
                try:
                    found = kept.ask(json.dumps(asked["ask"]).encode(), seconds=30, most=1 << 20)
                    answer = {"answer": json.loads(found)}
                except Unanswered as err:
                    answer = {"answer": f"refused: {err}"}
            missing = list(getattr(kept, "missing", ()))
            print(json.dumps({**answer, "missing": missing}), flush=True)


if __name__ == "__main__":
    main()
