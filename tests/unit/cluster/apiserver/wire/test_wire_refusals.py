"""The texts of a real Kubernetes 1.37 server for the same bodies."""

from typing import Any

import orjson
import pytest

from corral.cluster.apiserver.codec import decode_json, message, normalise, strict_error
from corral.kube import errors


def refusal(name: str, body: bytes | dict[str, Any]) -> str:
    raw = body if isinstance(body, bytes) else orjson.dumps(body)
    with pytest.raises(errors.BadRequest) as caught:
        decode_json(message(name), raw, strict=True)
    assert caught.value.status["code"] == 400
    return caught.value.message


POD = 'Pod in version "v1" cannot be handled as a Pod: '


def container(**fields: Any) -> dict[str, Any]:
    return {"spec": {"containers": [fields]}}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"metadata": 5},
         "json: cannot unmarshal number into Go struct field Pod.metadata of type v1.ObjectMeta"),
        ({"spec": {"containers": "x"}},
         "json: cannot unmarshal string into Go struct field PodSpec.spec.containers "
         "of type []v1.Container"),
        (container(name=5),
         "json: cannot unmarshal number into Go struct field Container.spec.containers.name "
         "of type string"),
        (container(imagePullPolicy=5),
         "json: cannot unmarshal number into Go struct field "
         "Container.spec.containers.imagePullPolicy of type v1.PullPolicy"),
        (container(ports=[{"containerPort": 1.5}]),
         "json: cannot unmarshal number 1.5 into Go struct field "
         "ContainerPort.spec.containers.ports.containerPort of type int32"),
        (container(ports=[{"containerPort": 3000000000}]),
         "json: cannot unmarshal number 3000000000 into Go struct field "
         "ContainerPort.spec.containers.ports.containerPort of type int32"),
        ({"spec": {"volumes": [{"hostPath": {"path": 5}}]}},
         "json: cannot unmarshal number into Go struct field "
         "HostPathVolumeSource.spec.volumes.VolumeSource.hostPath.path of type string"),
        (container(livenessProbe={"httpGet": {"port": True}}),
         "json: cannot unmarshal bool into Go struct field "
         "HTTPGetAction.spec.containers.livenessProbe.ProbeHandler.httpGet.port of type int32"),
        (container(resources={"limits": {"cpu": "1x"}}),
         "quantities must match the regular expression "
         "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"),
        (container(resources={"limits": {"cpu": "1K"}}), "unable to parse quantity's suffix"),
        ({"metadata": {"labels": {"a": 1}}},
         "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels "
         "of type string"),
        ({"metadata": {"creationTimestamp": 5}},
         "json: cannot unmarshal number into Go struct field "
         "ObjectMeta.metadata.creationTimestamp of type string"),
        ({"metadata": {"creationTimestamp": "x"}},
         'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        # The first wrong type in the text is named, but a bad value ends decoding at once.
        ({"spec": {"hostNetwork": "a", "nodeName": 5}},
         "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork "
         "of type bool"),
        ({"spec": {"hostNetwork": "a"}, "metadata": {"creationTimestamp": ""}},
         'parsing time "" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "2006"'),
    ],
)  # fmt: skip
def test_wrong_types(body: dict[str, Any], text: str) -> None:
    assert refusal("core/v1.Pod", body) == POD + text
    with pytest.raises(errors.BadRequest):
        normalise(message("core/v1.Pod"), body)


def test_the_literal_of_a_number_is_kept() -> None:
    assert refusal("apps/v1.Deployment", b'{"spec":{"replicas":1e3}}') == (
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal '
        "number 1e3 into Go struct field DeploymentSpec.spec.replicas of type int32"
    )


def test_wrong_type_inside_a_schema_alternative() -> None:
    body = {"spec": {"versions": [{"schema": {"openAPIV3Schema": {"items": {"type": 5}}}}]}}
    assert refusal("apiextensions/v1.CustomResourceDefinition", body).endswith(
        "json: cannot unmarshal number into Go struct field "
        "JSONSchemaProps.spec.versions.schema.openAPIV3Schema.items.type of type string"
    )


