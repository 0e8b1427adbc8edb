"""The envelope in which a participant sends its update, and the one that a round gives back.

Lenient in what is read: the envelope may be nested, a job id may be missing, a round may be called
``1``, ``"1"`` or ``"round-1"``. Strict in what counts: `Rejected` says why an update does not. No
I/O, and no look at the numbers inside a payload: that is for the aggregation.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from corral.kube.types import Obj

__all__ = [
    "Aggregated",
    "Envelope",
    "Rejected",
    "collected_annotation",
    "find_envelope",
    "read_envelope",
    "round_number",
]

ANNOTATION_LIMIT: Final = 200 * 1024
"""Bytes that both annotations may have together; the API server takes 256 KiB in all."""
INLINE_LIMIT: Final = 90 * 1024
"""Base64 characters of a model that travels in an environment variable; one holds 128 KiB."""
MAX_SAMPLES: Final = 2**31 - 1
MAX_METRICS: Final = 32
MAX_METRIC: Final = 1e100
"""Larger figures are left out: times samples, and added up, they would be no numbers."""
MAX_METRIC_NAME: Final = 64
MAX_FORMAT: Final = 64
MAX_TEXT: Final = 512
"""Characters of an envelope's texts: all of them go into statuses that others need as well."""
_NUMBER = re.compile(r"\s*(?:round-)?0*([0-9]{1,18})", re.IGNORECASE)
_SIGNS: Final = ("update_b64", "update_ref", "round_id", "num_samples", "proplet_id")
_FIELDS: Final[tuple[str, ...]] = (
    *("job_id", "round_id", "global_version", "proplet_id", "task_id", "num_samples", "metrics"),
    *("format", "update_b64", "update_ref", "update_bytes", "update_size", "size"),
)


class Rejected(Exception):
    """An update does not count; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """One participant's update: for how many samples it stands and where its payload is."""

    proplet_id: str
    round_number: int
    samples: int
    job_id: str = ""
    format: str = ""
    payload: bytes = b""
    """Empty where there is a reference."""
    reference: str = ""
    global_version: str = ""
    task_id: str = ""
    metrics: Mapping[str, float] = field(default_factory=dict)
    announced: int = 0
    """Bytes behind the reference, as the envelope says."""

    @property
    def size(self) -> int:
        return len(self.payload) or self.announced

    @property
    def digest(self) -> str:
        """What fixes the payload: its own digest, or that of the artifact it is in."""
        if self.reference:
            return self.reference.rpartition("@")[2]
        return f"sha256:{hashlib.sha256(self.payload).hexdigest()}"


def find_envelope(results: object) -> Obj | None:
    """The envelope in the results of a task: nested once, twice, or the results themselves."""
    if not isinstance(results, dict):
        return None
    inner = results.get("results")
    for place in (results, inner if isinstance(inner, dict) else {}):
        found = place.get("update_envelope")
        if isinstance(found, dict):
            return found
    return results if any(sign in results for sign in _SIGNS) else None


def read_envelope(
    results: object,
    *,
    round_: int,
    participant: str,
    known_as: Collection[str] = (),
    job_id: str,
    max_samples: int = 0,
) -> Envelope:
    """The envelope of a task of this participant in this round.

    ``known_as`` are other names of the participant; ``job_id`` is what a missing one means;
    ``max_samples`` is what the job allows, 0: any number.

    Raises:
        Rejected: there is none, or it cannot count.
    """
    raw = find_envelope(results)
    if raw is None:
        raise Rejected("the task gave no update envelope")
    number = round_number(raw.get("round_id"))
    if number is None:
        raise Rejected(f"round_id is {_shown(raw.get('round_id'))}, not the number of a round")
    if number != round_:
        raise Rejected(f"it is of round {number}, not of round {round_}")
    sender = raw.get("proplet_id") or participant
    if sender != participant and sender not in known_as:
        raise Rejected(f"proplet_id is {_shown(sender)}, but the task is of {participant}")
    payload, reference = _payload(raw)
    return Envelope(
        proplet_id=participant,
        round_number=number,
        samples=_samples(raw.get("num_samples"), max_samples),
        job_id=_text(raw.get("job_id")) or job_id,
        format=_format(raw.get("format")),
        payload=payload,
        reference=reference,
        global_version=_text(raw.get("global_version")),
        task_id=_text(raw.get("task_id")),
        metrics=_metrics(raw.get("metrics")),
        announced=_size(raw),
    )


