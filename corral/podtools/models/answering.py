"""A trained model that answers batches, in a confined process that is kept.

The model is loaded once. A batch that is not answered in time, or not as it should be, ends the
process; it is asked again in halves, so that one sample is no fault of the others.
"""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from corral.podtools.confine import Kept, Limits, Unanswered
from corral.podtools.models.inside import read_metadata

__all__ = ["Answers"]

Array = NDArray[Any]
PROCESSOR: Final = 24 * 3600
"""Seconds of processor time after which a process is replaced."""
MOST: Final = 1 << 28
"""Bytes of the answers to a batch."""


class Answers:
    """One model of a file."""

    def __init__(
        self,
        model: Path,
        source: Path | None = None,
        *,
        seconds: float = 120.0,
        memory: int = 4 << 30,
    ) -> None:
        """``source`` is the folder with its code, for models that travel as code.

        Raises:
            ValueError: it is no file of a model.
            OSError: it cannot be read.
        """
        metadata = read_metadata(model)
        self._seconds = seconds
        self._folder = tempfile.TemporaryDirectory(prefix="corral-infer-")
        given = Path(self._folder.name, "given")
        given.mkdir()
        plan = {
            "framework": metadata.get("framework") or "numpy",
            "architecture": metadata.get("architecture") or "",
            "compile_args": json.loads(metadata.get("compile_args") or "{}"),
        }
        (given / "plan.json").write_text(json.dumps(plan))
        shutil.copyfile(model, given / "weights.safetensors")
        if source is not None:
            shutil.copytree(source, given / "source", symlinks=False)
        text = metadata.get("input_shape")
        self.shape = None if text is None else tuple(int(word) for word in text.split())
        """Of a sample, where the file says it."""
        self._kept = Kept(
            "corral.podtools.models.inside:answer",
            [str(given)],
            readable=[given],
            limits=Limits(seconds=PROCESSOR, memory=memory),
        )

    def start(self) -> None:
        """Load the model. Raises NotStarted, ConfineError."""
        self._kept.start()

    def close(self) -> None:
        self._kept.close()
        self._folder.cleanup()

    @property
    def started(self) -> int:
        """How many processes were started so far."""
        return self._kept.started

    def ask(self, x: Array) -> list[Array | str]:
        """What the model gives for every sample, or why it gives nothing.

        Raises:
            NotStarted: the model cannot be loaded any more.
            ConfineError: this machine cannot keep it in.
        """
        try:
            return list(self._answers(x))
        except Unanswered as error:
            if len(x) == 1:
                return [str(error)]
        middle = len(x) // 2
        return [*self.ask(x[:middle]), *self.ask(x[middle:])]

    def _answers(self, x: Array) -> Array:
        data = io.BytesIO()
        np.save(data, x, allow_pickle=False)
        given = self._kept.ask(data.getvalue(), seconds=self._seconds, most=MOST)
        try:
            answers: Array = np.lib.format.read_array(io.BytesIO(given), allow_pickle=False)
        except Exception as error:
            # its header is read as Python: whatever it trips over is the model's fault
            raise Unanswered(f"its answer is no array: {str(error)[:200]}") from error
        if not answers.ndim or len(answers) != len(x) or answers.dtype.kind not in "fiub":
            raise Unanswered(f"it gives {answers.dtype}{list(answers.shape)} for {len(x)} samples")
        return answers
