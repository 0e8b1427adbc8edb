"""The updates of one round, folded into a model by the engine; the numbers, and nothing else.

This module loads NumPy and the engine: import it where an aggregation begins, never at the top of a
module. It blocks and uses all cores, so it is called from a thread. What comes out depends on the
set of updates, their weights and the base alone, bit for bit.
"""

from __future__ import annotations

import math
import mmap
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from corral.families.federated.view import RoundView
from corral.learning import (
    Aggregation,
    AggregationFailed,
    Model,
    Result,
    Update,
    UpdateRejected,
    codec,
    strategy,
)
from corral.learning.exact import MAX_TOTAL_WEIGHT
from corral.learning.privacy import Privacy, PrivateRound
from corral.learning.strategies.concat import Concat
from corral.learning.tensors import Layout, matches
from corral.learning.weights import fitting

__all__ = [
    "STATE_FORMAT",
    "Folded",
    "Folding",
    "Other",
    "Rule",
    "Share",
    "weights_of",
]

STATE_FORMAT = "safetensors"
"""How the state of a server's optimiser is kept: it has several tensors."""
UNIT = 1 << 10
"""The weight of a sample where some updates are late: weights are whole numbers."""


GIVE_BACK = 0.003
"""Seconds after which pages of an update that were read are given back."""
MAX_REASON = 512
"""Characters: a reason may quote what a participant sent."""


class Other(Exception):
    """More updates look like this than like the first: fold again, with these alone.

    ``opaque`` says whether these are bytes to be joined; a layout is of those that are not.
    """

    def __init__(self, layout: Layout | None, *, opaque: bool) -> None:
        super().__init__("most updates are not like the first")
        self.layout = layout
        self.opaque = opaque


@dataclass(frozen=True, slots=True)
class Rule:
    """How updates become a model."""

    algorithm: str
    config: Mapping[str, Any]
    participants: Sequence[str]
    job: str
    round_number: int
    clip: float = 0.0
    """0: not private."""
    noise: float = 0.0
    seed: bytes = field(default=b"", repr=False)

    @classmethod
    def of(cls, view: RoundView, seed: bytes) -> Rule:
        """That of a round; ``seed`` is that of its noise."""
        privacy = view.privacy
        return cls(
            algorithm=view.algorithm,
            config=view.config,
            participants=view.participants,
            job=f"{view.namespace}/{view.job}",
            round_number=view.number,
            clip=privacy.clip if privacy is not None else 0.0,
            noise=privacy.noise if privacy is not None else 0.0,
            seed=seed,
        )


@dataclass(frozen=True, slots=True)
class Share:
    """One update: what it stands for, and its payload in memory or in a file."""

    client: str
    weight: int
    format: str
    payload: bytes | Path


@dataclass(frozen=True, slots=True)
class Folded:
    """The result, in files."""

    clients: tuple[str, ...]
    format: str
    model: Path
    state: Path | None
    algorithm: str


class _Round(Protocol):
    def add(self, update: Update) -> None: ...
    def finish(self) -> Result: ...


