"""CRDs as kube-apiserver 1.37 judged them (data/definitions.json), and the status they get."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from corral.cluster.apiserver.crd.definition.conditions import crd_conditions, is_established
from corral.cluster.apiserver.crd.definition.kind import (
    default_crd,
    validate_crd,
    validate_crd_update,
)

CASES = json.loads((Path(__file__).parent / "data" / "definitions.json").read_text())
WHEN = "2026-01-01T00:00:00Z"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_definitions_as_the_real_server_sees_them(case: dict[str, Any]) -> None:
    crd = copy.deepcopy(case["crd"])
    default_crd(crd)
    assert [[p.type, p.field, p.body] for p in validate_crd(crd)] == case["errors"]


def crd(plural: str = "things", kind: str = "Thing", **names: Any) -> dict[str, Any]:
    made = {
        "metadata": {"name": f"{plural}.shop.example.com"},
        "spec": {
            "group": "shop.example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
        },
    }
    default_crd(made)
    return made


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


def test_defaults() -> None:
    made = crd()
    assert made["spec"]["names"] == {
        "plural": "things",
        "kind": "Thing",
        "singular": "thing",
        "listKind": "ThingList",
    }
    assert made["spec"]["conversion"] == {"strategy": "None"}
    assert made["status"] == {"storedVersions": ["v1"]}


def test_established_when_the_names_are_free() -> None:
    made = crd(shortNames=["th"], categories=["all"])
    status = crd_conditions(made, [], now=lambda: WHEN)
    assert status == {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "True",
                "lastTransitionTime": WHEN,
                "reason": "NoConflicts",
                "message": "no conflicts found",
            },
            {
                "type": "Established",
                "status": "True",
                "lastTransitionTime": WHEN,
                "reason": "InitialNamesAccepted",
                "message": "the initial names have been accepted",
            },
        ],
        "acceptedNames": {
            "plural": "things",
            "singular": "thing",
            "shortNames": ["th"],
            "kind": "Thing",
            "listKind": "ThingList",
            "categories": ["all"],
        },
        "storedVersions": ["v1"],
    }
    made["status"] = status
    assert is_established(made)
    assert crd_conditions(made, [], now=lambda: "later") == status


@pytest.mark.parametrize(
    ("names", "reason", "message"),
    [
        pytest.param(
            {"kind": "Thing"}, "ListKindConflict", '"ThingList" is already in use', id="kind"
        ),
        pytest.param(
            {"kind": "Other", "shortNames": ["th"]},
            "ShortNamesConflict",
            '"th" is already in use',
            id="short-name",
        ),
        pytest.param(
            {"kind": "Other", "singular": "things"},
            "SingularConflict",
            '"things" is already in use',
            id="singular",
        ),
    ],
)
def test_names_of_another_crd_are_refused(names: dict[str, Any], reason: str, message: str) -> None:
    first = crd(shortNames=["th"])
    first["status"] = crd_conditions(first, [], now=lambda: WHEN)
    second = crd("others", **names)
    found = conditions(crd_conditions(second, [first], now=lambda: WHEN))
    assert found["NamesAccepted"] == ("False", reason, message)
    assert found["Established"] == ("False", "NotAccepted", "not all names are accepted")
    second["spec"]["group"] = "else.example.com"
    assert conditions(crd_conditions(second, [first]))["Established"][0] == "True"


def established() -> dict[str, Any]:
    made = crd()
    made["status"] = crd_conditions(made, [], now=lambda: WHEN)
    return made


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        pytest.param(("scope",), "Cluster", ["spec.scope"], id="scope"),
        pytest.param(("names", "kind"), "Other", ["spec.names.kind"], id="kind"),
        pytest.param(("names", "plural"), "others", ["spec.names.plural"], id="plural"),
        pytest.param(("group",), "b.example.com", ["spec.group"], id="group"),
        pytest.param(("names", "shortNames"), ["x"], [], id="short-names-may-change"),
    ],
)
def test_updates(path: tuple[str, ...], value: Any, expected: list[str]) -> None:
    old = established()
    new = copy.deepcopy(old)
    at = new["spec"]
    for name in path[:-1]:
        at = at[name]
    at[path[-1]] = value
    found = validate_crd_update(new, old)
    assert [p.field for p in found] == expected
    assert all(p.body.endswith("field is immutable") for p in found)


def test_a_stored_version_must_stay() -> None:
    old = established()
    new = copy.deepcopy(old)
    new["spec"]["versions"][0]["name"] = "v2"
    new["status"]["storedVersions"] = ["v1", "v2"]
    assert [(p.field, p.body) for p in validate_crd_update(new, old)] == [
        (
            "status.storedVersions[0]",
            'Invalid value: "v1": missing from spec.versions; v1 was previously a storage version, '
            "and must remain in spec.versions until a storage migration ensures no data remains "
            "persisted in v1 and removes v1 from status.storedVersions",
        )
    ]


def test_schemas_that_differ_are_reported_per_version() -> None:
    made = crd()
    second = copy.deepcopy(made["spec"]["versions"][0]) | {"name": "v2", "storage": False}
    second["schema"]["openAPIV3Schema"]["properties"] = {"spec": {}}
    made["spec"]["versions"].append(second)
    assert [p.field for p in validate_crd(made)] == [
        "spec.versions[1].schema.openAPIV3Schema.properties[spec].type"
    ]


def test_at_most_eight_selectable_fields() -> None:
    made = crd()
    version = made["spec"]["versions"][0]
    names = [f"f{i}" for i in range(9)]
    props = {name: {"type": "string"} for name in names}
    version["schema"]["openAPIV3Schema"]["properties"] = {
        "spec": {"type": "object", "properties": props}
    }
    version["selectableFields"] = [{"jsonPath": f".spec.{name}"} for name in names]
    assert [str(p) for p in validate_crd(made)] == [
        "spec.selectableFields: Too many: 9: must have at most 8 items"
    ]
    assert validate_crd_update(made, copy.deepcopy(made)) == []


def test_rules_over_the_limit_of_one_stay_where_the_schema_does() -> None:
    """They came before the limit did: another field of the definition can still be changed."""
    made = crd()
    numbers: dict[str, Any] = {"type": "array", "maxItems": 2_000, "items": {"type": "integer"}}
    rule = {"rule": "self.all(a, self.all(b, a + b >= 0))"}
    numbers["x-kubernetes-validations"] = [rule]
    schema = {"type": "object", "properties": {"spec": numbers}}
    made["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    changed = copy.deepcopy(made)
    changed["spec"]["names"]["shortNames"] = ["th"]
    assert [p.type for p in validate_crd(changed)] == ["FieldValueForbidden"]
    assert validate_crd_update(changed, made) == []
    rule["rule"] += " && true"
    assert [p.type for p in validate_crd_update(changed, made)] == ["FieldValueForbidden"]
