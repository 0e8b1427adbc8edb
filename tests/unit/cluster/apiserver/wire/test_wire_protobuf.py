"""Bodies as kubectl 1.32 and client-go send them."""

import json
from typing import Any

import pytest

from corral.cluster.apiserver.codec import decode_protobuf, message
from corral.kube import errors

CAPTURED: dict[str, tuple[str, dict[str, Any]]] = {
    "secret": (
        "6b3873000a0c0a0276311206536563726574121d0a110a017312001a0022002a0032003800420012060a01611201"
        "621a001a002200",
        {"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "s"}, "data": {"a": "Yg=="}},
    ),
    "deployment": (
        "6b3873000a150a07617070732f7631120a4465706c6f796d656e7412a3010a1b0a016412001a0022002a00320038"
        "0042005a080a0361707012016412760802120a0a080a036170701201641a5e0a1a0a0012001a0022002a003200380"
        "042005a080a03617070120164124012220a056e67696e7812056e67696e782a0042006a0072008001008801009001"
        "00a201001a00320042004a0052005800600068008201008a01009a0100c2010022020a00280038001a0c080010001"
        "8002000280038001a002200",
        {"kind": "Deployment", "apiVersion": "apps/v1",
         "metadata": {"name": "d", "labels": {"app": "d"}},
         "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "d"}},
                  "template": {"metadata": {"labels": {"app": "d"}},
                               "spec": {"containers": [{"name": "nginx", "image": "nginx",
                                                        "resources": {}}]}},
                  "strategy": {}},
         "status": {}},
    ),
    "job": (
        "6b3873000a0f0a0862617463682f763112034a6f62127e0a110a016a12001a0022002a00320038004200125f325d"
        "0a100a0012001a0022002a00320038004200124912260a016a120762757379626f781a04646174652a0042006a007"
        "200800100880100900100a201001a054e65766572320042004a0052005800600068008201008a01009a0100c20100"
        "1a082000280030003a001a002200",
        {"kind": "Job", "apiVersion": "batch/v1", "metadata": {"name": "j"},
         "spec": {"template": {"metadata": {},
                               "spec": {"containers": [{"name": "j", "image": "busybox",
                                                        "command": ["date"], "resources": {}}],
                                        "restartPolicy": "Never"}}},
         "status": {}},
    ),
    "service": (
        "6b3873000a0d0a02763112075365727669636512690a1f0a0373766312001a0022002a003200380042005a0a0a03"
        "617070120373766312420a1b0a0738302d38303830120354435018502207080010903f1a002800120a0a036170701"
        "2037376631a002209436c757374657249503a00420052005a00600068001a020a001a002200",
        {"kind": "Service", "apiVersion": "v1",
         "metadata": {"name": "svc", "labels": {"app": "svc"}},
         "spec": {"ports": [{"name": "80-8080", "protocol": "TCP", "port": 80,
                             "targetPort": 8080}],
                  "selector": {"app": "svc"}, "type": "ClusterIP"},
         "status": {"loadBalancer": {}}},
    ),
    "quota": (
        "6b3873000a130a027631120d5265736f7572636551756f746112330a110a017112001a0022002a00320038004200"
        "121c0a0a0a0363707512030a01310a0e0a066d656d6f727912040a0231471a001a002200",
        {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"},
         "spec": {"hard": {"cpu": "1", "memory": "1G"}}, "status": {}},
    ),
    "access review": (
        "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a6563744163"
        "63657373526576696577123c0a100a0012001a0022002a00320038004200121e0a1c0a0764656661756c7412036765"
        "741a0022002a04706f647332003a001a08080012001a0020001a002200",
        {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {},
         "spec": {"resourceAttributes": {"namespace": "default", "verb": "get",
                                         "resource": "pods"}},
         "status": {"allowed": False}},
    ),
    "ingress": (
        "6b3873000a1f0a146e6574776f726b696e672e6b38732e696f2f76311207496e677265737312410a110a01691200"
        "1a0022002a0032003800420012281a260a03612e62121f0a1d0a1b0a022f78120d220b0a0373766312040a0010501"
        "a065072656669781a020a001a002200",
        {"kind": "Ingress", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": "i"},
         "spec": {"rules": [{"host": "a.b", "http": {"paths": [
             {"path": "/x", "pathType": "Prefix",
              "backend": {"service": {"name": "svc", "port": {"number": 80}}}}]}}]},
         "status": {"loadBalancer": {}}},
    ),
    "budget": (
        "6b3873000a200a09706f6c6963792f76311213506f6444697372757074696f6e42756467657412330a110a017012"
        "001a0022002a0032003800420012120a06080010011a0012080a060a01611201621a0a080018002000280030001a0"
        "02200",
        {"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"name": "p"},
         "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
         "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0,
                    "expectedPods": 0}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CAPTURED)
def test_what_kubectl_sends(name: str) -> None:
    body, expected = CAPTURED[name]
    assert json.dumps(decode_protobuf(bytes.fromhex(body), None)) == json.dumps(expected)


def number(value: int) -> bytes:
    value &= 2**64 - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(at: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return number(at << 3) + number(value)
    return number(at << 3 | 2) + number(len(value)) + value


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    meta = field(1, api_version.encode()) + field(2, kind.encode())
    return b"k8s\0" + field(1, meta) + field(2, raw)


def test_delete_options() -> None:
    raw = field(1, 0) + field(2, field(1, b"uid-1")) + field(4, b"Background") + field(5, b"All")
    assert decode_protobuf(envelope("v1", "DeleteOptions", raw), None) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "gracePeriodSeconds": 0,
        "preconditions": {"uid": "uid-1"},
        "propagationPolicy": "Background",
        "dryRun": ["All"],
    }


def test_times_numbers_and_raw_values() -> None:
    entry = field(1, b"m") + field(4, field(1, 1577836800)) + field(7, field(1, b'{"f:x":{}}'))
    meta = field(1, b"l") + field(7, -5) + field(8, field(1, 0) + field(2, 0)) + field(17, entry)
    spec = field(2, -1) + field(4, field(1, 1577836800) + field(2, 123456789))
    body = envelope("coordination.k8s.io/v1", "Lease", field(1, meta) + field(2, spec))
    out = decode_protobuf(body, message("coordination/v1.Lease"))
    assert out["metadata"] == {
        "name": "l",
        "generation": -5,
        "creationTimestamp": "1970-01-01T00:00:00Z",
        "managedFields": [
            {"manager": "m", "time": "2020-01-01T00:00:00Z", "fieldsV1": {"f:x": {}}}
        ],
    }
    assert out["spec"] == {
        "leaseDurationSeconds": -1,
        "renewTime": "2020-01-01T00:00:00.123456Z",
    }


def test_repeated_numbers_packed_or_not() -> None:
    msg = message("batch/v1.Job")
    for values in (field(3, 1) + field(3, 300), field(3, number(1) + number(300))):
        codes = field(2, b"In") + values
        rule = field(1, b"FailJob") + field(2, codes)
        raw = field(2, field(11, field(1, rule)))
        spec = decode_protobuf(envelope("batch/v1", "Job", raw), msg)["spec"]
        rules = spec["podFailurePolicy"]["rules"]
        assert rules[0]["onExitCodes"]["values"] == [1, 300]


def test_schema_alternatives() -> None:
    inner = field(5, b"string")
    schema = (
        field(5, b"object")
        + field(24, field(1, inner))
        + field(30, field(1, 1))
        + field(29, field(1, b"a") + field(2, inner))
        + number(11 << 3 | 1)
        + bytes.fromhex("000000000000f83f")  # 1.5
    )
    version = field(1, b"v1") + field(4, field(1, schema))
    raw = field(2, field(7, version))
    body = envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw)
    found = decode_protobuf(body, None)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert found == {
        "type": "object",
        "minimum": 1.5,
        "items": {"type": "string"},
        "properties": {"a": {"type": "string"}},
        "additionalProperties": True,
    }


