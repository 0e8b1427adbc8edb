"""Stands in for a node agent: it has a daemon that left its session and parent, as pods do."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def daemon(report: Path) -> None:
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    report.write_text(str(os.getpid()))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(60)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    starts = folder / "starts"
    with starts.open("a") as file:
        file.write(f"{os.getpid()}\n")
    (folder / "environment").write_text(json.dumps(dict(os.environ)))
    daemon(folder / "daemon")
    if "stubborn" in sys.argv:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    else:
        signal.signal(signal.SIGTERM, lambda *_: (folder / "orderly").touch() or sys.exit(0))
    print("agent is ready", flush=True)
    while True:
        time.sleep(60)


main()
