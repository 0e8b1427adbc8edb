"""Where models and updates may be, and what is removed after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from corral.families.federated.learning import LearningSettings
from corral.families.federated.metrics import LearningMetrics
from corral.families.federated.models import NoRegistry, Places
from corral.families.federated.spool import Spool
from corral.kube.client import KubeClient
from corral.oci import Endpoint, InvalidReference, Reference

DIGEST = "sha256:" + "0" * 64


def places(registry: str = "oci://registry.corral.local", **names: str) -> Places:
    known = {"registry.corral.local": Endpoint("http://127.0.0.1:1")}
    known |= {name.replace("_", "."): Endpoint(url) for name, url in names.items()}
    settings = LearningSettings(registry=registry, registries=known)
    return Places(cast(KubeClient, None), settings)


def test_repositories_of_jobs() -> None:
    found = places().repository("", "ns", "job", "models")
    assert str(found) == "oci://registry.corral.local/ns/job/models"
    found = places("oci://harbor.example.com/team/").repository("", "ns", "job", "updates")
    assert str(found) == "oci://harbor.example.com/team/ns/job/updates"
    found = places().repository("oci://other.example.com/x", "ns", "job", "models")
    assert str(found) == "oci://other.example.com/x/ns/job/models"
    with pytest.raises(NoRegistry, match="--registry"):
        places("").repository("", "ns", "job", "models")


@pytest.mark.parametrize("own", ["oci://registry.corral.local/other", "oci://mapped.example.com/x"])
def test_where_the_operator_is_known_a_job_has_its_namespace(own: str) -> None:
    with pytest.raises(InvalidReference, match="is not of this namespace"):
        places(mapped_example_com="http://127.0.0.1:2").repository(own, "ns", "job", "models")


def test_own_part_of_a_known_registry() -> None:
    found = places().repository("oci://registry.corral.local/ns/mine", "ns", "job", "models")
    assert str(found) == "oci://registry.corral.local/ns/mine/ns/job/models"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"oci://registry.corral.local/other/job/updates@{DIGEST}", "is not below"),
        (f"oci://registry.corral.local/ns@{DIGEST}", "is not below"),
        (f"oci://registry.corral.local/nsx/job/updates@{DIGEST}", "is not below"),
        (f"oci://evil.example.com/ns/job/updates@{DIGEST}", "no registry of this operator"),
        ("oci://registry.corral.local/ns/job/updates:latest", "has no digest"),
        ("http://169.254.169.254/latest", "is no reference of an artifact"),
        ("oci://registry.corral.local/ns/../other/updates", "is no reference of an artifact"),
    ],
)
def test_updates_are_read_from_where_they_belong(text: str, why: str) -> None:
    with pytest.raises(InvalidReference, match=why):
        places().update(text, own="", namespace="ns")


@pytest.mark.parametrize("name", ["registry.corral.local", "mapped.example.com"])
def test_updates_in_other_registries_of_the_operator(name: str) -> None:
    """They are read as the operator, who may read those of other namespaces."""
    known = places(mapped_example_com="http://127.0.0.1:2")
    own = "oci://theirs.example.com/x"
    text = f"oci://{name}/ns/job/updates@{DIGEST}"
    assert str(known.update(text, own=own, namespace="ns")) == text
    for other in ("other/job", "nsx/job", "x/ns"):
        with pytest.raises(InvalidReference, match=f"is not below oci://{name}/ns/"):
            known.update(f"oci://{name}/{other}/u@{DIGEST}", own=own, namespace="ns")


def test_an_update_of_ours() -> None:
    text = f"oci://registry.corral.local/ns/job/updates:t@{DIGEST}"
    assert str(places().update(text, own="", namespace="ns")) == text


def test_whose_part_a_model_is_in() -> None:
    team = places("oci://harbor.example.com/team")
    assert team.within(Reference.parse("oci://harbor.example.com/team/ns/job:x")) == "ns/job"
    assert team.within(Reference.parse("oci://r.example.com/team/ns:x")) == "team/ns"
    assert team.knows("harbor.example.com")
    assert not team.knows("r.example.com")


def test_what_the_dead_have_left_is_removed(tmp_path: Path) -> None:
    ended = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], check=True,
                           capture_output=True, text=True).stdout.strip()  # fmt: skip
    left = [tmp_path / f"corral-round-{number}-x" for number in (ended, os.getpid())]
    kept = [tmp_path / f"corral-round-{os.getppid()}-x", tmp_path / "corral-round-abc"]
    for folder in (*left, *kept):
        folder.mkdir()
        (folder / "file").touch()
    spool = Spool(tmp_path)
    with spool.folder() as name:
        assert not any(folder.exists() for folder in left)
        assert all(folder.exists() for folder in kept)
        with Spool(tmp_path).folder() as other:
            assert Path(name).exists() and Path(other).exists()


def test_names_of_the_figures() -> None:
    registry = CollectorRegistry()
    metrics = LearningMetrics(registry)
    metrics.phase("job", "Running")
    metrics.required("round-1", 2)
    metrics.collected("round-1", 2)
    metrics.collected("round-1", -1)
    metrics.rejected("job", 1)
    metrics.ended("job", 3.0)
    metrics.aggregated("fedavg", 0.5)
    value: Any = registry.get_sample_value
    phases = {"federated_job": "job", "phase": "Running"}
    assert value("propeller_fl_round_total", phases) == 1
    assert value("propeller_fl_updates_collected_total", {"round_id": "round-1"}) == 2
    assert value("propeller_fl_updates_required", {"round_id": "round-1"}) == 2
    assert value("propeller_fl_aggregations_total", {"algorithm": "fedavg"}) == 1
    assert value("propeller_fl_round_duration_seconds_count", {"federated_job": "job"}) == 1
    assert value("propeller_fl_aggregation_duration_seconds_count", {"algorithm": "fedavg"}) == 1


def test_the_engine_is_not_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, corral.families.federated.rounds.reconciler as r, "
        "corral.families.federated.jobs.family, "
        "corral.families.federated.modelcheckpoints\n"
        "loaded = [m for m in ('numpy', 'corral.learning', 'corral.families.federated.folding')"
        " if m in sys.modules]\n"
        "sys.exit(f'loaded: {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
