"""``python -m corral.podtools.models.check``: finds out what a model's code makes.

The code is run in a confined process. What comes of it is left where the uploader finds it: the
model as one file (``update``) and what is known of it (``result.json``).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from corral.podtools import termination
from corral.podtools.confine import ConfineError, Limits, run

__all__ = ["main"]

SHOWN: Final = 40
"""Layers that are named one by one: the result must fit into a message."""


def checked(env: Mapping[str, str]) -> str:
    """Check the model in a folder; why it is none, empty where it is one."""
    source = Path(env.get("KAFKAML_MODEL_CODE_DIR") or "/kafkaml/model")
    target = Path(env.get("FL_DIR") or "/fl")
    limits = Limits(
        seconds=int(env.get("KAFKAML_CHECK_SECONDS") or 120),
        memory=int(env.get("KAFKAML_CHECK_MEMORY") or 4 << 30),
    )
    with tempfile.TemporaryDirectory(prefix="corral-check-") as folder:
        given, out = Path(folder, "given"), Path(folder, "out")
        out.mkdir()
        shutil.copytree(source, given, symlinks=False, ignore=shutil.ignore_patterns("..*"))
        try:
            ended = run(
                "corral.podtools.models.inside:check",
                [str(given), str(out)],
                readable=[given],
                writable=[out],
                limits=limits,
            )
        except ConfineError as error:
            return str(error)
        if ended.code:
            return ended.why
        described = json.loads((out / "model.json").read_text())
        shutil.copyfile(out / "weights.safetensors", target / "update")
        made = target / "result.json.part"
        made.write_text(json.dumps(_summary(described)))
        made.rename(target / "result.json")
    return ""


def _summary(described: Mapping[str, Any]) -> dict[str, Any]:
    names = ("input_shape", "output_shape", "parameters")
    out: dict[str, Any] = {name: described[name] for name in names}
    if len(described["layers"]) <= SHOWN:
        out["layers"] = described["layers"]
    return {**out, "format": "safetensors"}


def main() -> int:
    """In the pod; its last words say why the model is none."""
    why = checked(os.environ)
    if not why:
        return 0
    sys.stdout.write(f"{why}\n")
    try:
        termination.write_message(why[:4000])
    except OSError as error:
        sys.stdout.write(f"nobody reads last words here: {error}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
