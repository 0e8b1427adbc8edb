"""Aggregating a round: its updates are fetched one by one, folded in, and the model is pushed.

Memory: the engine's, whatever the number of updates; one update is fetched while another is folded
in. Time: everything that computes is in a thread. The engine is loaded when the first round is
aggregated. Nothing here is remembered: who is killed begins again, and gets the same bytes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corral.families.federated.envelopes import INLINE_LIMIT, Envelope
from corral.families.federated.learning import LearningSettings
from corral.families.federated.models import (
    ARTIFACT,
    Places,
    Stored,
    model_annotations,
    model_layers,
    stored_model,
)
from corral.families.federated.rounds.state import Rejection
from corral.families.federated.spool import Spool
from corral.families.federated.view import RoundView
from corral.oci import (
    DigestMismatch,
    InvalidArtifact,
    InvalidReference,
    NotFound,
    Reference,
    RegistryError,
    TooLarge,
    Unavailable,
)

if TYPE_CHECKING:
    from corral.families.federated.folding import Folded, Folding
    from corral.oci import Artifacts, Descriptor

__all__ = ["AggregationImpossible", "Aggregator", "Contribution", "Made", "Outcome", "Plan"]

_BAD_ARTIFACT = (NotFound, InvalidArtifact, InvalidReference, DigestMismatch, TooLarge)
"""What is wrong with one update and not with the registry."""


class AggregationImpossible(Exception):
    """The round has no result, and will have none."""


@dataclass(frozen=True, slots=True)
class Contribution:
    """An update that was chosen."""

    envelope: Envelope
    rounds_late: int = 0

    @property
    def client(self) -> str:
        return self.envelope.proplet_id


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be aggregated."""

    view: RoundView
    contributions: Sequence[Contribution]
    """In the order of the participants."""
    base: str = ""
    """The model that the round started from; empty: none that is known."""
    needed: int = 1
    """How many of the updates must turn out to be good."""
    seed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Made:
    """The model of a round, in the registry."""

    reference: str
    """With its digest."""
    digest: str
    state_digest: str
    size: int
    format: str
    clients: tuple[str, ...]
    samples: int
    sizes: dict[str, int]
    """Bytes of the updates that were counted, by client."""
    algorithm: str
    metrics: dict[str, float]
    """Means over the clients, weighted by samples."""
    seconds: float
    payload: bytes | None
    """The model itself where it is small."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The updates that turned out to be no good, and the model if there were enough others."""

    rejections: tuple[Rejection, ...]
    made: Made | None
    bounded: tuple[Rejection, ...] = ()
    """Updates that count for fewer samples than they said, and why."""


class Aggregator:
    """For all rounds of one operator."""

    def __init__(self, places: Places, settings: LearningSettings) -> None:
        self._places = places
        self._settings = settings
        self._room = asyncio.Semaphore(settings.aggregations)
        self._spool = Spool(settings.spool)

    async def aggregate(self, plan: Plan) -> Outcome:
        """The model of a round.

        Raises:
            RegistryError: a registry did not do its part; `corral.oci.Unavailable` may pass.
            AggregationImpossible: there is no result, and trying again will not give one.
        """
        async with self._room:
            started = time.monotonic()
            folder = await asyncio.to_thread(self._spool.folder)
            try:
                view = plan.view
                async with await self._places.open(view.namespace, view.secret) as artifacts:
                    run = _Run(self._places, self._settings, artifacts, plan, Path(folder.name))
                    return await run.go(started)
            finally:
                await asyncio.to_thread(folder.cleanup)

    async def resolve(self, view: RoundView) -> str:
        """The model that a round starts from, fixed by its digest; empty where there is none.

        Raises:
            RegistryError: the registry cannot be asked.
        """
        try:
            reference = Reference.parse(view.model_ref)
        except InvalidReference:
            return ""
        async with await self._places.open(view.namespace, view.secret) as artifacts:
            try:
                found = stored_model(reference, await artifacts.manifest(reference))
            except _BAD_ARTIFACT:
                return ""
        return str(found.reference) if found is not None else ""

    async def discard(self, view: RoundView, references: Sequence[str]) -> None:
        """Delete the artifacts of updates; those that are gone already are no error.

        Only what is among the job's own updates is: participants may name anything.

        Raises:
            RegistryError: the registry did not answer, or does not allow it.
        """
        place = self._places.repository(view.repository, view.namespace, view.job, "updates")
        async with await self._places.open(view.namespace, view.secret) as artifacts:
            for text in references:
                try:
                    reference = Reference.parse(text)
                    if reference.name == place.name and reference.digest:
                        await artifacts.delete(reference)
                except (NotFound, InvalidReference):
                    continue


