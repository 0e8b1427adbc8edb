"""The command ``python -m tools.protos``."""

from __future__ import annotations

import argparse
import sys

from tools.protos.build import generate
from tools.protos.errors import ProtoError


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.protos",
        description="Generate corral/v1, unless it is up to date.",
    )
    parser.add_argument(
        "--pin", action="store_true", help="first number new fields, in proto/numbers.json"
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="then make the result what later versions may not break, in proto/recorded.binpb",
    )
    options = parser.parse_args()
    try:
        _run(pins=options.pin, records=options.record)
    except ProtoError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(*, pins: bool, records: bool) -> None:
    if pins:
        from tools.protos.contents import pin

        pin()
    if count := generate():
        print(f"corral/v1: {count} files generated")
    if records:
        from tools.protos.contents import record

        record()


if __name__ == "__main__":
    sys.exit(main())