def weights_of(samples: Sequence[int], rounds_late: Sequence[int]) -> list[int]:
    """Whole weights: samples, less by the root of how late an update is.

    Without late updates they are the samples themselves. Their sum is one that can be added up:
    nobody is left out because another has said that it has very many.
    """
    samples = fitting(samples)
    if not any(rounds_late):
        return samples
    unit = max(min(UNIT, MAX_TOTAL_WEIGHT // max(sum(samples), 1)), 1)
    return [
        max(round(count * unit / math.sqrt(1 + late)), 1)
        for count, late in zip(samples, rounds_late, strict=True)
    ]


class Folding:
    """One pass over the updates of a round; not for several threads at once."""

    def __init__(
        self,
        rule: Rule,
        *,
        folder: Path,
        base: Path | None = None,
        base_format: str = "",
        state: Path | None = None,
        expected: int = 0,
        layout: Layout | None = None,
        opaque: bool | None = None,
    ) -> None:
        """What most updates are like is passed on the second pass; see `Other`.

        ``layout`` is what they must look like where there is no base, ``opaque`` whether they are
        bytes to be joined.

        Raises:
            FederatedError: the rule, the base or the state cannot be used.
        """
        self._rule = rule
        self._strategy = strategy(rule.algorithm, rule.config)
        self._folder = folder
        self._expected = expected
        self._files: list[mmap.mmap] = []
        # What was joined cannot be averaged with: it says nothing about what comes next.
        known = codec(base_format) is not None and not isinstance(self._strategy, Concat)
        self._base = self._read(base_format, base) if base is not None and known else None
        self._state = self._read(STATE_FORMAT, state) if state is not None and known else None
        self._layout = self._base.layout if self._base is not None else layout
        self._decided = self._layout is not None
        self._layouts: dict[str, Layout] = {}
        """What the updates look like, by client: each has one vote."""
        self._opaque = False if self._decided else opaque
        self._agreed = self._opaque is not None
        self._kinds: dict[str, bool] = {}
        """Whether an update is bytes to be joined, by client."""
        self._round: _Round | None = None
        self._counted = False
        self._base_format = base_format
        self._formats: Counter[str] = Counter()
        """Of the updates that count."""

    def _read(self, format_: str, path: Path) -> Model:
        mapped = _mapped(path)
        if mapped is None:
            return _decoded(format_, b"")
        self._files.append(mapped)
        return _decoded(format_, memoryview(mapped))

    def add(self, share: Share) -> str:
        """Fold an update in; why it does not count, or nothing."""
        try:
            self._check(share)
            self._add(share)
        except UpdateRejected as error:
            return error.reason[:MAX_REASON]
        self._formats[self._named(share.format)] += 1
        return ""

    def _check(self, share: Share) -> None:
        """What has no place in the round has no vote in it either."""
        members = self._rule.participants
        if members and share.client not in members:
            raise UpdateRejected("it is not of a participant of this round")
        most = MAX_TOTAL_WEIGHT // max(len(members), 1)
        if share.weight > most and not 0 < self._expected <= MAX_TOTAL_WEIGHT:
            raise UpdateRejected(
                f"num_samples is {share.weight}: one of {len(members)} participants may have {most}"
            )

    def _named(self, format_: str) -> str:
        """The format of the result: that of the updates, unless joining them makes another."""
        joined = isinstance(self._strategy, Concat) and codec(format_) is not None
        return "concat" if joined else format_ or "json-f64"

    @property
    def _format(self) -> str:
        """What most of the updates that count have; of equals the base's, then the first."""
        most = max(self._formats.values())
        equals = [format_ for format_, count in self._formats.items() if count == most]
        return self._base_format if self._base_format in equals else equals[0]

    def _add(self, share: Share) -> None:
        opaque = self._is_opaque(share)
        if opaque:
            round_ = self._begun(None)
            round_.add(Update(share.client, share.weight, payload=_bytes(share.payload)))
            return
        if isinstance(share.payload, bytes):
            self._fold(share, _decoded(share.format, share.payload))
            return
        mapped = _mapped(share.payload)
        with _passing([mapped] if mapped is not None else []):
            view = memoryview(mapped) if mapped is not None else b""
            self._fold(share, _decoded(share.format, view))

    def _fold(self, share: Share, model: Model) -> None:
        self._layouts[share.client] = model.layout
        if self._layout is None:
            self._layout = model.layout
        wrong = matches(self._layout, model.layout)
        if wrong:
            raise UpdateRejected(wrong)
        try:
            self._begun(model).add(Update(share.client, share.weight, model=model))
        except UpdateRejected:
            self._unsay(share.client)
            raise
        self._counted = True

    def _unsay(self, client: str) -> None:
        """What cannot count has no say in what the others must look like."""
        if self._decided:
            return
        del self._layouts[client]
        if not self._counted:
            self._layout = None
            if self._rule.clip:  # its zeros look like that update
                self._round = None

    def _is_opaque(self, share: Share) -> bool:
        """Whether bytes are joined: the algorithm says so, or the format is none that is known.

        The base decides where there is one that can be read; else most updates do (`finish`).
        """
        if isinstance(self._strategy, Concat) and self._rule.algorithm == self._strategy.name:
            return True
        unknown = codec(share.format) is None
        if self._joins():
            self._kinds[share.client] = unknown
        if self._opaque is None:
            self._opaque = unknown and self._joins()
        if self._opaque and not isinstance(self._strategy, Concat):
            self._strategy = strategy("concat")
        if unknown != self._opaque:
            raise UpdateRejected(
                f"{self._rule.algorithm} cannot read the format {share.format!r}"
                if unknown
                else f"its format is {share.format!r}, the others' is opaque"
            )
        return self._opaque

    def _joins(self) -> bool:
        """Whether the algorithm takes bytes that nobody can read, where all send such."""
        return self._rule.algorithm in ("", "fedavg", "concat") and not self._rule.clip

    def _begun(self, example: Model | None) -> _Round:
        if self._round is None:
            self._round = self._private(example) if self._rule.clip else self._plain()
        return self._round

    def _plain(self) -> Aggregation:
        return Aggregation(
            self._strategy,
            current=self._base,
            state=self._state,
            participants=self._rule.participants,
            expected_samples=self._expected,
            folder=self._folder,
        )

    def _private(self, example: Model | None) -> PrivateRound:
        rule = self._rule
        base = self._base
        if base is None:
            # Without a model to begin with, changes are counted from zero.
            assert example is not None
            base = example.like([np.zeros_like(values) for values in example.vectors])
        return PrivateRound(
            self._strategy,
            Privacy(rule.clip, rule.noise, rule.seed),
            current=base,
            job=rule.job,
            round_number=rule.round_number,
            state=self._state,
            participants=rule.participants,
        )

    @property
    def in_doubt(self) -> bool:
        """Whether most updates are not like the first, which has decided so far."""
        return self._of_another_kind() or self._of_another_layout()

    def _of_another_kind(self) -> bool:
        """Of as many of either kind, those count that can be averaged: that was asked for."""
        if self._agreed or self._opaque is None:
            return False
        opaque = sum(self._kinds.values())
        return self._opaque != (2 * opaque > len(self._kinds))

    def _of_another_layout(self) -> bool:
        if self._decided or self._opaque or self._layout is None or not self._layouts:
            return False
        votes = Counter(self._layouts.values())
        return max(votes.values()) > votes[self._layout]

    def finish(self) -> Folded:
        """The result, written to files.

        Raises:
            Other: most updates are not like the first one.
            AggregationFailed: there is no result.
        """
        if self._of_another_kind():
            raise Other(None, opaque=not self._opaque)
        if self._of_another_layout():
            (layout, _), *_ = Counter(self._layouts.values()).most_common(1)
            raise Other(layout, opaque=False)
        if self._round is None:
            raise AggregationFailed("no updates to aggregate")
        with _passing(self._files):
            result = self._round.finish()
        self._round = None
        return self._written(result)

    def _written(self, result: Result) -> Folded:
        target, state = self._folder / "aggregated", None
        if result.model is None:
            target.write_bytes(result.payload)
        else:
            _write(target, self._format, result.model)
        if result.state is not None:
            state = self._folder / "aggregated-state"
            _write(state, STATE_FORMAT, result.state)
        return Folded(result.clients, self._format, target, state, result.algorithm)


def _write(target: Path, format_: str, model: Model) -> None:
    """From the model's own memory."""
    coder = codec(format_)
    assert coder is not None
    with target.open("wb", buffering=0) as file:
        for piece in coder.pieces(model):
            view = memoryview(piece).cast("B")
            while view:
                view = view[file.write(view) or 0 :]


def _decoded(format_: str, payload: bytes | memoryview) -> Model:
    coder = codec(format_)
    if coder is None:
        raise UpdateRejected(f"the format {format_!r} is none that can be read")
    try:
        return coder.decode(payload)
    except UpdateRejected:
        raise
    except Exception as error:
        # A decoder reads what strangers made: whatever it trips over is that update's fault.
        why = f"invalid {coder.name} payload: {type(error).__name__}: {error}"
        raise UpdateRejected(why) from error


def _mapped(path: Path) -> mmap.mmap | None:
    """A file as memory that is not read yet; none where it is empty."""
    if not path.stat().st_size:
        return None
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def _passing(files: Sequence[mmap.mmap]) -> Iterator[None]:
    """Files are read from one end to the other: what was read does not stay in our memory.

    Pages that are given back too early are read again from the file, with the same bytes in them.
    """
    if not files or not hasattr(mmap, "MADV_DONTNEED"):
        yield
        return
    over = threading.Event()

    def give_back() -> None:
        while not over.wait(GIVE_BACK):
            for mapped in files:
                mapped.madvise(mmap.MADV_DONTNEED)

    thread = threading.Thread(target=give_back, name="give-back", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _bytes(payload: bytes | Path) -> bytes:
    return payload if isinstance(payload, bytes) else payload.read_bytes()
