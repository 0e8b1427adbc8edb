"""Updates become a model: the contract's vectors and words, votes, late ones, privacy."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from corral.families.federated.folding import (
    Folded,
    Folding,
    Other,
    Rule,
    Share,
    weights_of,
)
from corral.learning import AggregationFailed, FederatedError, InvalidConfig


def rule(algorithm: str = "fedavg", **more: Any) -> Rule:
    facts: dict[str, Any] = {"config": {}, "participants": "abcdef", "job": "ns/job"}
    return Rule(algorithm, **{**facts, "round_number": 1, **more})


def share(client: str, values: Any, weight: int = 1, format: str = "json-f64") -> Share:
    raw = values if isinstance(values, bytes) else json.dumps(values).encode()
    return Share(client, weight, format, raw)


def fold(
    folder: Path, wanted: Rule, shares: Sequence[Share], **more: Any
) -> tuple[Folded, dict[str, str]]:
    folding = Folding(wanted, folder=folder, **more)
    reasons = {one.client: folding.add(one) for one in shares}
    return folding.finish(), {client: why for client, why in reasons.items() if why}


@pytest.mark.parametrize(
    ("updates", "encoded"),
    [
        ([([1, 2, 3], 10), ([4, 5, 6], 30)], "WzMuMjUsNC4yNSw1LjI1XQ=="),
        ([([0.5, -1], 1), ([1.5, 3], 3)], "WzEuMjUsMl0="),
    ],
)
@pytest.mark.parametrize("format", ["json-f64", ""])
def test_vectors_of_fedavg(tmp_path: Path, updates: Any, encoded: str, format: str) -> None:
    shares = [share(c, v, n, format) for c, (v, n) in zip("ab", updates, strict=True)]
    folded, refused = fold(tmp_path, rule(), shares)
    assert base64.b64encode(folded.model.read_bytes()).decode() == encoded
    assert (folded.format, folded.algorithm, refused) == ("json-f64", "fedavg", {})


@pytest.mark.parametrize(
    ("algorithm", "format"), [("concat", ""), ("concat", "json-f64"), ("fedavg", "raw")]
)
def test_vector_of_concat(tmp_path: Path, algorithm: str, format: str) -> None:
    shares = [share("b", b"BBB", 1, format), share("a", b"AAA", 1, format)]
    folded, _ = fold(tmp_path, rule(algorithm), shares)
    joined = base64.b64encode(folded.model.read_bytes()).decode()
    assert joined == "QUFBCi0tLVBST1AtVVBEQVRFLS0tCkJCQg=="
    assert folded.algorithm == "concat"


def test_words_of_the_contract(tmp_path: Path) -> None:
    folding = Folding(rule(), folder=tmp_path)
    with pytest.raises(AggregationFailed, match=r"^no updates to aggregate$"):
        folding.finish()
    folding = Folding(rule(), folder=tmp_path)
    assert folding.add(share("a", [])) == "invalid vector: empty"
    assert folding.add(share("a", b"{}")).startswith("invalid json-f64 payload: ")
    assert folding.add(share("a", [1, 2])) == ""
    assert folding.add(share("b", [1])) == "cannot aggregate: mismatched vector dimensions"
    zero = Folding(rule(), folder=tmp_path)
    assert zero.add(share("a", [1.0], 0)) == "num_samples is 0"
    with pytest.raises(AggregationFailed, match=r"^cannot aggregate: total_samples is zero$"):
        zero.finish()


def test_not_finite_is_refused_and_leaves_no_trace(tmp_path: Path) -> None:
    bad = np.array([np.nan, 1], "<f4").tobytes()
    good = np.array([2, 4], "<f4").tobytes()
    for order in ("bad first", "good first"):
        shares = [share("a", bad, 1, "f32-le"), share("b", good, 1, "f32-le")]
        folded, refused = fold(tmp_path, rule(), shares if order == "bad first" else shares[::-1])
        assert np.frombuffer(folded.model.read_bytes(), "<f4").tolist() == [2, 4]
        assert refused == {"a": "it holds a NaN or an infinity"}


@pytest.mark.parametrize("clip", [0.0, 10.0])
def test_what_cannot_count_has_no_say(tmp_path: Path, clip: float) -> None:
    """A first update that is refused does not decide what the others must look like."""
    bad = np.array([np.inf, 1, 1], "<f8").tobytes()
    shares = [share("a", bad, 1, "f64-le"), share("b", [2.0, 4.0])]
    folded, refused = fold(tmp_path, rule(clip=clip, seed=b"s" * 32), shares)
    assert json.loads(folded.model.read_bytes()) == [2.0, 4.0]
    assert refused == {"a": "it holds a NaN or an infinity"}


def test_the_majority_says_what_updates_look_like(tmp_path: Path) -> None:
    shares = [share("a", [9.0]), share("b", [1.0, 2.0]), share("c", [3.0, 4.0])]
    folding = Folding(rule(), folder=tmp_path)
    for one in shares:
        folding.add(one)
    assert folding.in_doubt
    with pytest.raises(Other) as other:
        folding.finish()
    folded, refused = fold(tmp_path, rule(), shares, layout=other.value.layout)
    assert json.loads(folded.model.read_bytes()) == [2.0, 3.0]
    assert refused == {"a": "cannot aggregate: mismatched vector dimensions"}


def test_the_base_says_so_where_there_is_one(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.write_bytes(b"[0.0]")
    shares = [share("a", [9.0]), share("b", [1.0, 2.0]), share("c", [3.0, 4.0])]
    folded, refused = fold(tmp_path, rule(), shares, base=base, base_format="json-f64")
    assert json.loads(folded.model.read_bytes()) == [9.0]
    assert set(refused) == {"b", "c"}


def test_state_goes_through_a_file(tmp_path: Path) -> None:
    """Three rounds of fedadam by files are three rounds in memory."""
    from corral.learning import Aggregation, Model, Update, strategy

    config = {"learning_rate": 0.5}
    updates = [[[1.0, 2.0], [3.0, 5.0]], [[2.0, 1.0], [0.5, 3.0]], [[1.5, 1.25], [2.0, 2.0]]]
    model: Any = None
    state: Any = None
    base: dict[str, Any] = {}
    for number, (first, second) in enumerate(updates):
        engine = Aggregation(strategy("fedadam", config), current=model, state=state)
        engine.add(Update("a", 3, Model.vector(np.array(first))))
        engine.add(Update("b", 5, Model.vector(np.array(second))))
        result = engine.finish()
        model, state = result.model, result.state
        folder = tmp_path / str(number)
        folder.mkdir()
        wanted = rule("fedadam", config=config, round_number=number + 1)
        folded, _ = fold(folder, wanted, [share("b", second, 5), share("a", first, 3)], **base)
        assert model is not None
        assert (
            np.array(json.loads(folded.model.read_bytes())).tobytes() == model.vectors[0].tobytes()
        )
        assert (folded.state is None) == (number == 0)
        base = {"base": folded.model, "base_format": "json-f64", "state": folded.state}


def test_late_updates_weigh_less() -> None:
    assert weights_of([10, 30], [0, 0]) == [10, 30]
    first, second = weights_of([10, 10], [0, 3])
    assert (first, second) == (10_240, 5_120)
    weights = weights_of([2**30, 2**30 - 2], [1, 0])
    assert sum(weights) < 2**31
    assert weights[0] == round(2**30 / math.sqrt(2))
    assert weights_of([1], [10**9]) == [1]


def test_private_rounds_are_clipped_and_the_noise_is_one(tmp_path: Path) -> None:
    private = rule(clip=1.0, noise=0.5, seed=b"s" * 32)
    shares = [share("a", [100.0, 0.0], 10), share("b", [0.0, 0.5], 90)]
    once, _ = fold(tmp_path, private, shares)
    first = once.model.read_bytes()
    again, _ = fold(tmp_path, private, shares[::-1])
    assert again.model.read_bytes() == first
    other, _ = fold(tmp_path, rule(clip=1.0, noise=0.5, seed=b"t" * 32), shares)
    assert other.model.read_bytes() != first
    quiet, _ = fold(tmp_path, rule(clip=1.0, noise=0.0, seed=b"s" * 32), shares)
    assert json.loads(quiet.model.read_bytes()) == [0.5, 0.25]


def test_what_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig):
        Folding(rule("fedavg", config={"mu": 1}), folder=tmp_path)
    with pytest.raises(FederatedError):
        robust = Folding(rule("median", clip=1.0, seed=b"s" * 32), folder=tmp_path)
        robust.add(share("a", [1.0]))
    robust = Folding(rule("median"), folder=tmp_path)
    assert "cannot read the format 'raw'" in robust.add(share("a", b"x", 1, "raw"))


def test_files_are_read_in_place(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(np.full(1000, ord(name), "<f4").tobytes())
    shares = [Share(name, 1, "f32-le", tmp_path / name) for name in "ab"]
    folded, _ = fold(tmp_path, rule(), shares)
    assert set(np.frombuffer(folded.model.read_bytes(), "<f4")) == {97.5}
    empty = tmp_path / "empty"
    empty.touch()
    folding = Folding(rule(), folder=tmp_path)
    assert folding.add(Share("a", 1, "f32-le", empty)) == "invalid vector: empty"


@pytest.mark.parametrize(
    ("algorithm", "format", "result"),
    [("concat", "json-f64", "concat"), ("concat", "", "concat"), ("fedavg", "raw", "raw")],
)
def test_rounds_of_joined_bytes_follow_each_other(
    tmp_path: Path, algorithm: str, format: str, result: str
) -> None:
    shares = [share("a", b"AAA", 1, format), share("b", b"BBB", 1, format)]
    first, _ = fold(tmp_path, rule(algorithm), shares)
    assert first.format == result
    kept = first.model.rename(tmp_path / "base")
    second, refused = fold(tmp_path, rule(algorithm), shares, base=kept, base_format=first.format)
    assert (second.model.read_bytes(), refused) == (kept.read_bytes(), {})
