"""What a real server says to strategic patches of these contents."""

from typing import Any

import pytest

from corral.cluster.apiserver.codec import message, restore_error, whole_numbers


def pod(**spec: Any) -> dict[str, Any]:
    return {"spec": spec}


def limits(value: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "resources": {"limits": {"cpu": value}}}])


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        pytest.param({}, None, id="empty"),
        pytest.param({"metadata": {"labels": None}}, None, id="null"),
        pytest.param({"metadata": "x"}, "cannot restore struct from: string", id="struct"),
        pytest.param({"metadata": {"labels": ["x"]}}, "cannot restore map from slice", id="map"),
        pytest.param(pod(containers={}), "cannot restore slice from map", id="slice"),
        pytest.param(pod(nodeName=1), "cannot convert int64 to string", id="int to string"),
        pytest.param(pod(nodeName=1.5), "unrecognized type: string", id="float to string"),
        pytest.param(pod(dnsPolicy=1), "cannot convert int64 to v1.DNSPolicy", id="named string"),
        pytest.param(pod(dnsPolicy={}), "unrecognized type: string", id="map to string"),
        pytest.param(pod(hostNetwork="x"), "unrecognized type: bool", id="string to bool"),
        pytest.param(pod(priority="x"), "unrecognized type: int32", id="string to pointer to int"),
        pytest.param(pod(priority=1.5), "cannot convert float64 to int32", id="fraction"),
        pytest.param(pod(priority=2.0), None, id="whole float"),
        pytest.param(
            {"metadata": {"creationTimestamp": 5}},
            "json: cannot unmarshal number into Go value of type string",
            id="time",
        ),
        pytest.param(
            limits("x"),
            "quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            id="quantity",
        ),
        pytest.param(limits("1"), None, id="good quantity"),
        pytest.param(
            {"metadata": "x", "spec": "y"}, "cannot restore struct from: string", id="first counts"
        ),
    ],
)
def test_pods(obj: dict[str, Any], error: str | None) -> None:
    assert restore_error(message("core/v1.Pod"), obj) == error


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("YQ==", None),
        ([1, 2], None),
        ("*", "error decoding from json: illegal base64 data at input byte 0"),
        (5, "cannot restore slice from int64"),
    ],
)
def test_bytes(value: Any, error: str | None) -> None:
    assert restore_error(message("core/v1.Secret"), {"data": {"a": value}}) == error


def test_whole_numbers() -> None:
    given = {"a": 2.0, "b": [1.5, {"c": 3.0}], "d": "2.0", "e": True}
    changed = whole_numbers(given)
    assert changed == {"a": 2, "b": [1.5, {"c": 3}], "d": "2.0", "e": True}
    assert type(changed["a"]) is int


@pytest.mark.parametrize("value", [2.0**63, -(2.0**64), 1e30])
def test_what_no_int64_holds_stays_a_float(value: float) -> None:
    assert type(whole_numbers([value])[0]) is float
    assert whole_numbers(-(2.0**63)) == -(2**63)
