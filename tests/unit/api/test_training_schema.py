"""What the models say and what the definition says about the same object is the same."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from corral.api.training.kinds import TrainingJob
from corral.cluster.apiserver.crd.structural import compile_version
from tests.cluster.webhooks_runtime.training_cases import BAD, CHANGES, GOOD

Obj = dict[str, Any]
SERVER = compile_version(TrainingJob.crd(), "v1alpha1")


def served(obj: Obj) -> Obj:
    """The object as a server has it after decoding."""
    copy = deepcopy(obj)
    SERVER.prune(copy)
    SERVER.default(copy)
    return copy


def causes(obj: Obj, old: Obj | None = None) -> list[tuple[str, str, str]]:
    found = SERVER.validate(served(obj), served(old) if old else None)
    # The scale subresource and number formats repeat a mistake under no field's own path.
    return sorted((p.field, p.type, p.body) for p in found if p.field.startswith("spec"))


@pytest.mark.parametrize("obj", GOOD.values(), ids=GOOD)
def test_defaults_agree(obj: Obj) -> None:
    ours = deepcopy(obj)
    TrainingJob.default(ours)
    SERVER.prune(ours)
    assert ours == served(obj)


@pytest.mark.parametrize("obj", GOOD.values(), ids=GOOD)
def test_good_objects_pass_both(obj: Obj) -> None:
    assert causes(obj) == []
    assert TrainingJob.validate(obj) == []


@pytest.mark.parametrize("obj,fields", BAD.values(), ids=BAD)
def test_mistakes_are_the_same_ones(obj: Obj, fields: list[str]) -> None:
    ours = [(p.field, p.type, p.body) for p in TrainingJob.validate(obj)]
    assert sorted(field for field, _, _ in ours) == fields
    theirs = causes(obj)
    assert sorted({(f, t) for f, t, _ in ours}) == sorted({(f, t) for f, t, _ in theirs})


@pytest.mark.parametrize("old,new,fields", CHANGES.values(), ids=CHANGES)
def test_what_never_changes(old: Obj, new: Obj, fields: list[str]) -> None:
    ours = [p for p in TrainingJob.validate(new, old) if p.type == "FieldValueInvalid"]
    assert sorted(p.field for p in ours) == fields
    assert sorted(f for f, _, _ in causes(new, old)) == fields


@pytest.mark.parametrize(
    "name", ["framework", "no replicas", "replicas text", "long image", "interval", "no storage"]
)
def test_texts_are_those_of_the_server(name: str) -> None:
    obj = BAD[name][0]
    assert sorted(map(str, TrainingJob.validate(obj))) == sorted(
        f"{field}: {body}" for field, _, body in causes(obj)
    )


def test_reading_gives_the_defaults_too() -> None:
    for obj in GOOD.values():
        job = TrainingJob.read(obj)
        wire = job.model_dump(by_alias=True, exclude_none=True)["spec"]
        assert wire.items() >= {"replicas": job.spec.replicas}.items()
        assert TrainingJob.validate({**obj, "spec": wire}) == []


@pytest.mark.parametrize("name", ["x" * 57, "1st", "under-", "a.b"])
def test_names_are_judged_alike(name: str) -> None:
    obj = {**GOOD["least"], "metadata": {"name": name}}
    found = SERVER.validate(served(obj), None)
    theirs = [(p.field, p.type, p.body) for p in found if p.field != "<nil>"]
    assert [(p.field, p.type, p.body) for p in TrainingJob.validate(obj)] == theirs
    assert theirs[0][0] == "metadata.name"
