import pytest

from corral.cluster.apiserver.codec import message, message_for


def test_fields_carry_the_facts_of_the_struct_tags() -> None:
    spec = message("apps/v1.DeploymentSpec")
    replicas = spec.field("replicas")
    assert replicas is not None
    assert (replicas.number, replicas.type.text, replicas.omitempty) == (1, "*int32", True)
    template = spec.field("template")
    assert template is not None
    assert (template.number, template.type.text, template.omitempty) == (
        3,
        "core/v1.PodTemplateSpec",
        False,
    )


def test_embedded_structs_are_dissolved_for_json_and_kept_for_protobuf() -> None:
    volume = message("core/v1.Volume")
    host_path = volume.field("hostPath")
    assert host_path is not None
    assert host_path.path == ("VolumeSource",)
    assert [(f.name, f.number) for f in volume.own] == [("name", 1), ("VolumeSource", 2)]


@pytest.mark.parametrize(
    ("group", "version", "kind", "name"),
    [
        ("", "v1", "Pod", "core/v1.Pod"),
        ("apps", "v1", "Deployment", "apps/v1.Deployment"),
        ("apps", "v1", "DeploymentList", "apps/v1.DeploymentList"),
        ("autoscaling", "v1", "Scale", "autoscaling/v1.Scale"),
        ("policy", "v1", "Eviction", "policy/v1.Eviction"),
        ("authentication.k8s.io", "v1", "TokenRequest", "authentication/v1.TokenRequest"),
        ("rbac.authorization.k8s.io", "v1", "ClusterRole", "rbac/v1.ClusterRole"),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition",
         "apiextensions/v1.CustomResourceDefinition"),
        ("apiregistration.k8s.io", "v1", "APIService", "apiregistration/v1.APIService"),
        ("metrics.k8s.io", "v1beta1", "PodMetrics", "metrics/v1beta1.PodMetrics"),
        ("apps", "v1", "DeleteOptions", "meta/v1.DeleteOptions"),
        ("", "v1", "Status", "meta/v1.Status"),
    ],
)  # fmt: skip
def test_kinds(group: str, version: str, kind: str, name: str) -> None:
    found = message_for(group, version, kind)
    assert found is message(name)
    assert found.kind == kind


def test_what_is_not_built_in() -> None:
    assert message_for("example.com", "v1", "Widget") is None
    assert message_for("apps", "v1", "Pod") is None
    with pytest.raises(KeyError):
        message("apps/v1.Nothing")


def test_group_and_version_of_a_kind() -> None:
    lease = message("coordination/v1.Lease")
    assert (lease.group, lease.api_version) == ("coordination.k8s.io", "coordination.k8s.io/v1")
    assert message("core/v1.Pod").api_version == "v1"