def round_number(value: object) -> int | None:
    """The number of ``1``, ``"1"`` or ``"round-1"``; none where there is no number but 0."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return int(value) if value >= 1 and value == int(value) else None
    found = _NUMBER.match(value) if isinstance(value, str) else None
    return int(found[1]) or None if found else None


def _payload(raw: Obj) -> tuple[bytes, str]:
    text, reference = raw.get("update_b64"), raw.get("update_ref")
    if isinstance(reference, str) and len(reference) > MAX_TEXT:
        raise Rejected(f"update_ref has more than {MAX_TEXT} characters")
    reference = _text(reference)
    if reference:
        return b"", reference
    if not isinstance(text, str) or not text:
        raise Rejected("it has neither update_b64 nor update_ref")
    try:
        return base64.b64decode(text, validate=True), ""
    except (binascii.Error, ValueError) as error:
        raise Rejected(f"invalid update_b64: {error}") from error


def _samples(value: object, most: int) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole:
        raise Rejected(f"num_samples is {_shown(value)}, not a whole number")
    count = int(value)  # type: ignore[call-overload]
    if not 1 <= count <= MAX_SAMPLES:
        raise Rejected(f"num_samples is {count}")
    if most and count > most:
        raise Rejected(f"num_samples is {count}: the job allows {most} (max_samples)")
    return int(count)


def _metrics(value: object) -> dict[str, float]:
    """Numbers alone: that is what can be added up and shown."""
    if not isinstance(value, dict):
        return {}
    numbers = {
        key: number
        for key, number in value.items()
        if isinstance(number, int | float)
        and not isinstance(number, bool)
        and len(key) <= MAX_METRIC_NAME
    }
    finite = {key: float(number) for key, number in numbers.items() if abs(number) < MAX_METRIC}
    return dict(sorted(finite.items())[:MAX_METRICS])


def _size(raw: Obj) -> int:
    for key in ("update_bytes", "update_size", "size"):
        value = raw.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return 0


def _format(value: object) -> str:
    text = value if isinstance(value, str) else ""
    if len(text) > MAX_FORMAT or not text.isprintable():
        raise Rejected(f"format is no name of at most {MAX_FORMAT} characters: {_shown(value)}")
    return text


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


# --- what a round gives back ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Aggregated:
    """A round's result: small ones carry the payload, all say where it is."""

    job_id: str
    round_number: int
    global_version: str
    samples: int
    format: str
    metrics: Mapping[str, Any]
    reference: str = ""
    payload: bytes | None = None

    def wire(self) -> Obj:
        """As the next round's participants get it."""
        out: Obj = {
            "job_id": self.job_id,
            "round_id": self.round_number,
            "global_version": self.global_version,
            "proplet_id": "aggregator",
            "num_samples": self.samples,
            "metrics": dict(self.metrics),
            "format": self.format,
        }
        if self.reference:
            out["update_ref"] = self.reference
        if self.payload is not None:
            text = base64.b64encode(self.payload).decode()
            if len(text) <= INLINE_LIMIT:
                out["update_b64"] = text
        return out

    def annotation(self) -> str:
        return orjson.dumps(self.wire()).decode()


def collected_annotation(envelopes: Sequence[Obj], *, room: int = ANNOTATION_LIMIT) -> str:
    """A JSON array of envelopes; where they do not all fit, those lose most that are largest.

    First what is no field of an envelope, then payloads, in those that take more than their share
    of the room; and only then is the list cut.
    """
    share = room // max(len(envelopes), 1) - 1
    kept = [_fitting(envelope, share) for envelope in envelopes]
    if len(orjson.dumps(envelopes)) <= room:
        kept = list(envelopes)
    elif len(orjson.dumps(kept)) > room:
        kept = [_without_payload(envelope) for envelope in kept]
    text = orjson.dumps(kept)
    while kept and len(text) > room:
        kept = kept[: len(kept) // 2]
        text = orjson.dumps(kept)
    return text.decode()


def _fitting(envelope: Obj, share: int) -> Obj:
    """An envelope as it is if it takes no more than its share, else without what can go."""
    if len(orjson.dumps(envelope)) <= share:
        return envelope
    known = {key: envelope[key] for key in _FIELDS if key in envelope}
    short = {
        key: value
        for key, value in known.items()
        if key == "update_b64" or len(orjson.dumps(value)) <= 4 * MAX_TEXT
    }
    return short if len(orjson.dumps(short)) <= share else _without_payload(short)


def _without_payload(envelope: Obj) -> Obj:
    kept = {key: value for key, value in envelope.items() if key != "update_b64"}
    text = envelope.get("update_b64")
    if isinstance(text, str) and text:
        kept["update_bytes"] = max(math.floor(len(text) * 3 / 4) - text.count("="), 0)
    return kept