POD = message("core/v1.Pod")
UNRECOGNIZED = "the object provided is unrecognized (must be of type Pod): "
HANDLED = 'Pod in version "v1" cannot be handled as a Pod: '


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", UNRECOGNIZED + "empty data (<empty>)"),
        (b"hello", UNRECOGNIZED + "provided data does not appear to be a protobuf message, "
                   "expected prefix [107 56 115 0] (68656c6c6f)"),
        (b"k8s\0", UNRECOGNIZED + "empty body (6b387300)"),
        (b"k8s\0\x0a\xff", UNRECOGNIZED + "unexpected EOF (6b3873000aff)"),
        (envelope("v1", "Pod", b"\x0a\x7f"), HANDLED + "unexpected EOF"),
        (envelope("v1", "Pod", field(1, 5)), HANDLED + "proto: wrong wireType = 0"),
        (envelope("v1", "Pod", b"\x0f"), HANDLED + "proto: illegal wireType 7"),
        (envelope("v1", "Pod", b"\x0c"), HANDLED + "proto: wiretype end group for non-group"),
        (envelope("v1", "Pod", b"\xff" * 11), HANDLED + "proto: integer overflow"),
        (envelope("v1", "Secret", b""),
         'Secret in version "v1" cannot be handled as a Pod: '
         "converting (v1.Secret) to (core.Pod): unknown conversion"),
        (envelope("v1", "Foo", b""),
         'Foo in version "v1" cannot be handled as a Pod: no kind "Foo" is registered for '
         'version "v1" in scheme "pkg/runtime/scheme.go:111"'),
    ],
)  # fmt: skip
def test_malformed(body: bytes, text: str) -> None:
    with pytest.raises(errors.BadRequest) as caught:
        decode_protobuf(body, POD)
    assert caught.value.message == text


def test_nesting_is_bounded() -> None:
    schema = field(5, b"object")
    for _ in range(500):
        schema = field(24, field(1, schema))
    raw = field(2, field(7, field(4, field(1, schema))))
    with pytest.raises(errors.BadRequest, match="nested too deep"):
        decode_protobuf(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", raw), None)


def test_every_cut_of_a_body_is_refused_or_read() -> None:
    body = bytes.fromhex(CAPTURED["deployment"][0])
    refused = 0
    for end in range(len(body)):
        try:
            assert decode_protobuf(body[:end], None)["kind"] == "Deployment"
        except errors.BadRequest:
            refused += 1
    assert refused > len(body) // 2