class _Run:
    """One aggregation."""

    def __init__(
        self,
        places: Places,
        settings: LearningSettings,
        artifacts: Artifacts,
        plan: Plan,
        folder: Path,
    ) -> None:
        self._places, self._settings, self._artifacts = places, settings, artifacts
        self._plan, self._folder = plan, folder
        self._chosen, self._bounded = bounded_samples(plan.contributions, plan.view.max_samples)
        self._base: Stored | None = None
        self._usual = 0
        """Bytes of an update like most, where there is no base; 0: nobody says."""
        self._sizes: dict[str, int] = {}
        self._refused: dict[int, RegistryError] = {}
        """Updates that the registry does not give; of all of them, it is not their fault."""

    async def go(self, started: float) -> Outcome:
        view = self._plan.view
        target = self._places.repository(view.repository, view.namespace, view.job, "models")
        base = await self._fetch_base()
        if self._base is None:
            self._usual = await self._middle_size()
        folded, reasons = await self._fold(base)
        rejections = tuple(Rejection(client, reason) for client, reason in reasons.items())
        if folded is None:
            return Outcome(rejections, None)
        made = await self._push(target.with_tag(view.round_id), folded, started)
        return Outcome(rejections, made, self._bounded)

    # --- the model that the round started from ---------------------------------------------------

    async def _fetch_base(self) -> dict[str, Any]:
        if not self._plan.base:
            return {}
        reference = Reference.parse(self._plan.base)
        found = stored_model(reference, await self._artifacts.manifest(reference))
        if found is None:
            return {}
        self._base = found
        out: dict[str, Any] = {"base": self._folder / "base", "base_format": found.format}
        await self._artifacts.fetch(found.reference, found.model, out["base"])
        if found.state is not None:
            out["state"] = self._folder / "state"
            await self._artifacts.fetch(found.reference, found.state, out["state"])
        return out

    # --- folding ---------------------------------------------------------------------------------

    async def _fold(self, base: dict[str, Any]) -> tuple[Folded | None, dict[str, str]]:
        """The result, and why updates do not count; no result where too few do."""
        from corral.families.federated import folding
        from corral.learning.errors import FederatedError

        agreed: dict[str, Any] = {}
        while True:
            try:
                return await self._pass({**base, **agreed})
            except folding.Other as other:
                agreed = {"layout": other.layout, "opaque": other.opaque}
            except FederatedError as error:
                raise AggregationImpossible(str(error)) from error

    async def _pass(self, arguments: dict[str, Any]) -> tuple[Folded | None, dict[str, str]]:
        from corral.families.federated.folding import Share, weights_of

        chosen = self._chosen
        weights = weights_of(
            [one.envelope.samples for one in chosen], [one.rounds_late for one in chosen]
        )
        fold = await asyncio.to_thread(self._folding, arguments, sum(weights))
        reasons: dict[str, str] = {}
        async with aclosing(self._fetched()) as payloads:
            async for number, payload in payloads:
                one = chosen[number]
                if isinstance(payload, str):
                    reasons[one.client] = payload
                    continue
                share = Share(one.client, weights[number], one.envelope.format, payload)
                reason = await asyncio.to_thread(fold.add, share)
                if reason:
                    reasons[one.client] = reason
                if isinstance(payload, Path):
                    await asyncio.to_thread(payload.unlink)
        if len(chosen) - len(reasons) < self._plan.needed and not fold.in_doubt:
            return None, reasons
        return await asyncio.to_thread(fold.finish), reasons

    def _folding(self, arguments: dict[str, Any], expected: int) -> Folding:
        from corral.families.federated.folding import Folding, Rule

        rule = Rule.of(self._plan.view, self._plan.seed)
        return Folding(rule, folder=self._folder, expected=expected, **arguments)

    async def _fetched(self) -> AsyncGenerator[tuple[int, bytes | Path | str], None]:
        """The payloads in order, or why there is none; the next is on its way meanwhile."""
        chosen = self._plan.contributions
        coming = asyncio.ensure_future(self._payload(0)) if chosen else None
        try:
            for number in range(len(chosen)):
                assert coming is not None
                payload = await coming
                more = number + 1 < len(chosen)
                coming = asyncio.ensure_future(self._payload(number + 1)) if more else None
                yield number, payload
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)

    async def _payload(self, number: int) -> bytes | Path | str:
        envelope = self._plan.contributions[number].envelope
        if not envelope.reference:
            return envelope.payload
        try:
            reference, layer = await self._layer(number)
            if layer.size > self._largest():
                raise TooLarge(f"it has {layer.size} bytes, at most {self._largest()} are taken")
            target = self._folder / f"update-{number}"
            await self._artifacts.fetch(reference, layer, target)
        except _BAD_ARTIFACT as error:
            return str(error)
        except Unavailable:
            raise
        except RegistryError as error:
            # it may name what nobody here may read: that is its own loss, but for all to lose
            self._refused[number] = error
            if len(self._refused) == len(self._plan.contributions):
                raise
            return str(error)
        self._sizes[envelope.proplet_id] = layer.size
        return target

    async def _layer(self, number: int) -> tuple[Reference, Descriptor]:
        """Where the payload of an update is."""
        envelope, view = self._plan.contributions[number].envelope, self._plan.view
        reference = self._places.update(
            envelope.reference, own=view.repository, namespace=view.namespace
        )
        manifest = await self._artifacts.manifest(reference)
        if len(manifest.layers) != 1:
            raise InvalidArtifact(f"an update has one layer, not {len(manifest.layers)}")
        return reference, manifest.layers[0]

    async def _middle_size(self) -> int:
        """Of the updates' sizes, the one in the middle: one participant alone does not move it."""
        sizes = []
        for number, one in enumerate(self._plan.contributions):
            if not one.envelope.reference:
                sizes.append(len(one.envelope.payload))
                continue
            try:
                _, layer = await self._layer(number)
            except Unavailable:
                raise
            except (*_BAD_ARTIFACT, RegistryError):
                continue  # it is told when the update is fetched
            sizes.append(layer.size)
        return sorted(sizes)[len(sizes) // 2] if sizes else 0

    def _largest(self) -> int:
        """Nobody fills the disk, or the memory: updates are about as large as the model."""
        usual = self._base.model.size if self._base is not None else self._usual
        if not usual:
            return self._settings.max_update
        return min(self._settings.max_update, 16 * usual + (1 << 20))

    # --- the result ------------------------------------------------------------------------------

    async def _push(self, target: Reference, folded: Folded, started: float) -> Made:
        from corral.families.federated.folding import STATE_FORMAT

        counted = [one for one in self._chosen if one.client in folded.clients]
        samples = sum(one.envelope.samples for one in counted)
        metrics = mean_metrics(counted)
        facts = {
            "round": self._plan.view.number,
            "job": self._plan.view.job,
            "experiment": self._plan.view.experiment,
            "samples": samples,
            "participants": sorted(folded.clients),
            "algorithm": folded.algorithm,
            "format": folded.format,
            "metrics": metrics,
            "base": self._plan.base,
        }
        size = folded.model.stat().st_size
        layers = model_layers(
            folded.model, format=folded.format, state=folded.state, state_format=STATE_FORMAT
        )
        pushed = await self._artifacts.push(
            target, layers, artifact_type=ARTIFACT, annotations=model_annotations(facts)
        )
        manifest = await self._artifacts.manifest(pushed.reference)
        stored = stored_model(pushed.reference, manifest)
        inline = size * 4 // 3 + 4 <= INLINE_LIMIT
        return Made(
            reference=str(pushed.reference),
            digest=pushed.digest,
            state_digest=stored.state.digest if stored is not None and stored.state else "",
            size=pushed.size,
            format=folded.format,
            clients=folded.clients,
            samples=samples,
            sizes={one.client: self._sizes.get(one.client) or one.envelope.size for one in counted},
            algorithm=folded.algorithm,
            metrics=metrics,
            seconds=time.monotonic() - started,
            payload=await asyncio.to_thread(folded.model.read_bytes) if inline else None,
        )


def bounded_samples(
    contributions: Sequence[Contribution], most: int
) -> tuple[list[Contribution], tuple[Rejection, ...]]:
    """The updates with the samples that they count for, and who had said more.

    ``most`` is what the job has declared; without that, ten times the median of the round.
    """
    from corral.learning.weights import FACTOR, bounded

    counts = bounded([one.envelope.samples for one in contributions], limit=most)
    out, notes = [], []
    for one, count in zip(contributions, counts, strict=True):
        if count < one.envelope.samples:
            why = (
                f"it counts for {count} samples, not {one.envelope.samples}: that is {FACTOR} times"
                " the median of the round; aggregator.config.max_samples allows more"
            )
            notes.append(Rejection(one.client, why))
        out.append(replace(one, envelope=replace(one.envelope, samples=count)))
    return out, tuple(notes)


def mean_metrics(counted: Sequence[Contribution]) -> dict[str, float]:
    """Of every figure that clients sent, the mean of those who did, weighted by samples."""
    sums: dict[str, float] = {}
    weights: dict[str, int] = {}
    for one in counted:
        for key, value in one.envelope.metrics.items():
            sums[key] = sums.get(key, 0.0) + value * one.envelope.samples
            weights[key] = weights.get(key, 0) + one.envelope.samples
    return {key: sums[key] / weights[key] for key in sorted(sums)}
