"""The definitions of the built-in kinds; expected values are those of a kube-apiserver 1.37."""

from importlib import resources
from typing import Any

import orjson
import pytest

from corral.cluster.apiserver import schema
from corral.cluster.apiserver.schema import definition_name, definitions, field_description

ENUMS: dict[str, tuple[str, list[str]]] = {
    "field": ("core.v1.PodSpec.restartPolicy", ["Always", "Never", "OnFailure"]),
    "pointer": ("core.v1.PodSpec.preemptionPolicy", ["Never", "PreemptLowerPriority"]),
    "type of another group": ("storage.v1.StorageClass.reclaimPolicy",
        ["Delete", "Recycle", "Retain"]),
    "field of an embedded struct": ("core.v1.EphemeralContainer.imagePullPolicy",
        ["Always", "IfNotPresent", "Never"]),
    "embedded twice": ("admissionregistration.v1.NamedRuleWithOperations.scope",
        ["*", "Cluster", "Namespaced"]),
    "converted constants": ("networking.v1.HTTPIngressPath.pathType",
        ["Exact", "ImplementationSpecific", "Prefix"]),
    "constants of another package": ("discovery.v1.EndpointSlice.addressType",
        ["FQDN", "IPv4", "IPv6"]),
    "a type that is not marked": ("core.v1.EmptyDirVolumeSource.medium", []),
    "kind": ("core.v1.Pod.kind", []),
    "apiVersion": ("apps.v1.DeploymentList.apiVersion", []),
    "no enum": ("core.v1.PodSpec.nodeName", []),
}  # fmt: skip


def field(path: str) -> dict[str, Any]:
    definition, _, name = path.rpartition(".")
    found: dict[str, Any] = definitions()[f"io.k8s.api.{definition}"]["properties"][name]
    return found


@pytest.mark.parametrize(("path", "values"), ENUMS.values(), ids=ENUMS.keys())
def test_fields_list_their_values(path: str, values: list[str]) -> None:
    assert field(path).get("enum", []) == values


ITEMS = {
    "list": (
        "admissionregistration.v1.RuleWithOperations.operations",
        "items",
        ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"],
    ),
    "list of another type's": (
        "core.v1.PersistentVolumeClaimStatus.accessModes",
        "items",
        ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"],
    ),
    "map": (
        "core.v1.PersistentVolumeClaimStatus.allocatedResourceStatuses",
        "additionalProperties",
        [
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
            "NodeResizePending",
        ],
    ),
}


@pytest.mark.parametrize(("path", "part", "values"), ITEMS.values(), ids=ITEMS.keys())
def test_items_list_their_values(path: str, part: str, values: list[str]) -> None:
    found = field(path)
    assert found[part] == {"type": "string", "enum": values}
    assert "enum" not in found
    assert "Possible enum values" not in found["description"]


def test_descriptions_end_with_the_values() -> None:
    text = field("core.v1.PodSpec.restartPolicy")["description"]
    assert text.endswith(
        "/pod-lifecycle/#restart-policy\n\n"
        'Possible enum values:\n - `"Always"`\n - `"Never"`\n - `"OnFailure"`'
    )


def test_field_descriptions_are_without_the_values() -> None:
    text = field_description("io.k8s.api.core.v1.PodSpec", "restartPolicy")
    assert text.endswith("/pod-lifecycle/#restart-policy")
    name = field_description("io.k8s.api.core.v1.PodSpec", "nodeName")
    assert name == field("core.v1.PodSpec.nodeName")["description"]


def test_no_enum_is_empty_and_all_have_string_values() -> None:
    raw = resources.files(schema.__package__).joinpath("enums.json").read_bytes()
    listed: dict[str, dict[str, list[str]]] = orjson.loads(raw)
    for name, fields in listed.items():
        properties = definitions()[name]["properties"] if name in definitions() else {}
        for key, values in fields.items():
            assert values == sorted(set(values)) != [], (name, key)
            node = properties.get(key, {"type": "string"})
            inner = node.get("items") or node.get("additionalProperties") or node
            assert inner["type"] == "string", (name, key)


def test_names_of_kinds() -> None:
    assert definition_name("apps", "v1", "Deployment") == "io.k8s.api.apps.v1.Deployment"
    assert definition_name("", "v1", "Pod") == "io.k8s.api.core.v1.Pod"
    assert definition_name("example.com", "v1", "Widget") is None
