"""propeller.absmach.io: the definitions, and that every manifest is taken as it is."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.api.propeller.kinds import (
    KINDS,
    FederatedJob,
    ModelCheckpoint,
    PropletGroup,
    TrainingRound,
    WasmTask,
)
from corral.cluster.apiserver.crd.structural import compile_version

Obj = dict[str, Any]
EXAMPLES = Path(__file__).parents[3] / "examples" / "propeller"
MANIFESTS = sorted(EXAMPLES.glob("*.yaml"))
BY_KIND = {kind.names.kind: kind for kind in KINDS}


def test_all_manifests_are_there() -> None:
    assert len(MANIFESTS) == 16


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_a_manifest_is_taken_as_it_is(path: Path) -> None:
    obj = yaml.safe_load(path.read_text())
    kind = BY_KIND[obj["kind"]]
    assert obj["metadata"]["name"] == path.stem
    assert kind.validate(obj) == []
    kept = deepcopy(obj)
    compile_version(kind.crd(), "v1alpha1").prune(kept)
    assert kept == obj
    remarks = kind.warnings(obj)
    assert bool(remarks) is (path.stem == "custom-wasm-task")
    kind.read(obj)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (WasmTask, ["Phase", "Proplet", "Age"]),
        (FederatedJob, ["Phase", "Current Round", "Completed Rounds", "Age"]),
        (TrainingRound, ["Phase", "Updates", "Required", "Age"]),
        (PropletGroup, ["Total", "Available", "Age"]),
    ],
)
def test_columns(kind: Any, columns: list[str]) -> None:
    version = kind.crd()["spec"]["versions"][0]
    shown = [c["name"] for c in version["additionalPrinterColumns"] if not c.get("priority")]
    assert shown == columns
    assert version["subresources"] == {"status": {}}
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)


@pytest.mark.parametrize(
    ("kind", "required"),
    [
        (
            FederatedJob,
            "experimentId modelRef taskWasmImage participants kOfN timeoutSeconds rounds "
            "aggregator",
        ),
        (
            TrainingRound,
            "roundId federatedJobRef modelRef taskWasmImage participants kOfN timeoutSeconds",
        ),
        (PropletGroup, "selector scheduling"),
        (ModelCheckpoint, "federatedJobRef modelRef algorithm metadata"),
        (WasmTask, ""),
    ],
)
def test_what_is_required(kind: Any, required: str) -> None:
    spec = kind.schema()["properties"]["spec"]
    assert set(spec.get("required") or ()) == set(required.split())


STATUS = {
    WasmTask: "phase propletId jobRef startTime finishTime results error conditions",
    FederatedJob: ("phase currentRound completedRounds conditions participants aggregatedModelRef"),
    TrainingRound: (
        "phase startTime endTime participants updatesReceived updatesRequired aggregatedModelRef "
        "conditions"
    ),
    PropletGroup: "proplets totalProplets availableProplets",
    ModelCheckpoint: "phase uploadTime sizeBytes",
}


@pytest.mark.parametrize("kind", STATUS, ids=lambda kind: kind.__name__)
def test_what_a_status_has(kind: Any) -> None:
    known = kind.schema()["properties"]["status"]["properties"]
    assert set(STATUS[kind].split()) <= set(known)


def test_any_json_is_kept() -> None:
    for path in ("hyperparams",):
        schema = FederatedJob.schema()["properties"]["spec"]["properties"][path]
        assert schema["x-kubernetes-preserve-unknown-fields"] is True
        assert "type" not in schema
    results = WasmTask.schema()["properties"]["status"]["properties"]["results"]
    assert results["x-kubernetes-preserve-unknown-fields"] is True


def test_a_reference_may_be_empty() -> None:
    (path,) = [path for path in MANIFESTS if path.stem.startswith("round-1")]
    obj = yaml.safe_load(path.read_text())
    obj["spec"]["federatedJobRef"] = {}
    assert TrainingRound.validate(obj) == []
    assert TrainingRound.read(obj).spec.federated_job_ref.name == ""
