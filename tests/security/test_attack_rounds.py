"""One participant against a round: its update may cost its own place and nothing else."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import tracemalloc
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from corral.families.federated.aggregation import (
    Contribution,
    Plan,
    _Run,
    bounded_samples,
    mean_metrics,
)
from corral.families.federated.envelopes import (
    ANNOTATION_LIMIT,
    Rejected,
    collected_annotation,
    read_envelope,
)
from corral.families.federated.folding import (
    Folded,
    Folding,
    Other,
    Rule,
    Share,
    weights_of,
)
from corral.families.federated.learning import LearningSettings
from corral.families.federated.models import Places
from corral.kube import KubeClient
from corral.learning import (
    Aggregation,
    AggregationFailed,
    Model,
    Update,
    UpdateRejected,
    codec,
    strategy,
)
from corral.learning.exact import ExactSum
from corral.learning.secure import Combiner, Member, Revealed
from corral.oci import Denied, Endpoint, InvalidReference, Reference
from corral.podtools.kafkaml.aggregating import NothingCounts, fold, whole
from corral.podtools.kafkaml.rounds import Rounds, RoundSettings
from corral.runtime.pods.jsonresults import as_object

HONEST = {"b": [1.0, 2.0], "c": [3.0, 4.0]}


def rule(algorithm: str = "fedavg", **more: Any) -> Rule:
    return Rule(algorithm, {}, "abcdef", "ns/job", 1, **more)


def share(client: str, values: Any, weight: int = 1, format: str = "json-f64") -> Share:
    raw = values if isinstance(values, bytes) else json.dumps(values).encode()
    return Share(client, weight, format, raw)


def folded(
    folder: Path, shares: Sequence[Share], algorithm: str = "fedavg", **more: Any
) -> tuple[Folded, dict[str, str]]:
    """As the aggregator does it: again with what most are like, where the first was another."""
    agreed: dict[str, Any] = {}
    for _ in range(3):
        folding = Folding(rule(algorithm), folder=folder, **more, **agreed)
        reasons = {one.client: folding.add(one) for one in shares}
        try:
            return folding.finish(), {who: why for who, why in reasons.items() if why}
        except Other as other:
            agreed = {"layout": other.layout, "opaque": other.opaque}
    raise AssertionError("the updates were never agreed upon")


def honest(**weights: int) -> list[Share]:
    return [share(who, values, weights.get(who, 1)) for who, values in HONEST.items()]


def model(result: Folded) -> list[float]:
    found: list[float] = json.loads(result.model.read_bytes())
    return found


@pytest.mark.attack("rounds", "Sends an unknown format first", "The round stays an average")
@pytest.mark.parametrize("based", [False, True])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_format_nobody_knows(tmp_path: Path, based: bool, place: int) -> None:
    base: dict[str, Any] = {}
    if based:
        (tmp_path / "base").write_text("[0.0, 0.0]")
        base = {"base": tmp_path / "base", "base_format": "json-f64"}
    shares = honest()
    shares.insert(place, share("a", b"rubbish", 1, "no-such-format"))
    result, refused = folded(tmp_path, shares, **base)
    assert (result.algorithm, result.format, model(result)) == ("fedavg", "json-f64", [2.0, 3.0])
    assert refused == {"a": "fedavg cannot read the format 'no-such-format'"}


@pytest.mark.attack("rounds", "Is one of two, with a format nobody knows", "The other one counts")
def test_a_tie_of_formats(tmp_path: Path) -> None:
    shares = [share("a", b"rubbish", 1, "no-such-format"), share("b", [1.0, 2.0])]
    result, refused = folded(tmp_path, shares)
    assert (model(result), set(refused)) == ([1.0, 2.0], {"a"})


@pytest.mark.attack("rounds", "Sends another format first", "The result has the format of most")
def test_another_format_does_not_name_the_result(tmp_path: Path) -> None:
    raw = np.array([2.0, 3.0], "<f8").tobytes()
    result, refused = folded(tmp_path, [share("a", raw, 1, "f64-le"), *honest()])
    assert (result.format, model(result), refused) == ("json-f64", [2.0, 3.0], {})


@pytest.mark.attack("rounds", "Sends other shapes first", "Most updates say what is right")
def test_other_shapes_first(tmp_path: Path) -> None:
    result, refused = folded(tmp_path, [share("a", [9.0]), *honest()])
    assert (model(result), set(refused)) == ([2.0, 3.0], {"a"})


@pytest.mark.attack("rounds", "Votes often for its own shape", "A participant has one vote")
def test_one_vote_for_each(tmp_path: Path) -> None:
    often = [share("a", [9.0]) for _ in range(5)]
    strangers = [share(f"stranger-{n}", [9.0]) for n in range(5)]
    folding = Folding(rule(), folder=tmp_path)
    for one in [*often, *strangers, *honest()]:
        folding.add(one)
    with pytest.raises(Other) as other:
        folding.finish()
    assert other.value.layout == Model.vector(np.array([1.0, 2.0])).layout


@pytest.mark.attack("rounds", "Sends 1e308 with a large weight", "The mean is finite")
@pytest.mark.parametrize("value", [1e308, -1.7976931348623157e308, 1.7976931348623157e308])
def test_a_sum_that_overflows(tmp_path: Path, value: float) -> None:
    shares = [share("a", [value, 0.0], 100), *honest(b=100, c=100)]
    result, refused = folded(tmp_path, shares)
    assert refused == {}
    assert model(result) == pytest.approx([value / 3, 2.0])


@pytest.mark.attack(
    "rounds", "Sends numbers whose squares overflow", "The update is refused, the others count"
)
@pytest.mark.parametrize(
    "algorithm",
    ["fedavgm", "fedadam", "fedadagrad", "fedyogi", "krum", "multi-krum", "bulyan"],
)
@pytest.mark.parametrize(("format", "value"), [("f64-le", 1e200), ("f32-le", 3e38)])
def test_squares_that_overflow(tmp_path: Path, algorithm: str, format: str, value: float) -> None:
    kind = "<f8" if format == "f64-le" else "<f4"
    (tmp_path / "base").write_bytes(np.zeros(2, kind).tobytes())
    bad = share("a", np.array([value, 1.0], kind).tobytes(), 1, format)
    good = [share(who, np.ones(2, kind).tobytes(), 1, format) for who in "bcdef"]
    result, refused = folded(
        tmp_path, [bad, *good], algorithm, base=tmp_path / "base", base_format=format
    )
    assert set(refused) == {"a"}
    assert "holds a value above" in refused["a"]
    assert np.isfinite(np.frombuffer(result.model.read_bytes(), kind)).all()
    if result.state is not None:
        assert all(np.isfinite(v).all() for v in _state(result.state).vectors)


def _state(path: Path) -> Model:
    coder = codec("safetensors")
    assert coder is not None
    return coder.decode(path.read_bytes())


def held(kind: str, vectors: Sequence[np.ndarray]) -> tuple[int, np.ndarray]:
    """Bytes that the sum of some vectors takes, and their mean."""
    tracemalloc.start()
    try:
        sums = ExactSum(len(vectors[0]), kind, expected=100)
        for vector in vectors:
            assert sums.add(0, [vector], [1]) == []
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    out = np.empty(len(vectors[0]), kind)
    sums.take(0, float(len(vectors)), out)
    return taken, out


@pytest.mark.attack(
    "rounds",
    "Sends numbers of every magnitude a type has, which need an operator of ten times the memory",
    "What is kept is the bits that there are, and the mean is exact",
)
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize(
    ("kind", "low", "high", "times"), [("<f4", -149, 127, 6), ("<f8", -1074, 1023, 3)]
)
def test_numbers_of_every_magnitude(kind: str, low: int, high: int, times: int, place: int) -> None:
    rng = np.random.default_rng(5)
    size = 60_000  # less than one block: its memory is traced
    good = [rng.standard_normal(size).astype(kind) for _ in range(3)]
    wide = np.ldexp(rng.uniform(1, 2, size), rng.integers(low, high, size)).astype(kind)
    vectors = list(good)
    vectors[place] = wide
    before, _ = held(kind, good)
    taken, mean = held(kind, vectors)
    assert taken <= times * before
    for element in range(0, size, 600):
        exact = sum(Fraction(float(vector[element])) for vector in vectors)
        assert mean[element] == np.dtype(kind).type(float(exact) / 3)


@pytest.mark.attack(
    "rounds",
    "Sends numbers so large that the distances of the others are lost in rounding, for an ally",
    "Distances are counted from an update that is near to most: the ally is not chosen",
)
@pytest.mark.parametrize("algorithm", ["krum", "multi-krum", "bulyan"])
@pytest.mark.parametrize(("kind", "huge"), [("<f4", 9e14), ("<f8", 9e139), ("<f8", 1e20)])
@pytest.mark.parametrize("ally", ["b", "z"])
def test_an_ally_in_the_rounding(algorithm: str, kind: str, huge: float, ally: str) -> None:
    rng = np.random.default_rng(3)
    middle = rng.standard_normal(1000)
    engine = Aggregation(strategy(algorithm, {"byzantine": 2}))
    sent = {"a": np.full(1000, huge), ally: middle + 10}
    sent |= {f"h{n}": middle + rng.standard_normal(1000) * 0.01 for n in range(9)}
    for client, values in sent.items():
        engine.add(Update(client, 1, model=Model.vector(values.astype(kind))))
    found = engine.finish().model
    assert found is not None
    assert np.abs(found.vectors[0] - middle).max() < 0.1


@pytest.mark.attack("rounds", "Sends NaN to a rule that sorts or compares", "It is refused")
@pytest.mark.parametrize("algorithm", ["median", "trimmed-mean", "krum", "multi-krum", "bulyan"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_a_number(tmp_path: Path, algorithm: str, value: float) -> None:
    bad = share("a", np.array([value, 1.0]).tobytes(), 1, "f64-le")
    good = [share(who, np.ones(2).tobytes(), 1, "f64-le") for who in "bcdef"]
    result, refused = folded(tmp_path, [bad, *good], algorithm)
    assert refused == {"a": "it holds a NaN or an infinity"}
    assert np.frombuffer(result.model.read_bytes(), "<f8").tolist() == [1.0, 1.0]


def contribution(client: str, samples: int, **more: Any) -> Contribution:
    results = {"round_id": 1, "num_samples": samples, "update_b64": "WzFd", **more}
    return Contribution(read_envelope(results, round_=1, participant=client, job_id="job"))


@pytest.mark.attack("rounds", "Says it has 2^31 samples", "They count for ten times the median")
def test_a_count_that_takes_the_model(tmp_path: Path) -> None:
    chosen, notes = bounded_samples(
        [contribution("a", 2**31 - 1), contribution("b", 100), contribution("c", 300)], 0
    )
    counts = [one.envelope.samples for one in chosen]
    assert counts == [3000, 100, 300]
    assert [(note.participant, "not 2147483647" in note.reason) for note in notes] == [("a", True)]
    weights = weights_of(counts, [0, 0, 0])
    shares = [share("a", [9.0, 9.0], weights[0]), *honest(b=weights[1], c=weights[2])]
    _, refused = folded(tmp_path, shares, expected=sum(weights))
    assert refused == {}


@pytest.mark.attack("rounds", "Says it has 2^31 samples, first", "Nobody else is refused for it")
def test_a_count_that_leaves_no_room(tmp_path: Path) -> None:
    folding = Folding(rule(), folder=tmp_path)
    assert "one of 6 participants may have" in folding.add(share("a", [9.0, 9.0], 2**31 - 1))
    assert [folding.add(one) for one in honest()] == ["", ""]
    assert model(folding.finish()) == [2.0, 3.0]
    most = [2**31 - 1] * 3
    assert sum(weights_of(most, [0, 0, 0])) < 2**31
    assert len(set(weights_of(most, [0, 0, 0]))) == 1


@pytest.mark.attack("rounds", "Says more samples than the job declares", "It is refused by name")
def test_a_count_above_the_declared_one() -> None:
    results = {"round_id": 1, "num_samples": 101, "update_b64": "WzFd"}
    with pytest.raises(Rejected, match=r"num_samples is 101: the job allows 100 \(max_samples\)"):
        read_envelope(results, round_=1, participant="a", job_id="job", max_samples=100)


@pytest.mark.attack("rounds", "Says zero, negative or half samples", "It is refused")
@pytest.mark.parametrize("count", [0, -1, 0.5, True, "7", None, 2**31, 1e300, [1], {"a": 1}])
def test_a_count_that_is_none(count: Any) -> None:
    results = {"round_id": 1, "num_samples": count, "update_b64": "WzFd"}
    with pytest.raises(Rejected, match="num_samples is"):
        read_envelope(results, round_=1, participant="a", job_id="job")


@pytest.mark.attack("rounds", "Sends the update of another round or name", "It is refused")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"round_id": 2}, "it is of round 2, not of round 1"),
        ({"round_id": "round-0"}, "not the number of a round"),
        ({"round_id": {"a": 1}}, "not the number of a round"),
        ({"proplet_id": "b"}, "but the task is of a"),
        ({"proplet_id": ["a"]}, "but the task is of a"),
        ({"format": "x" * 65}, "format is no name"),
        ({"format": "a\x1b[2J"}, "format is no name"),
        ({"update_b64": "", "update_ref": "r" * 513}, "more than 512 characters"),
    ],
)
def test_an_envelope_that_lies(change: dict[str, Any], words: str) -> None:
    results = {"round_id": 1, "num_samples": 1, "update_b64": "WzFd", **change}
    with pytest.raises(Rejected, match=words):
        read_envelope(results, round_=1, participant="a", job_id="job")


@pytest.mark.attack("rounds", "Sends its update twice", "It counts once")
def test_a_replayed_update(tmp_path: Path) -> None:
    folding = Folding(rule(), folder=tmp_path)
    reasons = [folding.add(one) for one in (*honest(), share("b", [9.0, 9.0]))]
    assert reasons == ["", "", "it has been counted already"]
    assert model(folding.finish()) == [2.0, 3.0]


def npy(header: bytes, body: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + body


def pickled() -> bytes:
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    return out.getvalue()


def safetensors(header: Any, body: bytes = b"", length: int | None = None) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + body


FLOATS = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
LIES = {
    "npy of objects": ("npy", pickled()),
    "npy of a shape that wraps around": (
        "npy",
        npy(b"{'descr':'<f8','fortran_order':False,'shape':(4294967296,4294967296)}"),
    ),
    "npy of nothing wide": ("npy", npy(b"{'descr':'<U0','fortran_order':False,'shape':(3,)}")),
    "npy of negative sides": (
        "npy",
        npy(b"{'descr':'<f8','fortran_order':False,'shape':(-1,-1)}", bytes(8)),
    ),
    "npy with a header that does not end": ("npy", npy(b"{'descr':'<f8',('")),
    "npy with a header of brackets": ("npy", npy(b"(" * 9000)),
    "npy with a header of signs": ("npy", npy(b"-" * 9000 + b"1")),
    "npy cut off": ("npy", b"\x93NUMPY\x01"),
    "safetensors longer than itself": ("safetensors", safetensors({}, length=2**63)),
    "safetensors that overlap": (
        "safetensors",
        safetensors({"a": FLOATS, "b": {**FLOATS, "data_offsets": [2, 6]}}, bytes(6)),
    ),
    "safetensors with a false shape": (
        "safetensors",
        safetensors({"a": {**FLOATS, "shape": [2**62, 4]}}, bytes(4)),
    ),
    "safetensors with negative offsets": (
        "safetensors",
        safetensors({"a": {**FLOATS, "data_offsets": [0, -4]}}, bytes(8)),
    ),
    "safetensors of texts": (
        "safetensors",
        safetensors({"a": {**FLOATS, "shape": ["1"]}}, b"1234"),
    ),
    "safetensors that is a list": ("safetensors", safetensors([1, 2])),
    "json in brackets": ("json-f64", b"[" * 100_000 + b"]" * 100_000),
    "json of uneven rows": ("json-f64", b"[[1,2],[3]]"),
    "json above every float": ("json-f64", b"[1e400]"),
    "json of words": ("json-f64", b'["a"]'),
    "json of objects": ("json-f64", b"{" * 10_000),
    "floats cut off": ("f64-le", bytes(9)),
}


@pytest.mark.attack("rounds", "Sends a payload whose header lies", "It is refused, others count")
@pytest.mark.parametrize("lie", LIES)
def test_a_payload_that_lies(tmp_path: Path, lie: str) -> None:
    format, payload = LIES[lie]
    result, refused = folded(tmp_path, [share("a", payload, 1, format), *honest()])
    assert model(result) == [2.0, 3.0]
    assert set(refused) == {"a"}
    assert len(refused["a"]) <= 512


@pytest.mark.attack(
    "rounds",
    "Sends JSON of which every byte becomes an object, so that the operator runs out of memory",
    "Numbers are read in pieces, lists are counted: what it takes is a few times the text",
)
@pytest.mark.parametrize(
    ("start", "part", "end", "shape"),
    [
        ("[", "[0],", "[0]]", (500_001, 1)),
        ("[", "[[[0]]],", "[[[0]]]]", (500_001, 1, 1, 1)),
        ("[", "[],", "[]]", ()),
        ("[", "[0,0],", "[0]]", ()),
        ("[[", "0," * 8, "0],0]", ()),
        ("[", "0," * 8, "]", ()),
    ],
)
def test_json_that_becomes_objects(start: str, part: str, end: str, shape: tuple[int, ...]) -> None:
    coder = codec("json-f64")
    assert coder is not None
    coder.decode(b"[1.5]")  # what is made once is not counted
    text = (start + part * 500_000 + end).encode()
    tracemalloc.start()
    try:
        if shape:
            assert coder.decode(text).tensors[0].shape == shape
        else:
            with pytest.raises(UpdateRejected):
                coder.decode(text)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= 10 * len(text) + (16 << 20)


@pytest.mark.attack("rounds", "Answers with JSON nested a thousand deep", "It is no result")
def test_results_nested_deep() -> None:
    assert as_object('{"a":' * 1000 + "1" + "}" * 1000) is None
    assert as_object('{"a":' + "[" * 500 + "]" * 500 + "}") is None
    assert as_object('{"a":{"b":[1,null]},"c":null}') == {"a": {"b": [1, None]}}


@pytest.mark.attack("rounds", "Sends figures of 1e299 or with long names", "The status stays one")
def test_metrics_that_break_the_status() -> None:
    bad = {"loss": 1e299, "x" * 5000: 1.0, "n": None, "t": True, **{f"m{n}": n for n in range(99)}}
    chosen = [
        contribution("a", 2**31 - 1, metrics=bad),
        contribution("b", 100, metrics={"loss": 0.5}),
    ]
    means = mean_metrics(chosen)
    assert means["loss"] == 0.5
    assert len(means) <= 33
    assert all(np.isfinite(value) for value in means.values())
    assert max(map(len, means)) <= 64


@pytest.mark.attack(
    "rounds", "Fills the annotation of a round with its envelope", "The others stay in it whole"
)
def test_an_envelope_that_fills_the_annotation() -> None:
    good = [{"proplet_id": who, "update_b64": "WzFd", "num_samples": 1} for who in "bcd"]
    bad = {"proplet_id": "a", "update_b64": "A" * 300_000, "extra": "x" * 600_000, "num_samples": 1}
    text = collected_annotation([bad, *good])
    assert len(text) <= ANNOTATION_LIMIT
    assert json.loads(text)[1:] == good
    assert json.loads(text)[0] == {"proplet_id": "a", "num_samples": 1, "update_bytes": 225_000}


class _Shelf:
    """A registry with updates, of which some may not be read, and some are large."""

    def __init__(self, updates: dict[str, list[float]], sizes: dict[str, int]) -> None:
        self._updates, self._sizes = updates, sizes

    async def manifest(self, reference: Reference) -> Any:
        name = reference.repository.rpartition("/")[2]
        if name not in self._updates:
            raise Denied(f"{reference.registry} does not let us read {reference.repository}")
        layers = [SimpleNamespace(size=self._sizes.get(name, 10), digest="", name=name)]
        return SimpleNamespace(layers=layers)

    async def fetch(self, reference: Reference, layer: Any, target: Path) -> None:
        await asyncio.to_thread(target.write_text, json.dumps(self._updates[layer.name]))


async def aggregated(
    folder: Path, updates: dict[str, list[float]], sizes: dict[str, int] | None = None
) -> tuple[Folded | None, dict[str, str]]:
    """As the operator does it, with references for payloads."""
    digest = f"sha256:{'0' * 64}"
    view = SimpleNamespace(
        namespace="ns", job="job", number=1, repository="", max_samples=0, algorithm="fedavg",
        config={}, participants="abc", privacy=None,
    )  # fmt: skip
    chosen = []
    for who in "abc":
        results = {"round_id": 1, "num_samples": 1, "update_ref": f"oci://r/ns/{who}@{digest}"}
        envelope = read_envelope(
            {**results, "format": "json-f64"}, round_=1, participant=who, job_id="job"
        )
        chosen.append(Contribution(envelope))
    places = SimpleNamespace(update=lambda text, **_: Reference.parse(text))
    plan = Plan(view, chosen)  # type: ignore[arg-type]
    shelf = _Shelf(updates, sizes or {})
    run = _Run(places, LearningSettings(), shelf, plan, folder)  # type: ignore[arg-type]
    run._usual = await run._middle_size()
    return await run._fold({})


@pytest.mark.attack(
    "rounds", "Names an update that the registry lets nobody read", "It is refused, others count"
)
async def test_an_update_that_may_not_be_read(tmp_path: Path) -> None:
    result, refused = await aggregated(tmp_path, HONEST)
    assert result is not None
    assert model(result) == [2.0, 3.0]
    assert refused == {"a": "r does not let us read ns/a"}
    with pytest.raises(Denied):  # what nobody can read is tried again, with other credentials
        await aggregated(tmp_path, {})


@pytest.mark.attack(
    "rounds",
    "Names an update of another namespace, while its own job keeps models in another registry",
    "What the operator reads as itself is of the job's own namespace, wherever the models are",
)
@pytest.mark.parametrize("own", ["", "oci://theirs.example.com/x"])
def test_an_update_of_another_namespace(own: str) -> None:
    known = {"registry.corral.local": Endpoint("http://127.0.0.1:1")}
    settings = LearningSettings(registry="oci://registry.corral.local", registries=known)
    places = Places(cast(KubeClient, None), settings)
    text = f"oci://registry.corral.local/victim/job/updates@sha256:{'0' * 64}"
    with pytest.raises(InvalidReference, match=r"is not below oci://registry\.corral\.local/ns/"):
        places.update(text, own=own, namespace="ns")


@pytest.mark.attack(
    "rounds",
    "Sends 16 GiB in the first round, of which nobody knows how large its model is",
    "An update far above the middle one is not fetched",
)
@pytest.mark.parametrize(("sizes", "large"), [({"a": 2 << 20}, "a"), ({"b": 1 << 34}, "b")])
async def test_a_first_update_that_fills_the_operator(
    tmp_path: Path, sizes: dict[str, int], large: str
) -> None:
    result, refused = await aggregated(tmp_path, {"a": [9.0, 9.0], **HONEST}, sizes)
    assert result is not None and large not in result.clients and len(result.clients) == 2
    assert refused == {large: f"it has {sizes[large]} bytes, at most 1048736 are taken"}
    result, refused = await aggregated(tmp_path, HONEST, {"a": 1, "b": 1 << 30, "c": 1 << 30})
    assert result is not None and set(refused) == {"a"}  # a small one moves nothing either


# --- the twin for deployments on Kafka -----------------------------------------------------------


def entry(client: str, num_data: int, version: int = 0) -> dict[str, Any]:
    return {
        "type": "update",
        "client": client,
        "version": version,
        "num_data": num_data,
        "offset": ord(client),
    }


def reader(values: dict[str, Any]) -> Any:
    def read(update: Any, take: Any) -> None:
        found = values[update["client"]]
        if isinstance(found, Exception):
            raise found
        take(0, np.asarray(found))

    return read


@pytest.mark.attack("rounds", "Says 2^40 samples to a Kafka-ML server", "It weighs ten medians")
@pytest.mark.parametrize("first", [True, False])
def test_a_count_on_kafka(first: bool) -> None:
    updates = [entry("b", 10), entry("c", 10)]
    updates.insert(0 if first else 2, entry("a", 1 << 40))
    remarks: list[tuple[str, str]] = []
    values = {"a": [9.0], "b": [1.0], "c": [1.0]}
    made = fold(strategy("fedavg"), updates, 1, reader(values), lambda *said: remarks.append(said))
    assert remarks == []
    assert made.arrays[0].tolist() == [(9.0 * 100 + 20) / 120]
    assert sum(update["num_data"] for update in made.counted) == 120


@pytest.mark.attack("rounds", "Breaks its weights after they were checked", "It alone is left out")
@pytest.mark.parametrize("algorithm", ["fedavg", "fedadam", "median"])
def test_weights_that_went_bad(algorithm: str) -> None:
    values = {"a": UpdateRejected("array 0 is not whole"), "b": [1.0], "c": [1.0]}
    updates = [entry(who, 1) for who in "abc"]
    remarks: list[tuple[str, str]] = []
    told = lambda *said: remarks.append(said)  # noqa: E731
    if algorithm == "fedavg":
        made = fold(strategy(algorithm), updates, 1, reader(values), told)
    else:
        current = [np.array([0.0])]
        made = whole(strategy(algorithm), updates, current, None, reader(values), told)
    assert [update["client"] for update in made.counted] == ["b", "c"]
    assert remarks == [("a", "array 0 is not whole")]


@pytest.mark.attack("rounds", "Is the only update of a version, and none", "The deployment goes on")
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_only_update_is_none(mode: Any) -> None:
    with pytest.raises(NothingCounts):
        fold(strategy("fedavg"), [entry("a", 1)], 1, reader({"a": UpdateRejected("no")}), print)
    rounds = Rounds(RoundSettings(rounds=3, mode=mode, k=1, timeout=60.0))
    key = "a" if mode == "sync" else "a@0"
    for each in (
        {"type": "published", "version": 0, "range": "t:0:0:1"},
        entry("a", 1),
        {"type": "closed", "version": 0, "clients": [key]},
        {"type": "dropped", "version": 0},
    ):
        rounds.take(each, 1.0)
    assert (rounds.version, rounds.closed, rounds.updates, rounds.ended) == (0, (), {}, "")
    assert "already" in rounds.refusal("a", 0, {"a", "b"})
    rounds.take(entry("b", 1), 2.0)
    assert rounds.next(3.0, {"a", "b"}).clients == (("b" if mode == "sync" else "b@0"),)  # type: ignore[union-attr]


# --- secure aggregation --------------------------------------------------------------------------


def masked_round(clients: str, threshold: int) -> tuple[Combiner, dict[str, Revealed]]:
    members = {client: Member(client) for client in clients}
    hellos = [member.hello() for member in members.values()]
    sealed = {
        client: member.share(hellos, threshold=threshold) for client, member in members.items()
    }
    for client, member in members.items():
        member.receive({sender: shares[client] for sender, shares in sealed.items()})
    combiner = Combiner(hellos, threshold=threshold, size=2)
    for member in members.values():
        combiner.add(member.masked(np.array([1.0, 2.0]), 1), 1)
    return combiner, {client: member.reveal(combiner.sent) for client, member in members.items()}


@pytest.mark.attack("rounds", "Reveals false shares of the others' masks", "The sum is still right")
@pytest.mark.parametrize("liars", ["a", "c", "ae"])
def test_false_shares(liars: str) -> None:
    combiner, revealed = masked_round("abcde", 3)
    for liar in liars:
        own = {who: (x, y ^ 12345) for who, (x, y) in revealed[liar].own_masks.items()}
        revealed[liar] = Revealed(liar, own, {})
    assert combiner.mean(list(revealed.values())).tolist() == pytest.approx([1.0, 2.0])


@pytest.mark.attack("rounds", "Reveals shares in the name of others", "Only its own are taken")
def test_shares_in_the_name_of_others() -> None:
    combiner, revealed = masked_round("abcde", 3)
    lies = [Revealed("a", dict.fromkeys("abcde", (n, 1)), {}) for n in range(1, 6)]
    assert combiner.mean([*revealed.values(), *lies[1:]]).tolist() == pytest.approx([1.0, 2.0])


@pytest.mark.attack(
    "rounds", "Reveals too many false shares", "There is no result, not a wrong one"
)
def test_too_many_false_shares() -> None:
    combiner, revealed = masked_round("abcde", 3)
    for liar in "abc":
        own = {who: (x, y ^ 99) for who, (x, y) in revealed[liar].own_masks.items()}
        revealed[liar] = Revealed(liar, own, {})
    with pytest.raises(AggregationFailed, match="do not belong together"):
        combiner.mean(list(revealed.values()))


def test_honest_results_have_the_bits_of_before() -> None:
    """What was mended is not on the way of honest updates."""
    rng = np.random.default_rng(7)
    vectors = [rng.normal(size=1000) for _ in range(5)]
    engine = Aggregation(strategy("fedavg"))
    for number, vector in enumerate(vectors):
        engine.add(Update(str(number), 10 + number, Model.vector(vector)))
    found = engine.finish().model
    assert found is not None
    total = sum(range(10, 15))
    for element in range(0, 1000, 97):
        exact = sum(Fraction(v[element]) * (10 + n) for n, v in enumerate(vectors))
        assert found.vectors[0][element] == float(exact) / total
