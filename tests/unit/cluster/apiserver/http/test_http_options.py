"""The query options of writes."""

from __future__ import annotations

import pytest
from aiohttp.test_utils import make_mocked_request

from corral.cluster.apiserver.auth.users import UserInfo
from corral.cluster.apiserver.http.options import query_delete_options, write_context
from corral.cluster.apiserver.requests import Context
from corral.kube import errors
from corral.kube.types import Obj

pytestmark = pytest.mark.filterwarnings("ignore:It is recommended to use web.RequestKey")

ANN = UserInfo("ann")
APPLY = "application/apply-patch+yaml"


def context(
    query: str, kind: str = "CreateOptions", patch_type: str = "", agent: str = ""
) -> Context:
    headers = {"User-Agent": agent} if agent else {}
    request = make_mocked_request("POST", f"/x?{query}", headers=headers)
    return write_context(request, ANN, kind, patch_type=patch_type)


@pytest.mark.parametrize(
    ("agent", "manager"),
    [
        ("kubectl/v1.37.1 (linux/amd64) kubernetes/abc", "kubectl"),
        ("python-requests", "python-requests"),
        ("", "unknown"),
        ("x" * 200 + "/1", "x" * 128),
    ],
)
def test_manager_is_the_program(agent: str, manager: str) -> None:
    assert context("", agent=agent).manager == manager


def test_what_the_query_says() -> None:
    found = context("dryRun=All&fieldManager=me&fieldValidation=Strict", agent="kubectl/1")
    assert (found.manager, found.dry_run, found.field_validation) == ("me", True, "Strict")
    assert found.user is ANN and not found.force
    plain = context("")
    assert (plain.dry_run, plain.field_validation) == (False, "Warn")


@pytest.mark.parametrize(
    ("query", "kind", "patch_type", "field"),
    [
        ("dryRun=Some", "CreateOptions", "", "dryRun"),
        ("fieldValidation=Sometimes", "UpdateOptions", "", "fieldValidation"),
        (f"fieldManager={'x' * 129}", "CreateOptions", "", "fieldManager"),
        ("fieldManager=a%07b", "CreateOptions", "", "fieldManager"),
        ("", "PatchOptions", APPLY, "fieldManager"),
        ("force=true", "PatchOptions", "application/merge-patch+json", "force"),
    ],
)
def test_refused(query: str, kind: str, patch_type: str, field: str) -> None:
    with pytest.raises(errors.Invalid) as caught:
        context(query, kind, patch_type)
    assert [c["field"] for c in caught.value.details["causes"]] == [field]
    assert caught.value.message.startswith(f"{kind}.meta.k8s.io ")


@pytest.mark.parametrize(("text", "force"), [("true", True), ("1", True), ("false", False)])
def test_forced_apply(text: str, force: bool) -> None:
    found = context(f"fieldManager=me&force={text}", "PatchOptions", APPLY)
    assert found.force is force


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("", {}),
        ("gracePeriodSeconds=0", {"gracePeriodSeconds": 0}),
        ("propagationPolicy=Orphan", {"propagationPolicy": "Orphan"}),
        ("orphanDependents=true", {"orphanDependents": True}),
        ("orphanDependents=false", {"orphanDependents": False}),
        ("dryRun=All", {"dryRun": ["All"]}),
    ],
)
def test_delete_options_in_the_query(query: str, wanted: Obj) -> None:
    request = make_mocked_request("DELETE", f"/x?{query}")
    assert query_delete_options(request.query) == wanted