@pytest.mark.parametrize(
    ("text", "byte"),
    [("!!", 0), ("QQ", 0), ("QQ=", 3), ("QUJD=", 4), ("QUJD!", 4), ("QQ==QQ==", 4), ("AA=A", 2)],
)
def test_bad_base64(text: str, byte: int) -> None:
    assert refusal("core/v1.Secret", {"data": {"a": text}}) == (
        'Secret in version "v1" cannot be handled as a Secret: '
        f"illegal base64 data at input byte {byte}"
    )


UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
NO_KIND = UNRECOGNIZED + "couldn't get version/kind; json parse error: "
META = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"a":', 'unexpected end of JSON input ({"a":)'),
        (b'{"a" 1}', "invalid character '1' after object key ({\"a\" 1})"),
        (b"", "unexpected end of JSON input (<empty>)"),
        (b"hello", "invalid character 'h' looking for beginning of value (68656c6c6f)"),
        (b"tru", "invalid character ' ' in literal true (expecting 'e') (747275)"),
        (b"[1,]", "invalid character ']' looking for beginning of value (5b312c5d)"),
        (b"[1 2]", "invalid character '2' after array element (5b3120325d)"),
        (b"{}{}", "invalid character '{' after top-level value ({}{})"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string "
                      '({"a":1,})'),
        (b'{"a":"\t"}', "invalid character '\\t' in string literal ({\"a\":\"\t\"})"),
        (b'{"a":01}', "invalid character '1' after object key:value pair ({\"a\":01})"),
        (b'{"a":1.x}', "invalid character 'x' after decimal point in numeric literal "
                       '({"a":1.x})'),
        (b"[]", f"json: cannot unmarshal array into Go value of type {META} (5b5d)"),
        (b'{"kind":5}', "json: cannot unmarshal number into Go struct field .kind of type string "
                        '({"kind":5})'),
        (b"[" * 12000, "invalid character '[' exceeded max depth (" + "5b" * 30 + " ...)"),
    ],
)  # fmt: skip
def test_not_an_object(body: bytes, text: str) -> None:
    assert refusal("core/v1.ConfigMap", body) == NO_KIND + text


@pytest.mark.parametrize(
    ("kind", "api_version", "text"),
    [
        ("Deployment", "apps/v1",
         'Deployment in version "v1" cannot be handled as a ConfigMap: '
         "converting (v1.Deployment) to (core.ConfigMap): unknown conversion"),
        ("Foo", "v1",
         'Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered '
         'for version "v1" in scheme "pkg/runtime/scheme.go:111"'),
        ("ConfigMap", "apps/v1",
         'ConfigMap in version "v1" cannot be handled as a ConfigMap: no kind "ConfigMap" is '
         'registered for version "apps/v1" in scheme "pkg/runtime/scheme.go:111"'),
        ("", "a/b/c", UNRECOGNIZED + "unexpected GroupVersion string: a/b/c "
                      '({"kind":"","apiVersion":"a/b/c ...)'),
    ],
)  # fmt: skip
def test_another_kind(kind: str, api_version: str, text: str) -> None:
    assert refusal("core/v1.ConfigMap", {"kind": kind, "apiVersion": api_version}) == text


def test_another_version_of_the_kind() -> None:
    body = {"kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2"}
    assert refusal("autoscaling/v1.HorizontalPodAutoscaler", body) == (
        "the API version in the data (autoscaling/v2) does not match "
        "the expected API version (autoscaling/v1)"
    )


def test_a_strict_request() -> None:
    error = strict_error(message("core/v1.ConfigMap"), ['unknown field "a"', 'unknown field "b"'])
    assert error.message == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        'strict decoding error: unknown field "a", unknown field "b"'
    )


def test_deep_schemas_end_in_a_refusal() -> None:
    schema = b'{"items":' * 900 + b"{}" + b"}" * 900
    body = b'{"spec":{"versions":[{"schema":{"openAPIV3Schema":' + schema + b"}}]}}"
    text = refusal("apiextensions/v1.CustomResourceDefinition", body)
    assert text.endswith("exceeded max depth")
