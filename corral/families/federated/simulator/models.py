"""The models of a simulation: files in a folder, where a cluster has a registry."""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.families.federated.aggregation import (
    AggregationImpossible,
    Contribution,
    Made,
    Outcome,
    bounded_samples,
    mean_metrics,
)
from corral.families.federated.envelopes import INLINE_LIMIT
from corral.families.federated.folding import Folded, Folding, Other, Rule, Share, weights_of
from corral.families.federated.rounds.state import Rejection
from corral.families.federated.view import RoundView
from corral.learning.errors import FederatedError

__all__ = ["Kept", "Models"]

_SCHEME = "file://"


@dataclass(frozen=True, slots=True)
class Kept:
    """A model as the next round starts from it."""

    reference: str
    model: Path
    format: str
    state: Path | None = None


class Models:
    """Folds updates into models and keeps these."""

    def __init__(self, folder: Path, *, first: Kept | None = None, seed: bytes = b"") -> None:
        """``first`` is what the first round starts from; ``seed`` is that of private noise."""
        self._folder = folder
        self._seed = seed
        self.base = first

    def aggregate(
        self, view: RoundView, contributions: Sequence[Contribution], *, needed: int
    ) -> Outcome:
        """The model of a round, and the updates that turned out to be no good.

        Raises:
            AggregationImpossible: there is no result.
        """
        started = time.monotonic()
        work = self._folder / f".{view.round_id}"
        work.mkdir(exist_ok=True)
        try:
            contributions, bounded = bounded_samples(contributions, view.max_samples)
            folded, reasons = self._fold(view, contributions, work, needed=needed)
            rejections = tuple(Rejection(client, why) for client, why in reasons.items())
            if folded is None:
                return Outcome(rejections, None)
            made = self._keep(view, contributions, folded, started)
            return Outcome(rejections, made, bounded)
        except FederatedError as error:
            raise AggregationImpossible(str(error)) from error
        finally:
            shutil.rmtree(work)

    def _fold(
        self, view: RoundView, chosen: Sequence[Contribution], work: Path, *, needed: int
    ) -> tuple[Folded | None, dict[str, str]]:
        agreed: dict[str, Any] = {}
        while True:
            fold, reasons = self._pass(view, chosen, work, agreed)
            if len(chosen) - len(reasons) < needed and not fold.in_doubt:
                return None, reasons
            try:
                return fold.finish(), reasons
            except Other as other:
                agreed = {"layout": other.layout, "opaque": other.opaque}

    def _pass(
        self, view: RoundView, chosen: Sequence[Contribution], work: Path, agreed: dict[str, Any]
    ) -> tuple[Folding, dict[str, str]]:
        weights = weights_of(
            [one.envelope.samples for one in chosen], [one.rounds_late for one in chosen]
        )
        fold = Folding(
            Rule.of(view, self._seed),
            folder=work,
            expected=sum(weights),
            **agreed,
            base=self.base.model if self.base is not None else None,
            base_format=self.base.format if self.base is not None else "",
            state=self.base.state if self.base is not None else None,
        )
        reasons = {}
        for one, weight in zip(chosen, weights, strict=True):
            share = Share(one.client, weight, one.envelope.format, _payload(one))
            why = fold.add(share)
            if why:
                reasons[one.client] = why
        return fold, reasons

    def _keep(
        self, view: RoundView, chosen: Sequence[Contribution], folded: Folded, started: float
    ) -> Made:
        target = self._folder / f"{view.round_id}.{folded.format or 'bin'}"
        state = self._folder / f"{view.round_id}.state" if folded.state is not None else None
        folded.model.replace(target)
        if folded.state is not None and state is not None:
            folded.state.replace(state)
        self.base = Kept(f"{_SCHEME}{target}", target, folded.format, state)
        counted = [one for one in chosen if one.client in folded.clients]
        content = target.read_bytes()
        return Made(
            reference=self.base.reference,
            digest=f"sha256:{hashlib.sha256(content).hexdigest()}",
            state_digest=_digest(state) if state is not None else "",
            size=len(content),
            format=folded.format,
            clients=folded.clients,
            samples=sum(one.envelope.samples for one in counted),
            sizes={one.client: one.envelope.size for one in counted},
            algorithm=folded.algorithm,
            metrics=mean_metrics(counted),
            seconds=time.monotonic() - started,
            payload=content if len(content) * 4 // 3 + 4 <= INLINE_LIMIT else None,
        )


def _payload(one: Contribution) -> bytes | Path:
    """In the envelope, or in the file that the client left."""
    if not one.envelope.reference:
        return one.envelope.payload
    return Path(one.envelope.reference.removeprefix(_SCHEME).rpartition("@")[0])


def _digest(path: Path) -> str:
    return f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
